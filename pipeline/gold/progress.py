"""The course of every group in steps of equal length, for plots: what it consumed, and its lag.

Lag changes with every commit and with every message, but a table of all groups at all times would be larger
than the log. So only changes are kept: for each group, partition and step in which either side moved, by how
much the lag differs from before. They add up over partitions, and from the first step to the last.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.velocity import counters
from pipeline.table import Table

PROGRESS: Final = Table.declare(
    "progress",
    """
    log_partition int
    group string
    topic string
    step_ts timestamp
    step_s int
    commits bigint
    unmoved_commits bigint
    rewinds bigint
    transactional_commits bigint
    advance bigint
    offsets_per_s double
    lag bigint
    """,
)

MAX_STEPS: Final = 120
STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800,
    2592000, 7776000, 31536000,
)  # fmt: skip
_GROUP_TOPIC: Final = ("log_partition", "group", "topic")
_REMOVED: Final = -1


def step_length_s(period_s: float) -> int:
    """The shortest round step of which at most MAX_STEPS make up the period."""
    return next((step for step in STEPS_S if step * MAX_STEPS >= period_s), STEPS_S[-1])


def _step(time: str, step_s: int) -> Column:
    return sf.timestamp_seconds(sf.floor(sf.unix_seconds(time) / step_s) * step_s)


def _consumed(history: DataFrame, step_s: int) -> DataFrame:
    return (
        history.where(~sf.col("tombstone"))
        .groupBy(*_GROUP_TOPIC, _step("commit_ts", step_s).alias("step_ts"))
        .agg(
            *counters(),
            sf.coalesce(sf.sum(sf.col("offset") - sf.col("previous_offset")), sf.lit(0)).alias("advance"),
        )
    )


def _lag_changes(history: DataFrame, log_end_offsets: DataFrame, step_s: int) -> DataFrame:
    """By group, topic and step: by how much the lag summed over the partitions rose (or fell)."""
    positions = history.groupBy(*PARTITION_OF_GROUP, _step("record_ts", step_s).alias("step_ts")).agg(
        sf.max_by(sf.coalesce("offset", sf.lit(_REMOVED)), "log_offset").alias("position")
    )
    ends = log_end_offsets.groupBy("topic", "partition", _step("at_ts", step_s).alias("step_ts")).agg(
        sf.max_by("log_end_offset", "at_ts").alias("end")
    )
    consumed = positions.select(*PARTITION_OF_GROUP).distinct()
    both = (
        positions.unionByName(consumed.join(ends, ["topic", "partition"]), allowMissingColumns=True)
        .groupBy(*PARTITION_OF_GROUP, "step_ts")
        .agg(sf.max("position").alias("position"), sf.max("end").alias("end"))
    )
    order = Window.partitionBy(*PARTITION_OF_GROUP).orderBy("step_ts")
    so_far = order.rowsBetween(Window.unboundedPreceding, 0)
    position = sf.last("position", ignorenulls=True).over(so_far)
    end = sf.last("end", ignorenulls=True).over(so_far)
    behind = sf.when(position == _REMOVED, 0).otherwise(sf.greatest(end - position, sf.lit(0)))
    return (
        both.withColumn("behind", sf.when(position.isNotNull() & end.isNotNull(), behind))
        .withColumn("before", sf.coalesce(sf.lag("behind").over(order), sf.lit(0)))
        .where(sf.col("behind").isNotNull())
        .groupBy(*_GROUP_TOPIC, "step_ts")
        .agg(sf.sum(sf.col("behind") - sf.col("before")).alias("rise"))
    )


def progress(history: DataFrame, log_end_offsets: DataFrame, step_s: int) -> DataFrame:
    """By group, topic and step: commits, advance, and the lag at the end of the step (NULL while no end of the
    topic is known). Steps in which nothing changed have no row; the lag of the row before still holds.

    In: the commit history, measured ends (at several times, for the lag to have a course), the step in seconds.
    """
    order = Window.partitionBy(*_GROUP_TOPIC).orderBy("step_ts")
    so_far = order.rowsBetween(Window.unboundedPreceding, 0)
    rows = (
        _consumed(history, step_s)
        .join(_lag_changes(history, log_end_offsets, step_s), [*_GROUP_TOPIC, "step_ts"], "full_outer")
        .withColumn("lag", sf.sum("rise").over(so_far))
        .withColumn("step_s", sf.lit(step_s))
        .withColumns(
            {
                name: sf.coalesce(name, sf.lit(0))
                for name in ("commits", "unmoved_commits", "rewinds", "transactional_commits", "advance")
            }
        )
        .withColumn("offsets_per_s", sf.col("advance") / step_s)
    )
    return PROGRESS.shape(rows)
