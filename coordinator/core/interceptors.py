"""The interceptors of a call, in an order that does not depend on the time of their registration.

Clock, faults, recorder and oracles come between a call and its implementation: a request and its handler, a call of
a machine and the machine, an append and the log, a sync and the disk. The component with the implementation has an
`InterceptorChain` for the call, and composes the call again when the chain changes. So a call without interceptors
is the plain call, at no cost.
"""

from bisect import insort
from collections.abc import Callable
from enum import IntEnum
from operator import itemgetter
from typing import Final, Generic, TypeVar

C = TypeVar("C")

_BY_RANK: Final = itemgetter(0)


class InterceptorRank(IntEnum):
    """The order of interceptors, from the caller to the implementation."""

    CLOCK = 1
    """Gives a group its own time. All others see that time."""
    FAULTS = 2
    """Delays, changes or refuses calls. The recorder and the oracles see what a fault lets through."""
    RECORDER = 3
    """Records the calls of a group, as the machine gets them."""
    ORACLES = 4
    """Observe stored commits."""


class InterceptorChain(Generic[C]):
    """The interceptors of one call. An interceptor takes the next call, and returns the call to use instead."""

    __slots__ = ("_entries", "_on_changed")

    def __init__(self, on_changed: Callable[[], None]) -> None:
        """Create an empty chain. `on_changed` is called after each change, and composes the call again."""
        self._entries: list[tuple[int, Callable[[C], C]]] = []
        self._on_changed = on_changed

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, interceptor: Callable[[C], C]) -> bool:
        return any(entry == interceptor for _, entry in self._entries)

    def add(self, rank: int, interceptor: Callable[[C], C]) -> None:
        """Add an interceptor that is not in the chain. Within a rank, earlier ones are nearer to the caller.

        Args:
            rank: Place in the chain, usually an `InterceptorRank`; the lowest rank is nearest to the caller.
            interceptor: Takes the next call, and returns the call to use instead.
        """
        assert interceptor not in self, interceptor
        insort(self._entries, (rank, interceptor), key=_BY_RANK)
        self._on_changed()

    def remove(self, interceptor: Callable[[C], C]) -> None:
        """Remove an interceptor. Raises ValueError if it is not in the chain."""
        place = [entry for _, entry in self._entries].index(interceptor)
        del self._entries[place]
        self._on_changed()

    def compose(self, call: C) -> C:
        """Return `call` behind all interceptors; `call` itself without any."""
        for _, intercept in reversed(self._entries):
            call = intercept(call)
        return call
