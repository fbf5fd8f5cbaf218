"""One answer from several: a request that was split over partitions is answered when all of them have answered."""

from collections.abc import Callable
from typing import cast

from coordinator.server.slot import Awaiting, Slot

Combine = Callable[[list[object]], object]


class Merge:
    """Gathers the parts of one answer, in the order in which they were asked for."""

    __slots__ = ("_combine", "_missing", "_parts", "slot", "withdrawals")

    def __init__(self, combine: Combine) -> None:
        """`combine` makes the response of the parts' responses."""
        self._combine = combine
        self._parts: list[object] = []
        self._missing = 0
        self.slot: Slot | None = None
        """Where the answer goes; set when not every part came at once."""
        self.withdrawals: list[Callable[[], None]] = []
        """What takes the entries of the missing parts back."""

    def add(self, response: object) -> None:
        """A part that came at once."""
        self._parts.append(response)

    def expect(self, request: object, api_version: int) -> Awaiting:
        """A part that comes later; who is to be given it. In: what was asked for it."""
        self._parts.append(None)
        self._missing += 1
        return _Part(self, len(self._parts) - 1, request, api_version)

    def fill_part(self, number: int, response: object) -> None:
        """A part that came later."""
        assert self._parts[number] is None, "answered twice"
        self._parts[number] = response
        self._missing -= 1
        if not self._missing and self.slot is not None:
            self.slot.finish = cast("Callable[[object], object]", self._combine)
            self.slot.fill(self._parts)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return not self._missing

    def response(self) -> object:
        """The whole answer; nothing is missing."""
        return self._combine(self._parts)

    def withdraw(self) -> None:
        """Nobody wants the answer any more."""
        for withdraw in self.withdrawals:
            withdraw()


class _Part:
    __slots__ = ("_merge", "_number", "api_version", "request")

    def __init__(self, merge: Merge, number: int, request: object, api_version: int) -> None:
        self._merge = merge
        self._number = number
        self.request = request
        self.api_version = api_version

    def fill(self, response: object) -> None:
        """Passes the part on."""
        self._merge.fill_part(self._number, response)
