"""One answer from several: a request that was split is answered when all of its parts have been.

Each part is put to its partition by itself, with an asker of its own. Parts that come at once are added; the others
fill their place later. The caller's slot is opened when all parts were asked and one is missing.
"""

from collections.abc import Callable
from typing import Any

from coordinator.answers import HELD, Later
from coordinator.net.caller import Caller
from coordinator.net.slot import Slot

Combine = Callable[[list[Any]], object]
"""Makes the response of the parts' responses."""


class Merge:
    """Gathers the parts of one answer, in the order in which they were asked for."""

    __slots__ = ("_combine", "_missing", "_parts", "_places", "_slot")

    def __init__(self, combine: Combine) -> None:
        self._combine = combine
        self._parts: list[object] = []
        self._missing = 0
        self._places: list[_Part] = []
        self._slot: Slot | None = None

    def ask(self, put: Callable[["_Part"], object | Later], api_version: int) -> None:
        """Asks for one part: `put` puts it to whom it concerns, with the asker that it is given."""
        number = len(self._parts)
        self._parts.append(None)
        response = put(_Part(self, number, api_version))
        if type(response) is not Later:
            self._parts[number] = response

    def answer(self, caller: Caller) -> object | Later:
        """All parts were asked for. Out: the whole answer, or HELD when some of it comes later."""
        if not self._missing:
            return self._combine(self._parts)
        self._slot = slot = caller.answer_later(parks=False)
        slot.finish = self._combine
        slot.dropped = self._withdraw
        return HELD

    def expect(self, place: "_Part") -> None:
        """A part comes later."""
        self._missing += 1
        self._places.append(place)

    def fill_part(self, number: int, response: object) -> None:
        """A part that came later."""
        assert self._parts[number] is None, "answered twice"
        self._parts[number] = response
        self._missing -= 1
        if not self._missing and self._slot is not None:
            self._slot.fill(self._parts)

    def _withdraw(self) -> None:
        """Nobody wants the answer any more."""
        for place in self._places:
            if place.registry is not None:
                place.registry.pop(place.waiter, None)


class _Part:
    """Asks for one part, and takes it."""

    __slots__ = ("_merge", "_number", "api_version", "registry", "request", "waiter")

    def __init__(self, merge: Merge, number: int, api_version: int) -> None:
        self._merge = merge
        self._number = number
        self.api_version = api_version
        self.request: object = None
        self.registry: dict[int, Any] | None = None
        self.waiter = 0

    def answer_later(self, *, parks: bool) -> "_Part":
        """The part comes later: here. What is merged never parks its connection."""
        self._merge.expect(self)
        return self

    def fill(self, response: object) -> None:
        """Passes the part on."""
        self._merge.fill_part(self._number, response)
