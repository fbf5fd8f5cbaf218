"""Find groups that lost their members while their lag grows.

A group that is regularly empty between the runs of a batch job does not count: it has returned from equally long
absences before.
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
    """Measured log ends of each partition, from the rows of `log_end_offsets`."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._ends: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for row in sorted(rows, key=itemgetter("at_ts")):
            self._ends[row["topic"], row["partition"]].append((row["at_ts"], row["log_end_offset"]))

    def end_at(self, topic: str, partition: int, at_us: int) -> int | None:
        """Return the last end measured until a time; None without a measurement."""
        measured = self._ends.get((topic, partition), [])
        number = bisect_right(measured, at_us, key=itemgetter(0))
        return measured[number - 1][1] if number else None


def abandoned_group(
    rebalances: Sequence[Row], lag: Iterable[Row], log_ends: MeasuredEnds, as_of_us: int
) -> list[Row]:
    """Return a row for a group that has had no members for MIN_ALONE_S and longer than ever before its return, if
    its lag has grown meanwhile. `amount`: the lag now; `previous_offset`: the lag at the start, NULL if unknown.

    A commit after the last member left (an offset reset) shows that an operator maintains the group; the absence
    counts from that commit. Without a log end from before the absence, the whole lag counts as new.

    Args:
        rebalances: the group's rows of `rebalance_stats` in log order.
        lag: the group's rows of `lag`.
        log_ends: the measured log ends.
        as_of_us: the reference time in microseconds.
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
    messages = f"{now} message{'' if now == 1 else 's'}"
    detail = (
        f"no member; lag rose from {then} to {messages}"
        if is_known
        else f"no member; lag is {messages}, and was unknown when the last member left"
    )
    return [
        group_key(last)
        | {
            "ts": ts,
            "until_ts": as_of_us,
            "generation": last["generation"],
            "amount": now,
            "previous_offset": then if is_known else None,
            "detail": detail,
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
