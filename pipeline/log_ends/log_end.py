"""A measurement of one partition's log, and the times for which measurements are wanted."""

from collections.abc import Iterator
from typing import NamedTuple


class LogEnd(NamedTuple):
    """From `at_ms` on, until a later measurement, the log ended at `log_end_offset` (that of the next message)."""

    topic: str
    partition: int
    at_ms: int
    log_start_offset: int | None
    log_end_offset: int
    source: str


class Period(NamedTuple):
    """The time from the first to the last record of the offsets log, and how finely it is looked at."""

    start_ms: int
    end_ms: int
    step_s: int

    def step(self, time_ms: int) -> int:
        """The number of the step that a time lies in. All times before the period are in the step before it."""
        step_ms = self.step_s * 1000
        return max(time_ms // step_ms, self.start_ms // step_ms - 1)

    def ends_ms(self) -> Iterator[int]:
        """The end of every step, in order; the last one is the end of the period."""
        step_ms = self.step_s * 1000
        first = self.start_ms // step_ms * step_ms + step_ms
        yield from range(first, self.end_ms, step_ms)
        yield self.end_ms
