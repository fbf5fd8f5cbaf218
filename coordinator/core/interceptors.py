"""The interceptors of a call, in an order that does not depend on the time of their registration.

Clock, faults, recorder and oracles come between a call and its implementation: a request and its handler, a call of
a machine and the machine, an append and the log, a sync and the disk. The component with the implementation has an
`InterceptorChain` for the call, and composes the call again when the chain changes. So a call without interceptors
is the plain call, at no cost.
"""

from bisect import insort
from collections.abc import Callable, Iterator
from enum import IntEnum
from operator import itemgetter
from typing import Final, Generic, TypeVar

C = TypeVar("C")
T = TypeVar("T")

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


class RankedList(Generic[T]):
    """Items in the order of their ranks. Within a rank, the earlier ones come first."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[int, T]] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._entries)

    def add(self, rank: int, item: T) -> None:
        """Add an item that is not in the list."""
        assert item not in self, item
        insort(self._entries, (rank, item), key=_BY_RANK)

    def remove(self, item: T) -> None:
        """Remove an item. Raises ValueError if it is not in the list."""
        del self._entries[list(self).index(item)]


class InterceptorChain(RankedList[Callable[[C], C]], Generic[C]):
    """The interceptors of one call. An interceptor takes the next call, and returns the call to use instead."""

    __slots__ = ("_on_changed",)

    def __init__(self, on_changed: Callable[[], None]) -> None:
        """Create an empty chain. `on_changed` is called after each change, and composes the call again."""
        super().__init__()
        self._on_changed = on_changed

    def add(self, rank: int, interceptor: Callable[[C], C]) -> None:
        """Add an interceptor that is not in the chain. Within a rank, earlier ones are nearer to the caller.

        Args:
            rank: Place in the chain, usually an `InterceptorRank`; the lowest rank is nearest to the caller.
            interceptor: Takes the next call, and returns the call to use instead.
        """
        super().add(rank, interceptor)
        self._on_changed()

    def remove(self, interceptor: Callable[[C], C]) -> None:
        """Remove an interceptor. Raises ValueError if it is not in the chain."""
        super().remove(interceptor)
        self._on_changed()

    def compose(self, call: C) -> C:
        """Return `call` behind all interceptors; `call` itself without any."""
        for intercept in reversed(list(self)):
            call = intercept(call)
        return call
