"""Derive the members that joined and left, and the duration, of every generation of a classic group and every epoch
of a consumer group.

The log does not contain the start of a rebalance. Two durations are measurable: `sync_ms`, from the end of the
joining phase (the state's timestamp) to the leader's assignment (the record's timestamp), and
`consumption_pause_ms`, from the last commit before the record to the first one after it. The pause includes the
clients' commit interval, and the whole time without members if the group was empty between the two commits
(`pause_spans_empty`). Generations without a commit between them share one pause, identified by its
`last_commit_before_log_offset`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

import pyarrow as pa

from pipeline.gold.commit_aggregates import live_commits
from pipeline.gold.fold import Fold
from pipeline.gold.group_kinds import CLASSIC
from pipeline.gold.group_records import ASSIGNED, EMPTIED, GROUP, GroupRecords, Row, identity
from pipeline.gold.grouping import set_columns
from pipeline.table import Table

REBALANCE_STATS: Final = Table.declare(
    "rebalance_stats",
    """
    log_partition int
    group string
    group_kind string
    generation int
    kind string
    record_ts timestamp
    ended_ts timestamp
    ended_by string
    protocol_type string
    protocol string
    leader string
    n_members int
    joined_members array<string>
    left_members array<string>
    n_stayed int
    static_replacements int
    unseen_generations int
    was_empty boolean
    sync_ms bigint
    consumption_pause_ms bigint
    pause_spans_empty boolean
    converged_ts timestamp
    convergence_ms bigint
    slowest_member string
    last_commit_before_ts timestamp
    first_commit_after_ts timestamp
    log_offset bigint
    last_log_offset bigint
    previous_log_offset bigint
    last_commit_before_log_offset bigint
    first_commit_after_log_offset bigint
    """,
)


_OF_THE_RECORD: Final = (
    "generation", "record_ts", "protocol_type", "protocol", "leader", "n_members", "log_offset", "last_log_offset",
    "ended_ts",
)  # fmt: skip


def _rows(aggregates: pa.Table) -> pa.Table:
    live = live_commits(aggregates)
    return set_columns(
        live,
        log_offset=live.column("group_log_offset").fill_null(-1),
        first_at=live.column("first_log_offset"),
        last_at=live.column("last_log_offset"),
    )


COMMITS_AFTER: Final = Fold(
    Table.declare(
        "commits_after",
        """
        log_partition int
        group string
        log_offset bigint
        first_at bigint
        first_ts timestamp
        last_at bigint
        last_ts timestamp
        """,
    ),
    keys=(*GROUP, "log_offset"),
    rows=_rows,
    first={"first_at": ("first_ts",)},
    last={"last_at": ("last_ts",)},
)
"""The first and the last commit of each group after each of its records; -1: none."""


class _Commit(NamedTuple):
    log_offset: int
    ts: int | None


@dataclass(slots=True)
class _Surroundings:
    """The neighbours of a group record: the group's last commit before and first commit after it, and the nearest
    records without members on both sides (the later side includes the record itself).
    """

    before: _Commit | None = None
    after: _Commit | None = None
    empty_before: int | None = None
    empty_after: int | None = None


def rebalance_stats(history: GroupRecords, commits_after: Iterable[Row]) -> list[Row]:
    """Return one row for each generation with a record: with members (`kind` rebalance) or after the last member
    left (`kind` emptied).

    Args:
        history: the records of a classic group.
        commits_after: the group's rows of the fold COMMITS_AFTER.
    """
    around = _surroundings(history.classic, commits_after)
    found: list[Row] = []
    before: Row | None = None
    for _, records in groupby(history.classic, itemgetter("run")):
        run = _run(list(records), history)
        if run["kind"] in (ASSIGNED, EMPTIED):
            found.append(history.key | _row(run, before, around[run["log_offset"]]))
        before = run
    return found


def _run(records: list[Row], history: GroupRecords) -> Row:
    first, last = records[0], records[-1]
    return first | {
        "members": sorted({identity(member) for member in history.members[first["log_offset"]]}),
        "last_log_offset": last["log_offset"],
        "ended_ts": last["next_ts"],
        "ended_by": last["next_kind"],
        "n_records": len(records),
    }


def _surroundings(records: list[Row], commits_after: Iterable[Row]) -> dict[int, _Surroundings]:
    commits = {row["log_offset"]: row for row in commits_after}
    found = {record["log_offset"]: _Surroundings() for record in records}
    empty = {record["log_offset"] for record in records if record["kind"] != ASSIGNED}
    places = sorted({*found, *commits})
    last: _Commit | None = None
    empty_before: int | None = None
    for place in places:
        if place in found:
            found[place].before, found[place].empty_before = last, empty_before
        if place in commits:
            last = _Commit(commits[place]["last_at"], commits[place]["last_ts"])
        empty_before = place if place in empty else empty_before
    first: _Commit | None = None
    empty_after: int | None = None
    for place in reversed(places):
        if place in commits:
            first = _Commit(commits[place]["first_at"], commits[place]["first_ts"])
        empty_after = place if place in empty else empty_after
        if place in found:
            found[place].after, found[place].empty_after = first, empty_after
    return found


def _row(run: Row, before: Row | None, around: _Surroundings) -> Row:
    is_rebalance = run["kind"] == ASSIGNED
    pause_ms = _pause_ms(around) if is_rebalance else None
    first, last = around.after, around.before
    return {
        **{name: run[name] for name in _OF_THE_RECORD},
        **_changes(run, before),
        "group_kind": CLASSIC,
        "kind": "rebalance" if is_rebalance else EMPTIED,
        "ended_by": "rebalance" if run["ended_by"] == ASSIGNED else run["ended_by"],
        "static_replacements": run["n_records"] - 1 if is_rebalance else 0,
        "sync_ms": elapsed_ms(run["state_ts"], run["record_ts"]) if is_rebalance else None,
        "consumption_pause_ms": pause_ms,
        "pause_spans_empty": None if pause_ms is None else _spans_empty(around),
        "last_commit_before_ts": None if last is None else last.ts,
        "first_commit_after_ts": None if first is None else first.ts,
        "last_commit_before_log_offset": None if last is None else last.log_offset,
        "first_commit_after_log_offset": None if first is None else first.log_offset,
    }


def _changes(run: Row, before: Row | None) -> Row:
    """The members that joined and left. The members before the first ingested record are unknown, unless the
    group is new then."""
    members: list[str] = run["members"]
    is_new = run["generation"] <= 1
    known = before["members"] if before is not None else [] if is_new else None
    unseen = 0
    if before is not None and before["generation"] is not None:
        unseen = max(0, run["generation"] - before["generation"] - 1)
    return {
        "joined_members": None if known is None else [name for name in members if name not in known],
        "left_members": None if known is None else [name for name in known if name not in members],
        "n_stayed": None if known is None else sum(name in known for name in members),
        "unseen_generations": unseen,
        "was_empty": is_new if before is None else before["kind"] != ASSIGNED,
        "previous_log_offset": None if before is None else before["last_log_offset"],
    }


def elapsed_ms(begin: int | None, end: int | None) -> int | None:
    """Return the milliseconds between two times, NULL where a clock was set back."""
    if begin is None or end is None or end // 1000 < begin // 1000:
        return None
    return end // 1000 - begin // 1000


def _pause_ms(around: _Surroundings) -> int | None:
    if around.before is None or around.after is None:
        return None
    return elapsed_ms(around.before.ts, around.after.ts)


def _spans_empty(around: _Surroundings) -> bool:
    before, after = around.before, around.after
    return (
        around.empty_before is not None and before is not None and around.empty_before > before.log_offset
    ) or (around.empty_after is not None and after is not None and around.empty_after < after.log_offset)
