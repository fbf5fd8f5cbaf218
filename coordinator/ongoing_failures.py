"""What the system refuses for a while: told when it begins, once a minute while it lasts, and when it is over.

Clients ask again and again while a disk is full, and every commit fails alike, in one partition after the other: a
line for each would bury all else. What fails for the same reason shares its lines.
"""

import logging
from typing import Final

from coordinator import clock
from storage.os_error import reason_of

PERIOD_MS: Final = 60_000


class OngoingFailures:
    """What fails, by name."""

    __slots__ = ("_log", "_open", "_told", "count")

    def __init__(self, logger: str) -> None:
        """In: the name under which it is told that something is in order again."""
        self.count = 0
        """Failures since the start."""
        self._log = logging.getLogger(logger)
        self._open: dict[str, tuple[int, int, bool, str]] = {}
        """By name: how often it failed, since when (monotonic milliseconds), whether it had a line, the reason."""
        self._told: dict[object, tuple[int, int]] = {}
        """By kind: when there was a line, and how often it failed since."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._open)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def reason(self, name: str) -> str:
        """Why something failed the last time; it is one of those that do."""
        return self._open[name][3]

    def failed(self, name: str, error: Exception) -> int:
        """Counts a failure. Out: how many of its kind came since the last line, this one included, if it is to have
        a line now; else 0."""
        untold = self.counted(error)
        count, since_ms, had_line, _ = self._open.get(name, (0, clock.monotonic_ms(), False, ""))
        self._open[name] = (count + 1, since_ms, had_line or untold > 0, reason_of(error))
        return untold

    def counted(self, error: Exception) -> int:
        """The same for what has no end of its own: it is done again in its time, or never."""
        self.count += 1
        kind, now_ms = _kind(error), clock.monotonic_ms()
        told_ms, untold = self._told.get(kind, (now_ms - PERIOD_MS, 0))
        if now_ms - told_ms < PERIOD_MS:
            self._told[kind] = (told_ms, untold + 1)
            return 0
        self._told[kind] = (now_ms, 0)
        return untold + 1

    def is_over(self, name: str) -> None:
        """It works again: tells so, if a line had said that it does not."""
        failure = self._open.pop(name, None)
        if failure is not None and failure[2]:
            count, since_ms, _, _ = failure
            seconds = (clock.monotonic_ms() - since_ms) / 1000
            self._log.info("%s is in order again after %.1f s and %d failures", name, seconds, count)


def times(count: int) -> str:
    """The end of a line that stands for several failures; of one that does not, nothing."""
    return f" ({count} times since the last line)" if count > 1 else ""


def _kind(error: Exception) -> object:
    """What makes two failures alike: not what was being written, nor where in the file."""
    refused = error if isinstance(error, OSError) else error.__cause__
    number = getattr(refused, "errno", None)
    return type(error) if number is None else number
