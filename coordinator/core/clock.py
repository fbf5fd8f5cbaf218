"""The only module that reads clocks."""

import time
from collections.abc import Callable

from coordinator.core.outcome import Now

monotonic_ns = time.monotonic_ns
"""Monotonic time for timers and durations, in nanoseconds."""

thread_time_ns = time.thread_time_ns
"""The processor time of the calling thread, in nanoseconds."""


def monotonic_ms() -> int:
    """Return monotonic time for timers, in milliseconds."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Return Unix time, in milliseconds."""
    return time.time_ns() // 1_000_000


def now() -> Now:
    """Return the current time in the form that the core takes."""
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Arrival:
    """The instant at which the current bytes were read. All work within a millisecond shares one object."""

    __slots__ = ("_ms", "now")

    def __init__(self) -> None:
        self.now = now()
        self._ms = self.now.monotonic_ms

    def advance(self, instant_ns: int) -> None:
        """Advance to a reading of `monotonic_ns`."""
        ms = instant_ns // 1_000_000
        if ms != self._ms:
            self._ms = ms
            self.now = Now(ms, time.time_ns() // 1_000_000)


def boot_ms() -> int:
    """Return the time since boot in milliseconds, for deadlines shared with other processes. It includes time in
    suspend.
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class WatchedArrival(Arrival):
    """An arrival clock that calls a function once in each millisecond, before requests of that millisecond are
    answered.
    """

    __slots__ = ("_on_millisecond",)

    def __init__(self, on_millisecond: Callable[[], object]) -> None:
        super().__init__()
        self._on_millisecond = on_millisecond

    def advance(self, instant_ns: int) -> None:
        before = self._ms
        super().advance(instant_ns)
        if self._ms != before:
            self._on_millisecond()


def format_time_of_day(timestamp_ms: int) -> str:
    """Format a time in milliseconds since 1970, in the time zone of this machine: `12:04:51.218`."""
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    try:
        return f"{time.strftime('%H:%M:%S', time.localtime(seconds))}.{milliseconds:03d}"
    except (OverflowError, OSError, ValueError):
        return str(timestamp_ms)  # a time that no calendar has
