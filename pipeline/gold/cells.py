"""The commit history summed up in its smallest useful pieces.

A *cell* is what a group committed for a partition after one group record, within a minute and a step of the plots.
All folds are made of cells, each by putting together those that differ in what it does not ask for. Commits are
many and cells are few: so the history is computed, summed up and thrown away in one go, and what is kept of a
commit are numbers, which Spark adds up without sorting.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.fold import of_first, of_last, sums

COUNTERS: Final = ("commits", "unmoved_commits", "rewinds", "transactional_commits")
"""Columns that add up over any grouping of commits."""


def step(time: str, step_s: int) -> Column:
    """The beginning of the step in which a time lies."""
    return sf.timestamp_seconds(sf.floor(sf.unix_seconds(time) / step_s) * step_s)


def cells(history: DataFrame, step_s: int) -> DataFrame:
    """One row for each cell. Tombstones have cells of their own. In: the commit history, the step.

    - `group_log_offset`, `minute` and `step_ts` (of the commit's time), `record_step_ts`, `tombstone`: which cell;
    - COUNTERS, `mixed_commits`, `advance`, `elapsed_ms` (from each commit to the next): sums;
    - `first_…` and `last_…`: of the first and the last commit in the order of the log; `previous_…`: of the one
      before the first; `moved_…` of the last that named another offset than the one before; `earliest_…`,
      `latest_…`: of all, by the clock.
    """
    has_moved = ~sf.col("is_unmoved")
    counted = {
        "commits": sf.lit(True),
        "unmoved_commits": sf.col("is_unmoved"),
        "rewinds": sf.col("is_rewind"),
        "transactional_commits": sf.col("producer_id").isNotNull(),
        "mixed_commits": sf.col("is_mixed"),
    }
    elapsed_ms = sf.unix_millis("commit_ts") - sf.unix_millis("previous_ts")
    rows = history.select(
        *PARTITION_OF_GROUP,
        "group_log_offset",
        "tombstone",
        sf.date_trunc("minute", "commit_ts").alias("minute"),
        step("commit_ts", step_s).alias("step_ts"),
        step("record_ts", step_s).alias("record_step_ts"),
        *(one.cast("bigint").alias(name) for name, one in counted.items()),
        (sf.col("offset") - sf.col("previous_offset")).alias("advance"),
        # Where a clock was set back nobody knows: that time counts as none.
        sf.when(elapsed_ms.isNotNull(), sf.greatest(elapsed_ms, sf.lit(0))).alias("elapsed_ms"),
        sf.col("log_offset").alias("first_log_offset"),
        sf.col("log_offset").alias("last_log_offset"),
        sf.when(has_moved, sf.col("log_offset")).alias("moved_log_offset"),
        sf.col("commit_ts").alias("ts"),
        sf.col("record_ts").alias("earliest_record_ts"),
        sf.col("record_ts").alias("latest_record_ts"),
        "offset",
        "number",
        "previous_offset",
        "previous_log_offset",
        "previous_group_log_offset",
    )

    def said(which: str, *names: str) -> list[Column]:
        by = {"first": sf.min_by, "last": sf.max_by, "moved": sf.max_by}[which]
        return [by(name, f"{which}_log_offset").alias(f"{which}_{name}") for name in names]

    previous = ("previous_offset", "previous_log_offset", "previous_group_log_offset")
    return rows.groupBy(
        *PARTITION_OF_GROUP, "group_log_offset", "tombstone", "minute", "step_ts", "record_step_ts"
    ).agg(
        *sums(*counted, "advance", "elapsed_ms"),
        *of_first("first_log_offset"),
        *said("first", "ts", "offset"),
        *(sf.min_by(name, "first_log_offset").alias(name) for name in previous),
        *of_last("last_log_offset"),
        *said("last", "ts", "offset", "number"),
        *of_last("moved_log_offset"),
        *said("moved", "ts", "number"),
        sf.min("ts").alias("earliest_ts"),
        sf.max("ts").alias("latest_ts"),
        *of_first("earliest_record_ts"),
        *of_last("latest_record_ts"),
    )


def of_commits(cells: DataFrame) -> DataFrame:
    """Those that are no tombstones."""
    return cells.where(~sf.col("tombstone"))
