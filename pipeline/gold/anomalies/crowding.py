"""Find periods with too many events."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from pipeline.gold.group_records import Row, group_key

_MILLIS: Final = 1000


def crowded(events: Sequence[Row], count: int, within_s: int) -> list[Row]:
    """Return the periods in which `count` consecutive events of a group are within `within_s` seconds. Overlapping
    periods are merged.

    `events` have `log_partition`, `group`, `log_offset`, `record_ts` and `generation`, in log order. Each period
    has `ts`, `until_ts`, `amount` (its events), `log_offset` of the last and `previous_log_offset` of the first
    event, and `generation` of the last.
    """
    is_in_stretch = [False] * len(events)
    for first in range(len(events) - count + 1):
        span_ms = events[first + count - 1]["record_ts"] // _MILLIS - events[first]["record_ts"] // _MILLIS
        if span_ms <= within_s * 1000:
            is_in_stretch[first : first + count] = [True] * count
    found = []
    for is_crowded, members in groupby(range(len(events)), is_in_stretch.__getitem__):
        if is_crowded:
            stretch = [events[number] for number in members]
            found.append(_row(stretch))
    return found


def _row(stretch: list[Row]) -> Row:
    first, last = stretch[0], stretch[-1]
    return group_key(first) | {
        "ts": first["record_ts"],
        "until_ts": last["record_ts"],
        "amount": len(stretch),
        "log_offset": last["log_offset"],
        "previous_log_offset": first["log_offset"],
        "generation": last["generation"],
    }


def seconds_between(begin_us: int, end_us: int) -> int:
    """Return whole seconds between two times in microseconds, of which only milliseconds count."""
    return int((end_us // _MILLIS - begin_us // _MILLIS) / 1000)
