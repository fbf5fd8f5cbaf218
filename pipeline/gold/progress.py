"""The course of every group in steps of equal length, for plots: what it consumed, and its lag.

Lag changes with every commit and with every message, but a table of all groups at all times would be larger
than the log. So only changes are kept: for each group, partition and step in which either side moved, by how
much the lag differs from before. They add up over partitions, and from the first step to the last.

The step grows with the period. What is kept from one build to the next is kept by the *grain*, a length of which
this step and all longer ones are multiples.
"""

from math import gcd
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

from pipeline.gold.cells import COUNTERS, of_commits, step
from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.fold import Fold, of_last, sums
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


def grain_s(step_s: int) -> int:
    """The longest time of which a step, one of STEPS_S, and all longer ones are multiples."""
    return gcd(*(step for step in STEPS_S if step >= step_s))


CONSUMED: Final = Fold(
    "consumed",
    (*_GROUP_TOPIC, "step_ts"),
    lambda cells: of_commits(cells).select(*_GROUP_TOPIC, "step_ts", *COUNTERS, "advance"),
    lambda: sums(*COUNTERS, "advance"),
)
"""By group, topic and step: commits, and how far the offsets went."""


def _positions(cells: DataFrame) -> DataFrame:
    position = sf.coalesce("last_offset", sf.lit(_REMOVED)).alias("position")
    step_ts = sf.col("record_step_ts").alias("step_ts")
    return cells.select(*PARTITION_OF_GROUP, step_ts, position, "last_log_offset")


POSITIONS: Final = Fold(
    "positions",
    (*PARTITION_OF_GROUP, "step_ts"),
    _positions,
    lambda: of_last("last_log_offset", "position"),
)
"""By group, partition and step: the offset at its end, _REMOVED where there is none."""


def in_longer_steps(fold: Fold, frame: DataFrame, step_s: int) -> DataFrame:
    """A fold of one step as that of a multiple of it."""
    longer = frame.withColumn("step_ts", step("step_ts", step_s))
    return longer.groupBy(*fold.keys).agg(*fold.combined())


def _lag_changes(positions: DataFrame, log_end_offsets: DataFrame, step_s: int) -> DataFrame:
    """By group, topic and step: by how much the lag summed over the partitions rose (or fell)."""
    ends = log_end_offsets.groupBy("topic", "partition", step("at_ts", step_s).alias("step_ts")).agg(
        sf.max_by("log_end_offset", "at_ts").alias("end")
    )
    everywhere = positions.select(*PARTITION_OF_GROUP).distinct()
    both = (
        positions.unionByName(everywhere.join(ends, ["topic", "partition"]), allowMissingColumns=True)
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


def progress(consumed: DataFrame, positions: DataFrame, log_end_offsets: DataFrame, step_s: int) -> DataFrame:
    """By group, topic and step: commits, advance, and the lag at the end of the step (NULL while no end of the
    topic is known). Steps in which nothing changed have no row; the lag of the row before still holds.

    In: the folds CONSUMED and POSITIONS of this step, measured ends (at several times, for the lag to have a
    course), the step in seconds.
    """
    order = Window.partitionBy(*_GROUP_TOPIC).orderBy("step_ts")
    so_far = order.rowsBetween(Window.unboundedPreceding, 0)
    rows = (
        consumed.join(
            _lag_changes(positions, log_end_offsets, step_s), [*_GROUP_TOPIC, "step_ts"], "full_outer"
        )
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
