"""Find periods with too many events."""

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise
from typing import Final

from pipeline.gold.group_records import Row, group_key

_MILLIS: Final = 1000


def crowded(events: Sequence[Row], count: int, within_s: int) -> list[Row]:
    """Return the periods in which `count` consecutive events of a group are within `within_s` seconds. Overlapping
    periods are merged. A period ends where a clock was set back, because no duration spans that moment.

    `events` have `log_partition`, `group`, `log_offset`, `record_ts` and `generation`, in log order. Each period
    has `ts`, `until_ts`, `amount` (its events), `log_offset` of the last and `previous_log_offset` of the first
    event, and `generation` of the last.
    """
    times_ms = [event["record_ts"] // _MILLIS for event in events]
    setbacks = [0, *accumulate(int(after < before) for before, after in pairwise(times_ms))]
    is_in_stretch = [False] * len(events)
    for first, last in enumerate(range(count - 1, len(events))):
        is_one_clock = setbacks[first] == setbacks[last]
        if is_one_clock and times_ms[last] - times_ms[first] <= within_s * 1000:
            is_in_stretch[first : last + 1] = [True] * count
    found = []
    stretches = groupby(range(len(events)), lambda number: (is_in_stretch[number], setbacks[number]))
    for (is_crowded, _), members in stretches:
        if is_crowded:
            found.append(_row([events[number] for number in members]))
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
