"""What reading the log found, as the report lists it: a few rows, of every kind some."""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

MAX_FINDINGS: Final = 20


def shown_findings(ingest_findings: DataFrame, velocity: DataFrame, rebalance_stats: DataFrame) -> DataFrame:
    """At most MAX_FINDINGS, in the order in which they were found, each with `n_of_kind`, of how many.

    In: silver `ingest_findings`, gold `velocity` and `rebalance_stats` of all groups. Aborted transactions may be
    many: the first ones of every kind are shown before the later ones of any. A transaction that was open when an
    ingest came by is left out where it has ended since: then something from its first offset on has been read.
    """
    read = (
        velocity.select("log_partition", sf.col("last_log_offset").alias("read_offset")),
        rebalance_stats.select("log_partition", "last_log_offset"),
        ingest_findings.where("kind = 'aborted_transaction'").select("log_partition", "first_offset"),
    )
    reached = (
        reduce(DataFrame.union, read).groupBy("log_partition").agg(sf.max("read_offset").alias("reached"))
    )
    is_over = (sf.col("kind") == "open_transaction") & (sf.col("reached") >= sf.col("first_offset"))
    order = "found_ts", "log_partition", "first_offset"
    of_kind = Window.partitionBy("kind")
    return (
        ingest_findings.join(sf.broadcast(reached), "log_partition", "left")
        .where(~sf.coalesce(is_over, sf.lit(False)))
        .withColumn("n_of_kind", sf.count("*").over(of_kind))
        .withColumn("place", sf.row_number().over(of_kind.orderBy(*order)))
        .orderBy("place", *order)
        .limit(MAX_FINDINGS)
        .orderBy(*order)
    )
