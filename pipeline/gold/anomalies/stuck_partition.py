"""Partitions on which a group no longer gets on although there is something to read.

The rules are those of Burrow, with its window of ten commits, as far as a log at rest allows:

- *stalled*: the last ten commits or more name the same offset, and the log goes on beyond it;
- *stopped*: a member owns the partition and the log goes on, but nobody has committed for longer than ten
  commits used to take (and for a minute at least).

Without a measured log end, what any other group has committed for the same partition shows that the log reaches
at least that far.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.anomaly import anomaly
from pipeline.gold.cells import of_commits
from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.fold import Fold, of_first, of_last, sums

WINDOW_COMMITS: Final = 10
MIN_SILENCE_S: Final = 60


_COLUMNS: Final = (
    *PARTITION_OF_GROUP, "group_log_offset", "moved_log_offset", "moved_ts", "moved_number", "first_log_offset",
    "first_ts", "last_log_offset", "last_ts", "last_number",
)  # fmt: skip

HABITS: Final = Fold(
    "habits",
    PARTITION_OF_GROUP,
    lambda cells: of_commits(cells).select(*_COLUMNS, sf.col("commits").alias("n")),
    lambda: [
        *sums("n"),
        *of_last("moved_log_offset", "moved_ts", "moved_number"),
        *of_first("first_log_offset", "first_ts"),
        *of_last("last_log_offset", "last_ts", "last_number", "group_log_offset"),
    ],
)
"""For each group and partition: how often it commits, and since when the offset is what it is."""


def _habits(habits: DataFrame) -> DataFrame:
    first_ms, last_ms = (sf.unix_millis(f"{name}_ts") for name in ("first", "last"))
    return (
        habits.withColumn("n_same", sf.col("last_number") - sf.col("moved_number") + 1)
        .withColumn("interval_ms", sf.when(sf.col("n") > 1, (last_ms - first_ms) / (sf.col("n") - 1)))
        .drop("n", "last_number", "moved_number", "first_ts", "first_log_offset", "last_log_offset")
    )


def _reach(lag: DataFrame) -> DataFrame:
    """For each topic partition: how far its log is known to reach."""
    return lag.groupBy("topic", "partition").agg(
        sf.max("log_end_offset").alias("measured_end"), sf.max("offset").alias("committed_end")
    )


def _seconds(time: Column) -> Column:
    return (sf.unix_millis(time) / 1000).cast("bigint")


def stuck_partition(habits: DataFrame, lag: DataFrame, ownership: DataFrame, as_of: Column) -> DataFrame:
    """One row for each partition stuck at the end of the history. `amount`: offsets still to read, at least.

    In: the fold HABITS, gold `lag` and `ownership`, the time that counts as now.
    """
    end = sf.greatest("measured_end", "committed_end")
    key = list(PARTITION_OF_GROUP)
    held = (
        ownership.where(sf.col("to_log_offset").isNull())
        .groupBy(*key)
        .agg(sf.max("member").alias("member"), sf.max("to_generation").alias("generation"))
    )
    behind = (
        lag.select(*key, "offset", "log_offset")
        .join(_reach(lag), ["topic", "partition"])
        .withColumn("amount", end - sf.col("offset"))
        .where(sf.col("amount") > 0)
        .join(_habits(habits), key)
        .join(held, key, "left")
    )
    silent_s = _seconds(as_of) - _seconds(sf.col("last_ts"))
    is_stalled = sf.col("n_same") >= WINDOW_COMMITS
    is_stopped = (
        sf.col("member").isNotNull()
        & (silent_s >= MIN_SILENCE_S)
        & (silent_s * 1000 > sf.col("interval_ms") * WINDOW_COMMITS)
    )
    known = sf.when(sf.col("measured_end").isNull(), ", seen from another group's commits").otherwise("")
    detail = sf.when(
        is_stalled,
        sf.concat(sf.lit("stalled: "), sf.col("n_same"), sf.lit(" commits of the same offset"), known),
    ).otherwise(sf.concat(sf.lit("stopped: no commit for "), silent_s, sf.lit(" s"), known))
    return anomaly(
        "stuck_partition",
        behind.where(is_stalled | is_stopped),
        ts="moved_ts",
        until_ts=as_of,
        detail=detail,
        previous_log_offset="moved_log_offset",
    )
