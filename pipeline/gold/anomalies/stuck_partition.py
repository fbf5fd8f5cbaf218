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
from pipeline.gold.commit_history import PARTITION_OF_GROUP

WINDOW_COMMITS: Final = 10
MIN_SILENCE_S: Final = 60


def _habits(history: DataFrame) -> DataFrame:
    """For each group and partition: how often it commits, and since when the offset is what it is."""
    moved = ~sf.col("is_unmoved")
    first_ms, last_ms = (sf.unix_millis(f"{name}_ts") for name in ("first", "last"))
    return (
        history.where(~sf.col("tombstone"))
        .groupBy(*PARTITION_OF_GROUP)
        .agg(
            sf.count("*").alias("n"),
            sf.max("number").alias("last_number"),
            sf.max(sf.when(moved, sf.col("number"))).alias("moved_number"),
            sf.max(sf.when(moved, sf.col("log_offset"))).alias("moved_log_offset"),
            sf.max_by("commit_ts", sf.when(moved, sf.col("log_offset"))).alias("moved_ts"),
            sf.min_by("commit_ts", "log_offset").alias("first_ts"),
            sf.max_by("commit_ts", "log_offset").alias("last_ts"),
            sf.max_by("group_log_offset", "log_offset").alias("group_log_offset"),
        )
        .withColumn("n_same", sf.col("last_number") - sf.col("moved_number") + 1)
        .withColumn("interval_ms", sf.when(sf.col("n") > 1, (last_ms - first_ms) / (sf.col("n") - 1)))
        .drop("n", "last_number", "moved_number", "first_ts")
    )


def _reach(lag: DataFrame) -> DataFrame:
    """For each topic partition: how far its log is known to reach."""
    return lag.groupBy("topic", "partition").agg(
        sf.max("log_end_offset").alias("measured_end"), sf.max("offset").alias("committed_end")
    )


def _seconds(time: Column) -> Column:
    return (sf.unix_millis(time) / 1000).cast("bigint")


def stuck_partition(history: DataFrame, lag: DataFrame, ownership: DataFrame, as_of: Column) -> DataFrame:
    """One row for each partition stuck at the end of the history. `amount`: offsets still to read, at least.

    In: the commit history, gold `lag` and `ownership`, the time that counts as now.
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
        .join(_habits(history), key)
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
