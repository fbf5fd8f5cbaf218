"""A clock of groups that is driven by hand."""

from collections.abc import Callable

from coordinator.core import clock
from coordinator.core.outcome import Now


class HeldClock:
    """Runs as the process does, ahead of it by as much as it was advanced, or stands still."""

    def __init__(self, behind_ms: int = 0) -> None:
        """Create a running clock that was stopped for `behind_ms` before."""
        self.on_moved: list[Callable[[], None]] = []
        self._ahead_ms = -behind_ms
        self._held: Now | None = None

    def hold(self) -> None:
        """Stands still from now on."""
        self._held = self.now()
        self._moved()

    def let_go(self) -> None:
        """Goes on from where it stands."""
        assert self._held is not None
        self._ahead_ms = self._held.monotonic_ms - clock.monotonic_ms()
        self._held = None
        self._moved()

    def advance(self, ms: int) -> None:
        """Is later at once."""
        if self._held is not None:
            self._held = Now(self._held.monotonic_ms + ms, self._held.wall_ms + ms)
        else:
            self._ahead_ms += ms
        self._moved()

    def _moved(self) -> None:
        for moved in self.on_moved:
            moved()

    def at_request(self) -> Now:
        return self.now()

    def now(self) -> Now:
        if self._held is not None:
            return self._held
        now = clock.now()
        return Now(now.monotonic_ms + self._ahead_ms, now.wall_ms + self._ahead_ms)

    def to_group_ms(self, process_ms: int) -> int:
        return process_ms + self._ahead_ms if self._held is None else self._held.monotonic_ms

    def delay_ms_until(self, deadline_ms: int) -> int | None:
        delay_ms = max(0, deadline_ms - self.now().monotonic_ms)
        return delay_ms if self._held is None or delay_ms == 0 else None
