"""Find partitions on which a group makes no progress although records are available.

The rules are Burrow's, with its window of ten commits, as far as a static log allows:

- *stalled*: at least the last ten commits have the same offset, and the log extends beyond it;
- *stopped*: a member owns the partition and the log extends further, but the group has not committed for longer
  than ten commits used to take (at least a minute).

Without a measured log end, another group's higher commit for the same partition proves the log's extent.
"""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from pipeline.gold.commit_aggregates import live_commits
from pipeline.gold.commit_history import PARTITION_OF_GROUP
from pipeline.gold.fold import Fold
from pipeline.gold.group_records import Row
from pipeline.gold.grouping import integers, set_columns
from pipeline.table import Table

WINDOW_COMMITS: Final = 10
MIN_SILENCE_S: Final = 60


def _rows(aggregates: pa.Table) -> pa.Table:
    live = live_commits(aggregates)
    return set_columns(live, n=live.column("commits"))


HABITS: Final = Fold(
    Table.declare(
        "habits",
        """
        log_partition int
        group string
        topic string
        partition int
        n bigint
        group_log_offset bigint
        moved_log_offset bigint
        moved_ts timestamp
        moved_number bigint
        first_log_offset bigint
        first_ts timestamp
        last_log_offset bigint
        last_ts timestamp
        last_number bigint
        """,
    ),
    keys=PARTITION_OF_GROUP,
    rows=_rows,
    sums=("n",),
    first={"first_log_offset": ("first_ts",)},
    last={
        "moved_log_offset": ("moved_ts", "moved_number"),
        "last_log_offset": ("last_ts", "last_number", "group_log_offset"),
    },
)
"""By group and partition: the frequency of commits, and the time since which the offset is unchanged."""


STANDSTILLS: Final = Table.declare(
    "standstills",
    """
    log_partition int
    group string
    topic string
    partition int
    offset bigint
    log_offset bigint
    group_log_offset bigint
    moved_ts timestamp
    moved_log_offset bigint
    n_same bigint
    silent_s bigint
    is_stalled boolean
    """,
)
"""Partitions that are stuck if records are available (and, unless `is_stalled`, if a member owns them)."""

REACHES: Final = Fold(
    Table.declare(
        "reaches",
        """
        topic string
        partition int
        measured_end bigint
        committed_end bigint
        """,
    ),
    keys=("topic", "partition"),
    rows=lambda lag: set_columns(
        lag, measured_end=lag.column("log_end_offset"), committed_end=lag.column("offset")
    ),
    greatest=("measured_end", "committed_end"),
)
"""The known extent of each log, from gold `lag`."""


def standstills(habits: pa.Table, lag: pa.Table, as_of_us: int) -> pa.Table:
    """Return STANDSTILLS from the fold HABITS, gold `lag` and the reference time."""
    places = lag.select([*PARTITION_OF_GROUP, "offset", "log_offset"])
    rows = places.join(habits, list(PARTITION_OF_GROUP), join_type="inner", use_threads=False)
    n_same = integers(rows.column("last_number")) - integers(rows.column("moved_number")) + 1
    first_ms, last_ms = (integers(rows.column(f"{name}_ts")) // 1000 for name in ("first", "last"))
    intervals = integers(rows.column("n")) - 1
    silent_s = as_of_us // 1_000_000 - last_ms // 1000
    is_stalled = n_same >= WINDOW_COMMITS
    is_silent = (
        (silent_s >= MIN_SILENCE_S)
        & (intervals > 0)
        & (last_ms >= first_ms)  # else a clock was set back, and the usual interval is unknown
        & (silent_s * 1000 * intervals > (last_ms - first_ms) * WINDOW_COMMITS)
    )
    rows = set_columns(rows, n_same=n_same, silent_s=silent_s, is_stalled=is_stalled)
    return STANDSTILLS.select(rows.filter(pa.array(is_stalled | is_silent)))


def stuck_partition(
    standstills: Iterable[Row], reaches: Iterable[Row], ownership: Iterable[Row], as_of_us: int
) -> list[Row]:
    """Return one row for each partition stuck at the end of the history. `amount`: at least this many offsets
    remain.

    Args:
        standstills: the rows of STANDSTILLS.
        reaches: the rows of REACHES.
        ownership: gold `ownership` of all groups.
        as_of_us: the reference time in microseconds.
    """
    ends = {(row["topic"], row["partition"]): row for row in reaches}
    owners: dict[tuple[object, ...], list[Row]] = {}
    for row in ownership:
        if row["to_log_offset"] is None:
            owners.setdefault(_place(row), []).append(row)
    found = []
    for row in standstills:
        reach, held = ends[row["topic"], row["partition"]], owners.get(_place(row), [])
        measured = reach["measured_end"]
        amount = max(reach["committed_end"], measured or 0) - row["offset"]
        if amount > 0 and (row["is_stalled"] or held):
            found.append(
                row
                | {
                    "member": max((one["member"] for one in held), default=None),
                    "generation": max((one["to_generation"] for one in held), default=None),
                    "amount": amount,
                    "ts": row["moved_ts"],
                    "until_ts": as_of_us,
                    "detail": _detail(row, is_measured=measured is not None),
                    "previous_log_offset": row["moved_log_offset"],
                }
            )
    return found


def _place(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in PARTITION_OF_GROUP)


def _detail(row: Row, *, is_measured: bool) -> str:
    known = "" if is_measured else ", seen from another group's commits"
    if row["is_stalled"]:
        return f"stalled: {row['n_same']} commits of the same offset{known}"
    return f"stopped: no commit for {row['silent_s']} s{known}"
