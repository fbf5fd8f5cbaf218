"""Find groups whose lag needs attention although no anomaly explains it.

A lag is large if the group would need more than a minute to read it at its own speed, or if it has read nothing.
"""

from datetime import datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.progress import PROGRESS
from pipeline.report.report_tables import ReportTables, Row, sort_indices

UNATTENDED: Final = "unread_without_members"
RISING: Final = "rising_lag"
LARGE_LAG_S: Final = 60.0
"""A lag that takes longer to read is large, and a group without members is missed after this time, seconds."""
_MAX_GROUPS: Final = 100
"""The groups with the greatest lags that are examined for each kind."""


def find_lag_troubles(tables: ReportTables, summaries: pa.Table, now: datetime) -> list[Row]:
    """Return a row of `troubles` for each group without members and for each rising lag, the greatest first.

    `amount` is the lag, `most` the seconds in which the group would read it, NULL if it has read nothing; `ts` the
    time since when the group has no members or the lag has risen, `previous_offset` the lag at that time.

    Args:
        tables: gold.
        summaries: as `summarise_groups` returns them.
        now: the reference time of the report.
    """
    behind = summaries.filter(pc.greater(summaries.column("lag"), 0))
    empty = behind.filter(pc.equal(behind.column("n_members"), 0))
    attended = behind.filter(pc.greater(behind.column("n_members"), 0))
    return [*_find_unattended(_first(empty), now), *_find_rising(tables, _first(attended))]


def _first(summaries: pa.Table) -> list[Row]:
    order = [("lag", True), ("group", False)]
    found: list[Row] = summaries.take(sort_indices(summaries, order)[:_MAX_GROUPS]).to_pylist()
    return found


def _find_unattended(summaries: list[Row], now: datetime) -> list[Row]:
    found = []
    for summary in summaries:
        needed_s = _find_reading_time(summary["lag"], summary["advance"], _reading_time_s(summary))
        is_missed = now - summary["state_ts"] >= timedelta(seconds=LARGE_LAG_S)
        if is_missed and (needed_s is None or needed_s > LARGE_LAG_S):
            found.append(_row(UNATTENDED, summary, summary["lag"], needed_s, summary["state_ts"], None))
    return found


def _reading_time_s(summary: Row) -> float:
    """Return the time in which the group committed, seconds. `elapsed_s` adds up its partitions."""
    return float((summary["elapsed_s"] or 0) / max(summary["n_partitions"], 1))


def _find_rising(tables: ReportTables, summaries: list[Row]) -> list[Row]:
    """Find groups that commit while the lag of one of their topics rises."""
    of_group = {summary["group"]: summary for summary in summaries}
    steps: dict[tuple[str, str], list[Row]] = {}
    for row in tables.read(PROGRESS, groups=list(of_group)).to_pylist():
        steps.setdefault((row["group"], row["topic"]), []).append(row)
    found: dict[str, Row] = {}
    for (group, topic), rows in sorted(steps.items()):
        known = sorted((row for row in rows if row["lag"] is not None), key=lambda row: row["step_ts"])
        rise = _measure_rise(known)
        if rise is not None and rise[0]["lag"] > found.get(group, {"amount": 0})["amount"]:
            last, since, needed_s = rise
            row = _row(RISING, of_group[group], last["lag"], needed_s, since["step_ts"], since["lag"])
            found[group] = row | {"topic": topic}
    return list(found.values())


def _measure_rise(steps: list[Row]) -> tuple[Row, Row, float] | None:
    """Return the last step, the last one with at most half of its lag, and the seconds in which the group reads
    the lag at its speed between them; None if the lag is small, has not doubled, or was not read since.

    Args:
        steps: rows of PROGRESS of one topic of a group in time order, with known lags.
    """
    last = steps[-1] if steps else None
    before = [row for row in steps if last is not None and 2 * row["lag"] <= last["lag"]]
    if last is None or not before or not last["lag"]:
        return None
    since = before[-1]
    advance = sum(row["advance"] for row in steps if row["step_ts"] > since["step_ts"])
    rise_s = (last["step_ts"] - since["step_ts"]) / timedelta(seconds=1)
    needed_s = _find_reading_time(last["lag"], advance, rise_s)
    if needed_s is None or min(needed_s, rise_s) <= LARGE_LAG_S:
        return None
    return last, since, needed_s


def _find_reading_time(lag: int, advance: int | None, elapsed_s: float) -> float | None:
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
