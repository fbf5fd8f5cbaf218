"""A group that has lost its members while what it should read goes on growing.

A group that is empty between two runs of a batch is none: it has come back from absences as long as this one.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.group_records import EMPTIED, GROUP

MIN_ALONE_S: Final = 60
_RETURNED: Final = "rebalance"
_PARTITION: Final = (*GROUP, "topic", "partition")


def abandoned_group(
    rebalance_stats: DataFrame, lag: DataFrame, log_end_offsets: DataFrame, as_of: Column
) -> DataFrame:
    """One row for each group that has had no member for MIN_ALONE_S and longer than it ever had before coming
    back, whose lag has grown meanwhile. `amount`: messages that wait now; `previous_offset`: how many waited then,
    NULL where nobody knows.

    In: gold `rebalance_stats`, `lag`, `log_end_offsets`, the time that counts as now. A commit
    after the last member had gone (a reset) shows that somebody looks after the group: then the time counts from
    there. Where no end was measured before the group was empty, how much of the lag is new is not known, and all
    of it counts.
    """
    empty = _empty(rebalance_stats, as_of)
    behind = (
        lag.where(sf.col("lag") > 0)
        .join(empty.select(*GROUP, "emptied_ts"), list(GROUP))
        .select(*_PARTITION, "offset", "lag", "emptied_ts", "commit_ts")
    )
    then = (
        behind.join(
            log_end_offsets.select("topic", "partition", "at_ts", "log_end_offset"), ["topic", "partition"]
        )
        .where(sf.col("at_ts") <= sf.col("emptied_ts"))
        .groupBy(*_PARTITION)
        .agg(sf.max_by("log_end_offset", "at_ts").alias("end_then"))
    )
    waits_then = sf.greatest(sf.col("end_then") - sf.col("offset"), sf.lit(0))
    grown = (
        behind.join(then, list(_PARTITION), "left")
        .withColumn("lag_then", sf.when(sf.col("end_then").isNotNull(), sf.least(waits_then, sf.col("lag"))))
        .groupBy(*GROUP)
        .agg(
            sf.sum("lag").alias("amount"),
            sf.sum(sf.coalesce("lag_then", sf.lit(0))).alias("lag_then"),
            (sf.count("lag_then") == sf.count("*")).alias("is_known"),
            sf.max("commit_ts").alias("last_commit_ts"),
        )
        .where(sf.col("amount") > sf.col("lag_then"))
    )
    found = (
        empty.join(grown, list(GROUP))
        .withColumn("ts", sf.greatest("emptied_ts", "last_commit_ts"))
        .withColumn("alone_ms", sf.unix_millis(as_of) - sf.unix_millis("ts"))
        .where(
            (sf.col("alone_ms") >= MIN_ALONE_S * 1000)
            & (sf.col("alone_ms") > sf.coalesce("longest_absence_ms", sf.lit(0)))
        )
    )
    before = sf.when(
        sf.col("is_known"), sf.concat(sf.lit("lag rose from "), "lag_then", sf.lit(" to "), "amount")
    ).otherwise(sf.concat(sf.lit("lag is "), "amount", sf.lit(", how much when the last left is not known")))
    detail = sf.concat(sf.lit("no member; "), before, sf.lit(" messages"))
    known = sf.when(sf.col("is_known"), sf.col("lag_then"))
    return anomaly("abandoned_group", found, until_ts=as_of, detail=detail, previous_offset=known)


def _empty(rebalance_stats: DataFrame, as_of: Column) -> DataFrame:
    """The groups that are there without members at the end, and the longest time after which one came back."""
    is_empty = sf.col("kind") == EMPTIED
    absence_ms = sf.unix_millis("ended_ts") - sf.unix_millis("record_ts")
    last = (
        sf.max_by(sf.col(name), "log_offset").alias(alias)
        for name, alias in (("kind", "kind"), ("record_ts", "emptied_ts"), ("generation", "generation"))
    )
    return (
        rebalance_stats.groupBy(*GROUP)
        .agg(
            *last,
            sf.max_by(sf.coalesce("ended_by", sf.lit("")), "log_offset").alias("ended_by"),
            sf.max(sf.when(is_empty & (sf.col("ended_by") == _RETURNED), absence_ms)).alias(
                "longest_absence_ms"
            ),
            sf.max("log_offset").alias("log_offset"),
        )
        .where(is_empty & (sf.col("ended_by") == "") & (sf.col("emptied_ts") <= as_of))
        .drop("kind", "ended_by")
    )
