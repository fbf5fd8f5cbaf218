"""A place in the order of a connection's answers that a fault keeps: nothing behind it is processed meanwhile."""

import asyncio
from collections.abc import Callable
from typing import Final

from coordinator import clock
from coordinator.control.faults.asked import Asked
from coordinator.net.slot import Slot

LONGEST_HOLD_S: Final = 600.0
"""A hold ends by itself after that."""


class Holding:
    """A request or an answer that is held, delayed or swallowed."""

    __slots__ = ("_go_on", "_gone", "_timer", "asked", "kind", "since_ns", "slot")

    def __init__(
        self,
        kind: str,
        asked: Asked,
        slot: Slot,
        go_on: Callable[[], None],
        gone: Callable[["Holding"], None],
    ) -> None:
        """In: how it goes on; whom to tell when it does, or its connection is lost."""
        self.kind = kind
        self.asked = asked
        self.slot = slot
        self.since_ns = clock.monotonic_ns()
        self._go_on = go_on
        self._gone = gone
        self._timer: asyncio.TimerHandle | None = None
        slot.dropped = self._lost

    def end_after(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Lets it go by itself."""
        self._timer = loop.call_later(seconds, self.release)

    def release(self) -> None:
        """Goes on with what is held, now; what was swallowed ends with its connection. Once."""
        self._let_go()
        if self.kind == "swallow":
            self.slot.owner.abort()
        else:
            self._go_on()

    def _lost(self) -> None:
        """The connection is gone."""
        self._let_go()

    def _let_go(self) -> None:
        self.slot.dropped = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._gone(self)
