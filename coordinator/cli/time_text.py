"""Parses and formats times and durations for command lines. Times are milliseconds since 1970, durations are
milliseconds.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class InvalidTime(Exception):
    """A text is not a valid time."""


def parse_time(text: str) -> int:
    """Milliseconds since 1970 from such a number, or from ISO 8601 (UTC where it names no zone). Raises
    InvalidTime."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidTime(
            f"{text} is neither a time such as 2026-01-31T12:00:00Z nor milliseconds since 1970"
        ) from error
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return (time - _EPOCH) // timedelta(milliseconds=1)


def iso_time(timestamp_ms: int) -> str | None:
    """In UTC, to the millisecond; None for -1 and for times that no calendar has."""
    if timestamp_ms < 0:
        return None
    second, millisecond = divmod(timestamp_ms, 1000)
    text = _iso_second(second)
    return None if text is None else f"{text}.{millisecond:03d}Z"


@lru_cache(maxsize=8)
def _iso_second(second: int) -> str | None:
    """Format a time to the second. Records of one second follow each other, so a few are cached."""
    try:
        time = _EPOCH + timedelta(seconds=second)
    except OverflowError:
        return None
    return time.replace(tzinfo=None).isoformat()


def time_of_day(timestamp_ms: int) -> str:
    """On the clock of this machine, to the millisecond, as the daemon's log has it."""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone().strftime("%H:%M:%S.%f")[:-3]
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)


def format_duration(milliseconds: int) -> str:
    """`2 ms`, `2.7 s`, `45 s`, `4.8 min`, `3.2 h`."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
