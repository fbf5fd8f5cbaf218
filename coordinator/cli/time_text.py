"""Parses and formats times in ISO 8601 for command lines. Times are milliseconds since 1970."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class InvalidTime(Exception):
    """A text is not a valid time."""


def parse_time(text: str) -> int:
    """Parse a number of milliseconds since 1970, or ISO 8601 (UTC without a zone), into milliseconds since 1970.
    Raises InvalidTime."""
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
    """Format a time in UTC with milliseconds; None for -1 and for times beyond the calendar."""
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
