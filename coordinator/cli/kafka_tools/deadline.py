"""Deadlines of operations that are tried again."""

from threading import Event

from coordinator.clock import monotonic_ns


def pause(duration_s: float) -> None:
    """Wait."""
    Event().wait(duration_s)


class Deadline:
    """An instant on the monotonic clock."""

    def __init__(self, timeout_s: float) -> None:
        """In: how far ahead it is; infinity for never."""
        self._end_s = monotonic_ns() / 1e9 + timeout_s

    @property
    def left_s(self) -> float:
        """The time until then; 0 when it has passed."""
        return max(self._end_s - monotonic_ns() / 1e9, 0.0)

    def pause(self, duration_s: float) -> bool:
        """Wait, unless the deadline would pass meanwhile. Returns whether it waited."""
        if duration_s > self.left_s:
            return False
        pause(duration_s)
        return True
