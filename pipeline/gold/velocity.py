"""How fast groups consume, by the minute."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.fold import Fold, of_first, of_last, sums
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


COUNTERS: Final = ("commits", "unmoved_commits", "rewinds", "transactional_commits")
"""Columns that add up over any grouping of commits."""


def counters() -> list[Column]:
    """COUNTERS of a single commit of the history."""
    counted = (
        sf.lit(True), sf.col("is_unmoved"), sf.col("is_rewind"), sf.col("producer_id").isNotNull(),
    )  # fmt: skip
    return [one.cast("bigint").alias(name) for name, one in zip(COUNTERS, counted, strict=True)]


def _rows(history: DataFrame) -> DataFrame:
    return history.where(~sf.col("tombstone")).select(
        *PARTITION_OF_GROUP,
        sf.date_trunc("minute", "commit_ts").alias("minute"),
        *counters(),
        sf.col("offset").alias("last_offset"),
        (sf.col("offset") - sf.col("previous_offset")).alias("advance"),
        (sf.unix_millis("commit_ts") - sf.unix_millis("previous_ts")).alias("elapsed_ms"),
        sf.col("log_offset").alias("first_log_offset"),
        sf.col("log_offset").alias("last_log_offset"),
    )


MINUTES: Final = Fold(
    "minutes",
    (*PARTITION_OF_GROUP, "minute"),
    _rows,
    lambda: [
        *sums(*COUNTERS, "advance", "elapsed_ms"),
        *of_first("first_log_offset"),
        *of_last("last_log_offset", "last_offset"),
    ],
)


def velocity(minutes: DataFrame) -> DataFrame:
    """By group, partition and minute of the commit's time: commits, and how far the offset went.

    In: the fold MINUTES. The advance is the sum of the steps from each commit to the next, so that minutes
    add up and a rewind inside a minute counts as negative.
    """
    per_minute = (
        minutes.withColumn("advance", sf.coalesce("advance", sf.lit(0)))
        .withColumn("elapsed_s", sf.col("elapsed_ms") / 1000)
        .withColumn(
            "offsets_per_s", sf.when(sf.col("elapsed_s") > 0, sf.col("advance") / sf.col("elapsed_s"))
        )
    )
    return VELOCITY.shape(per_minute)
