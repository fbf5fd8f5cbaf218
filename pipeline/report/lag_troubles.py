"""Find groups with a large lag that no anomaly explains.

A lag is large if the group would need more than a minute to read it at its own speed, or if it has read nothing.
"""

from datetime import datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.progress import PROGRESS
from pipeline.report.report_tables import ReportTables, Row, sort_indices
from pipeline.report.troubles import MOST

UNATTENDED: Final = "unread_without_members"
RISING: Final = "rising_lag"
_LARGE_LAG_S: Final = 60.0
"""The time to read from which on a lag is large, and the time without members from which on it is reported."""


def find_lag_troubles(tables: ReportTables, summaries: pa.Table, now: datetime) -> list[Row]:
    """Return a row of `troubles` for each group without members and for each rising lag, at most MOST of a kind.

    `amount` is the lag, `most` the seconds in which the group would read it, None if it read nothing in the period.
    `ts` is the time from which the group has no members or the lag rises, `previous_offset` the lag at that time.

    Args:
        tables: gold.
        summaries: as `summarise_groups` returns them.
        now: the reference time of the report.
    """
    behind = summaries.filter(pc.greater(summaries.column("lag"), 0))
    empty = behind.filter(pc.equal(behind.column("n_members"), 0))
    attended = behind.filter(pc.greater(behind.column("n_members"), 0))
    return [*_find_unattended(_largest_lags(empty), now), *_find_rising(tables, _largest_lags(attended))]


def _largest_lags(summaries: pa.Table) -> list[Row]:
    order = [("lag", True), ("group", False)]
    found: list[Row] = summaries.take(sort_indices(summaries, order)[:MOST]).to_pylist()
    return found


def _find_unattended(summaries: list[Row], now: datetime) -> list[Row]:
    found = []
    for summary in summaries:
        needed_s = _find_time_to_read_s(summary["lag"], summary["advance"], _find_commit_period_s(summary))
        is_missed = now - summary["state_ts"] >= timedelta(seconds=_LARGE_LAG_S)
        if is_missed and (needed_s is None or needed_s > _LARGE_LAG_S):
            found.append(_row(UNATTENDED, summary, summary["lag"], needed_s, summary["state_ts"], None))
    return found


def _find_commit_period_s(summary: Row) -> float:
    """Return the time in which the group committed, seconds. `elapsed_s` adds up its partitions."""
    return float((summary["elapsed_s"] or 0) / max(summary["n_partitions"], 1))


def _find_rising(tables: ReportTables, summaries: list[Row]) -> list[Row]:
    """Find groups that commit while the lag of one of their topics rises."""
    if not summaries:
        return []
    columns = ["group", "topic", "step_ts", "advance", "lag"]
    chunks = tables.chunks(PROGRESS, columns, [summary["group"] for summary in summaries])
    progress = pa.concat_tables(chunk.filter(chunk.column("lag").is_valid()) for chunk in chunks)
    found = []
    for summary in summaries:
        own = progress.filter(pc.equal(progress.column("group"), summary["group"]))
        by_topic: dict[str, list[Row]] = {}
        for row in own.sort_by("step_ts").to_pylist():
            by_topic.setdefault(row["topic"], []).append(row)
        rises = [rise for rise in map(_measure_rise, by_topic.values()) if rise is not None]
        if rises:
            last, since, needed_s = max(rises, key=lambda rise: (rise[0]["lag"], rise[0]["topic"]))
            row = _row(RISING, summary, last["lag"], needed_s, since["step_ts"], since["lag"])
            found.append(row | {"topic": last["topic"]})
    return found


def _measure_rise(steps: list[Row]) -> tuple[Row, Row, float] | None:
    """Return the last step, the last one with at most half of its lag, and the seconds in which the group reads
    the lag at its speed between them; None if the lag is small, has not doubled, or was not read since.

    Args:
        steps: at least one row of PROGRESS, of one topic of a group in time order, with known lags.
    """
    last = steps[-1]
    before = [row for row in steps if 2 * row["lag"] <= last["lag"]]
    if not before or not last["lag"]:
        return None
    since = before[-1]
    advance = sum(row["advance"] for row in steps if row["step_ts"] > since["step_ts"])
    rise_s = (last["step_ts"] - since["step_ts"]) / timedelta(seconds=1)
    needed_s = _find_time_to_read_s(last["lag"], advance, rise_s)
    if needed_s is None or min(needed_s, rise_s) <= _LARGE_LAG_S:
        return None
    return last, since, needed_s


def _find_time_to_read_s(lag: int, advance: int | None, elapsed_s: float) -> float | None:
    """Return the seconds in which a group reads its lag at the speed of an advance; None if it did not advance."""
    return lag / advance * elapsed_s if advance and advance > 0 and elapsed_s > 0 else None


def _row(
    kind: str, summary: Row, lag: int, needed_s: float | None, since: datetime, lag_before: int | None
) -> Row:
    return {
        "kind": kind,
        "log_partition": None,
        "group": summary["group"],
        "n": 1,
        "amount": lag,
        "most": needed_s,
        "ts": since,
        "until_ts": None,
        "previous_offset": lag_before,
    }
