"""What the gold tables were made from: one row, so that every number in a report can say where it stands."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

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
    """,
)


def build_info(
    commits: DataFrame,
    group_generations: DataFrame,
    log_end_offsets: DataFrame,
    *,
    built_ts: Column,
    as_of_ts: Column,
    step_s: int,
    retention_minutes: int,
) -> DataFrame:
    """In: silver `commits` and `group_generations`, gold `log_end_offsets`, and how the build was done."""
    records = (
        commits.select("record_ts", "tombstone", sf.lit(True).alias("is_commit"))
        .unionByName(group_generations.select("record_ts", "tombstone", sf.lit(False).alias("is_commit")))
        .agg(
            sf.min("record_ts").alias("first_record_ts"),
            sf.max("record_ts").alias("last_record_ts"),
            sf.count_if(sf.col("is_commit") & ~sf.col("tombstone")).alias("commits"),
            sf.count_if(sf.col("is_commit") & sf.col("tombstone")).alias("removed_offsets"),
            sf.count_if(~sf.col("is_commit")).alias("group_records"),
        )
    )
    ends = log_end_offsets.agg(
        sf.count("*").alias("log_end_offsets"),
        sf.array_join(sf.array_sort(sf.collect_set("source")), ", ").alias("log_end_source"),
    )
    return BUILD_INFO.shape(
        records.crossJoin(ends)
        .withColumn("built_ts", built_ts)
        .withColumn("as_of_ts", as_of_ts)
        .withColumn("step_s", sf.lit(step_s))
        .withColumn("retention_minutes", sf.lit(retention_minutes))
    )
