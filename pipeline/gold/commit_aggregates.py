"""Aggregate linked commits to the smallest pieces that a gold table needs.

An *aggregate* covers the commits of a group to a partition after one group record, within a minute and within
a step of the plots. All folds are made of aggregates: each combines aggregates that differ only in columns it does
not need.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.grouping import Grouping, Integers, are_valid, flags, integers, set_columns

COUNTERS: Final = ("commits", "unmoved_commits", "rewinds", "transactional_commits")
"""Columns that add up over any grouping of commits."""

MICROS: Final = 1_000_000
_MINUTE_S: Final = 60
_TIME: Final = pa.timestamp("us", tz="UTC")
_KEYS: Final = (
    *PARTITION_OF_GROUP, "group_log_offset", "tombstone", "minute", "step_ts", "record_step_ts",
)  # fmt: skip


def begin_of_step(times: pa.ChunkedArray, step_s: int) -> pa.Array:
    """Return the beginning of the step of `step_s` seconds in which each time lies."""
    length = step_s * MICROS
    return pa.array(integers(times) // length * length, pa.int64(), mask=~are_valid(times)).cast(_TIME)


def aggregate_commits(commits: pa.Table, step_s: int) -> pa.Table:
    """Return one row for each aggregate. Tombstones have rows of their own.

    In: linked commits, the step of plots in seconds. Columns:

    - `group_log_offset`, `minute` and `step_ts` (of the commit's time), `record_step_ts`, `tombstone`: the keys;
    - COUNTERS, `mixed_commits`, `advance`, `elapsed_ms` (from each commit to the next): sums;
    - `first_...`, `last_...`: of the first and the last commit in log order; `previous_...`: of the commit
      before the first; `moved_...`: of the last commit with another offset than the one before;
      `earliest_...`, `latest_...`: by time.
    """
    has_moved = ~flags(commits.column("is_unmoved"))
    offsets = commits.column("log_offset")
    rows = set_columns(
        commits,
        minute=begin_of_step(commits.column("commit_ts"), _MINUTE_S),
        step_ts=begin_of_step(commits.column("commit_ts"), step_s),
        record_step_ts=begin_of_step(commits.column("record_ts"), step_s),
        commits=np.ones(len(commits), np.int64),
        unmoved_commits=(~has_moved).astype(np.int64),
        rewinds=flags(commits.column("is_rewind")).astype(np.int64),
        transactional_commits=are_valid(commits.column("producer_id")).astype(np.int64),
        mixed_commits=flags(commits.column("is_mixed")).astype(np.int64),
        advance=pc.subtract(commits.column("offset"), commits.column("previous_offset")),
        elapsed_ms=_elapsed_ms(commits),
        moved_log_offset=pa.array(integers(offsets), mask=~has_moved),
    )
    grouping = Grouping(rows, _KEYS)
    first, last = grouping.first("log_offset"), grouping.last("log_offset")
    moved = grouping.last("moved_log_offset")

    def take(prefix: str, at: pa.Array, *names: str) -> dict[str, Any]:
        return {f"{prefix}{name}": rows.column(name).take(at) for name in names}

    columns = {name: grouping.groups.column(name) for name in _KEYS}
    columns |= {name: grouping.sum(name) for name in (*COUNTERS, "mixed_commits", "advance", "elapsed_ms")}
    columns |= take("", first, "previous_offset", "previous_log_offset", "previous_group_log_offset")
    columns |= take("first_", first, "log_offset", "offset") | {
        "first_ts": rows.column("commit_ts").take(first)
    }
    columns |= take("last_", last, "log_offset", "offset", "number")
    columns |= {"last_ts": rows.column("commit_ts").take(last)}
    columns |= take("moved_", moved, "log_offset", "number") | {
        "moved_ts": rows.column("commit_ts").take(moved)
    }
    columns |= {"earliest_ts": grouping.min("commit_ts"), "latest_ts": grouping.max("commit_ts")}
    columns |= {
        "earliest_record_ts": grouping.min("record_ts"),
        "latest_record_ts": grouping.max("record_ts"),
    }
    return pa.table(columns)


def _elapsed_ms(commits: pa.Table) -> pa.Array:
    """Return the elapsed times. A time over a clock that was set back is unknown and counts as 0."""
    now, before = commits.column("commit_ts"), commits.column("previous_ts")
    elapsed: Integers = integers(now) // 1000 - integers(before) // 1000
    return pa.array(np.maximum(elapsed, 0), mask=~(are_valid(now) & are_valid(before)))


def live_commits(aggregates: pa.Table) -> pa.Table:
    """Return the aggregates of commits that are not tombstones."""
    return aggregates.filter(pc.invert(aggregates.column("tombstone")))
