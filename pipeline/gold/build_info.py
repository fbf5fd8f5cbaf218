"""What the gold tables were made from: one row, so that every number in a report can say where it stands."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.fold import Fold, sums
from pipeline.table import Table

BUILD_INFO: Final = Table.declare(
    "build_info",
    """
    built_ts timestamp
    first_record_ts timestamp
    last_record_ts timestamp
    as_of_ts timestamp
    commits bigint
    removed_offsets bigint
    group_records bigint
    step_s int
    retention_minutes int
    log_end_offsets bigint
    log_end_source string
    lag_ts timestamp
    """,
)


_ENDS: Final = {"earliest": "first", "latest": "last"}


def _rows(cells: DataFrame) -> DataFrame:
    removed = sf.when(sf.col("tombstone"), sf.col("commits")).otherwise(0)
    return cells.select(
        "log_partition",
        *(sf.col(f"{long}_record_ts").alias(f"{short}_record_ts") for long, short in _ENDS.items()),
        (sf.col("commits") - removed).alias("commits"),
        removed.alias("removed_offsets"),
    )


TOTALS: Final = Fold(
    "totals",
    ("log_partition",),
    _rows,
    lambda: [
        sf.min("first_record_ts").alias("first_record_ts"),
        sf.max("last_record_ts").alias("last_record_ts"),
        *sums("commits", "removed_offsets"),
    ],
)


def build_info(
    totals: DataFrame,
    group_generations: DataFrame,
    log_end_offsets: DataFrame,
    *,
    built_ts: Column,
    as_of_ts: Column,
    lag_ts: Column,
    step_s: int,
    retention_minutes: int,
) -> DataFrame:
    """In: the fold TOTALS, silver `group_generations`, gold `log_end_offsets`, and how the build was done."""
    of_groups = group_generations.agg(
        sf.min("record_ts").alias("first_record_ts"),
        sf.max("record_ts").alias("last_record_ts"),
        sf.count("*").alias("group_records"),
    )
    records = totals.unionByName(of_groups, allowMissingColumns=True).agg(
        sf.min("first_record_ts").alias("first_record_ts"),
        sf.max("last_record_ts").alias("last_record_ts"),
        *(
            sf.coalesce(sf.sum(name), sf.lit(0)).alias(name)
            for name in ("commits", "removed_offsets", "group_records")
        ),
    )
    ends = log_end_offsets.agg(
        sf.count("*").alias("log_end_offsets"),
        sf.array_join(sf.array_sort(sf.collect_set("source")), ", ").alias("log_end_source"),
    )
    return BUILD_INFO.shape(
        records.crossJoin(ends)
        .withColumn("built_ts", built_ts)
        .withColumn("as_of_ts", as_of_ts)
        .withColumn("lag_ts", lag_ts)
        .withColumn("step_s", sf.lit(step_s))
        .withColumn("retention_minutes", sf.lit(retention_minutes))
    )
