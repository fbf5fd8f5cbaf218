"""The time of a group: the process's and an offset, or an instant at which it stands still."""

from coordinator.machine.outcome import Now


class GroupTime:
    """One clock. It never runs backwards: frozen and let run again, it goes on where it stood.

    Everywhere `process` is the time of the engine, from which this one is counted."""

    def __init__(self, starts_at: Now, process: Now) -> None:
        """In: what it says now."""
        self.lets_gone_go = False
        """Whether members that are gone expire while it is frozen."""
        self._ahead_ms = _difference(starts_at, process)
        self._held: Now | None = None

    @property
    def is_frozen(self) -> bool:
        """Whether it stands still."""
        return self._held is not None

    def at(self, process: Now) -> Now:
        """What it says."""
        if self._held is not None:
            return self._held
        ahead_ms = self._ahead_ms
        return Now(process.monotonic_ms + ahead_ms.monotonic_ms, process.wall_ms + ahead_ms.wall_ms)

    def freeze(self, process: Now) -> None:
        """It stands still from now on."""
        self._held = self.at(process)

    def run(self, process: Now) -> None:
        """It runs from now on."""
        if self._held is not None:
            self._ahead_ms = _difference(self._held, process)
            self._held = None
        self.lets_gone_go = False

    def move_to(self, monotonic_ms: int) -> None:
        """Sets it ahead, to a monotonic time of its own, while it is frozen. One that is past changes nothing."""
        assert self._held is not None, "a clock that runs cannot be set"
        by_ms = max(0, monotonic_ms - self._held.monotonic_ms)
        self._held = Now(self._held.monotonic_ms + by_ms, self._held.wall_ms + by_ms)

    def process_ms(self, deadline_ms: int, process: Now) -> int | None:
        """The monotonic time of the process at which this clock says `deadline_ms`; None when it will not."""
        if self._held is None:
            return deadline_ms - self._ahead_ms.monotonic_ms
        return process.monotonic_ms if deadline_ms <= self._held.monotonic_ms else None


def _difference(one: Now, other: Now) -> Now:
    return Now(one.monotonic_ms - other.monotonic_ms, one.wall_ms - other.wall_ms)
