"""How fast groups consume, by the minute."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.table import Table

VELOCITY: Final = Table.declare(
    "velocity",
    """
    log_partition int
    group string
    topic string
    partition int
    minute timestamp
    commits bigint
    unmoved_commits bigint
    rewinds bigint
    transactional_commits bigint
    last_offset bigint
    advance bigint
    elapsed_s double
    offsets_per_s double
    first_log_offset bigint
    last_log_offset bigint
    """,
)


def counters() -> list[Column]:
    """Aggregates of the commit history that add up over any grouping of it."""
    return [
        sf.count("*").alias("commits"),
        sf.sum(sf.col("is_unmoved").cast("long")).alias("unmoved_commits"),
        sf.sum(sf.col("is_rewind").cast("long")).alias("rewinds"),
        sf.count("producer_id").alias("transactional_commits"),
    ]


def velocity(history: DataFrame) -> DataFrame:
    """By group, partition and minute of the commit's time: commits, and how far the offset went.

    In: the commit history. The advance is the sum of the steps from each commit to the next, so that minutes
    add up and a rewind inside a minute counts as negative.
    """
    step_s = sf.unix_millis("commit_ts") - sf.unix_millis("previous_ts")
    per_minute = (
        history.where(~sf.col("tombstone"))
        .groupBy(*PARTITION_OF_GROUP, sf.date_trunc("minute", "commit_ts").alias("minute"))
        .agg(
            *counters(),
            sf.max_by("offset", "log_offset").alias("last_offset"),
            sf.sum(sf.col("offset") - sf.col("previous_offset")).alias("advance"),
            (sf.sum(step_s) / 1000).alias("elapsed_s"),
            sf.min("log_offset").alias("first_log_offset"),
            sf.max("log_offset").alias("last_log_offset"),
        )
        .withColumn("advance", sf.coalesce("advance", sf.lit(0)))
        .withColumn(
            "offsets_per_s", sf.when(sf.col("elapsed_s") > 0, sf.col("advance") / sf.col("elapsed_s"))
        )
    )
    return VELOCITY.shape(per_minute)
