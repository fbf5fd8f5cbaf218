"""A group that has lost its members while what it should read goes on growing.

A group that is empty between two runs of a batch is none: it has come back from absences as long as this one.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final

from pipeline.gold.group_records import EMPTIED, Row, group_key

MIN_ALONE_S: Final = 60
_RETURNED: Final = "rebalance"


class MeasuredEnds:
    """Measured log ends of each partition. In: the rows of `log_end_offsets`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._ends: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for row in sorted(rows, key=itemgetter("at_ts")):
            self._ends[row["topic"], row["partition"]].append((row["at_ts"], row["log_end_offset"]))

    def end_at(self, topic: str, partition: int, at_us: int) -> int | None:
        """Return the end that was measured last up to a time, None without a measurement."""
        measured = self._ends.get((topic, partition), [])
        number = bisect_right(measured, at_us, key=itemgetter(0))
        return measured[number - 1][1] if number else None


def abandoned_group(
    rebalances: Sequence[Row], lag: Iterable[Row], log_ends: MeasuredEnds, as_of_us: int
) -> list[Row]:
    """Return a row for a group without members for MIN_ALONE_S and longer than it ever was before it came
    back, if its lag has grown meanwhile. `amount`: messages that wait now; `previous_offset`: how many waited
    then, NULL where that is unknown.

    In: the rows of a group of `rebalance_stats`, in log order, and of `lag`; log ends; the time that counts
    as now. A commit after the last member left (a reset) shows that an operator looks after the group: the
    time counts from there. Without a log end from before the group was empty, all of the lag counts as new.
    """
    last = rebalances[-1] if rebalances else None
    if last is None or last["kind"] != EMPTIED or last["ended_by"] or last["record_ts"] > as_of_us:
        return []
    emptied_us = last["record_ts"]
    behind = [row for row in lag if row["lag"]]
    waiting = [
        _waiting_then(row, log_ends.end_at(row["topic"], row["partition"], emptied_us)) for row in behind
    ]
    now, then = sum(row["lag"] for row in behind), sum(one or 0 for one in waiting)
    if now <= then:
        return []
    ts = max([emptied_us, *(row["commit_ts"] for row in behind if row["commit_ts"] is not None)])
    alone_ms = as_of_us // 1000 - ts // 1000
    if alone_ms < MIN_ALONE_S * 1000 or alone_ms <= _longest_absence_ms(rebalances):
        return []
    is_known = None not in waiting
    before = (
        f"lag rose from {then} to {now}"
        if is_known
        else f"lag is {now}, how much when the last left is not known"
    )
    return [
        group_key(last)
        | {
            "ts": ts,
            "until_ts": as_of_us,
            "generation": last["generation"],
            "amount": now,
            "previous_offset": then if is_known else None,
            "detail": f"no member; {before} messages",
            "log_offset": last["log_offset"],
        }
    ]


def _waiting_then(row: Row, end_then: int | None) -> int | None:
    if end_then is None:
        return None
    return int(min(max(end_then - row["offset"], 0), row["lag"]))


def _longest_absence_ms(rebalances: Iterable[Row]) -> int:
    absences_ms = [
        row["ended_ts"] // 1000 - row["record_ts"] // 1000
        for row in rebalances
        if row["kind"] == EMPTIED and row["ended_by"] == _RETURNED
    ]
    return max(absences_ms, default=0)
