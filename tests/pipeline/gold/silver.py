"""Gold tables of an invented history, without Spark."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pyarrow as pa

from pipeline.gold import latest_offsets as latest
from pipeline.gold.commit_aggregates import aggregate_commits
from pipeline.gold.commit_history import COMMIT_COLUMNS, LAST_COMMITS, link_commits, with_writers, writers
from pipeline.gold.fold import Fold
from pipeline.gold.group_records import GroupRecords, Row, group_histories
from pipeline.gold.log_end_offsets import LOG_END_OFFSETS
from pipeline.gold.ownership import HOLDINGS, classic_holdings, ownership
from pipeline.gold.rebalance_stats import COMMITS_AFTER, REBALANCE_STATS, rebalance_stats
from pipeline.silver.schemas import COMMITS
from pipeline.table import Table, rows_of
from tests.pipeline.hand_made import HandMade

_COMMITS = Table("commits", tuple(column for column in COMMITS.columns if column[0] in COMMIT_COLUMNS))


def micros(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000)


def _stored(made: HandMade, name: str) -> list[Row]:
    """Rows of a silver table as a build reads them."""
    return [
        {column: micros(value) if isinstance(value, datetime) else value for column, value in row.items()}
        for row in made.rows(name)
    ]


def records(made: HandMade) -> dict[str, list[Row]]:
    """Rows of the silver tables of groups, with all columns."""
    found = {}
    for name in ("group_generations", "members", "assignments"):
        columns = dict.fromkeys(column for column, _ in made.columns(name))
        found[name] = [columns | row for row in _stored(made, name)]
    return found


def commits(made: HandMade) -> pa.Table:
    return _COMMITS.from_rows(sorted(_stored(made, "commits"), key=lambda row: row["log_offset"]))


def _linked(made: HandMade) -> tuple[pa.Table, pa.Table]:
    marks = pa.Table.from_pylist(
        [{name: row[name] for name in _MARKS.names} for row in _stored(made, "group_generations")], _MARKS
    )
    return link_commits(commits(made), marks, LAST_COMMITS.no_rows())


_MARKS = pa.schema([("log_partition", pa.int32()), ("group", pa.string()), ("log_offset", pa.int64())])


def _writers(made: HandMade) -> pa.Table:
    found = records(made)
    return writers(found["members"], found["assignments"])


def history(made: HandMade) -> pa.Table:
    """All commits, linked, with their writers."""
    return with_writers(_linked(made)[0], _writers(made))


def aggregates(made: HandMade, step_s: int = 60) -> pa.Table:
    """All commits, aggregated, with their writers."""
    return with_writers(aggregate_commits(_linked(made)[0], step_s), _writers(made))


def latest_offsets(made: HandMade) -> pa.Table:
    return latest.latest_offsets(_linked(made)[1])


def log_ends(measured: Iterable[tuple[Any, ...]]) -> pa.Table:
    """Return a gold table `log_end_offsets` of (topic, partition, time, log start, log end, source)."""
    names = [name for name, _ in LOG_END_OFFSETS.columns]
    rows = [dict(zip(names, one, strict=True)) for one in measured]
    return LOG_END_OFFSETS.from_rows(row | {"at_ts": micros(row["at_ts"])} for row in rows)


def histories(made: HandMade) -> list[GroupRecords]:
    return group_histories(records(made))


def of_fold(made: HandMade, fold: Fold, history: GroupRecords) -> list[Row]:
    """The rows of a group of a fold."""
    key = history.log_partition, history.group
    return [row for row in rows_of(fold.of(aggregates(made))) if (row["log_partition"], row["group"]) == key]


def ownership_of(made: HandMade) -> pa.Table:
    holdings = [row for group in histories(made) for row in classic_holdings(group)]
    return ownership(HOLDINGS.from_rows(holdings), {})


def rebalances_of(made: HandMade) -> pa.Table:
    rows = [
        row
        for group in histories(made)
        for row in rebalance_stats(group, of_fold(made, COMMITS_AFTER, group))
    ]
    return REBALANCE_STATS.from_rows(rows)
