"""One answer from several: a request that was split is answered when all of its parts have been.

Each part is put to its partition by itself, with an asker of its own. Parts that come at once are added; the others
fill their place later. The caller's slot is opened when all parts were asked and one is missing, or when asking
takes so long that others go first: nothing else of the caller is processed then.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coordinator import clock
from coordinator.answers import HELD, PARKED, Later
from coordinator.net.caller import Caller
from coordinator.net.run_queue import SLICE_NS, RunQueue
from coordinator.net.slot import Slot

Combine = Callable[[list[Any]], object]
"""Makes the response of the parts' responses."""


class Merge:
    """Gathers the parts of one answer, in the order in which they were asked for."""

    __slots__ = (
        "_api_version",
        "_combine",
        "_is_all_asked",
        "_missing",
        "_parts",
        "_places",
        "_run_queue",
        "_slot",
        "_unasked",
    )

    def __init__(self, combine: Combine, run_queue: RunQueue, api_version: int) -> None:
        self._combine = combine
        self._run_queue = run_queue
        self._api_version = api_version
        self._unasked: Iterator[Put] = iter(())
        self._is_all_asked = False
        self._parts: list[object] = []
        self._missing = 0
        self._places: list[_Part] = []
        self._slot: Slot | None = None

    def answer(self, parts: Iterable["Put"], caller: Caller) -> object | Later:
        """Asks for all parts: each puts itself to whom it concerns, with the asker that it is given. Out: the whole
        answer, or HELD or PARKED when some of it comes later."""
        self._unasked = iter(parts)
        self._ask()
        if self._is_all_asked and not self._missing:
            return self._combine(self._parts)
        self._slot = slot = caller.answer_later(parks=not self._is_all_asked)
        slot.finish = self._combine
        slot.dropped = self._withdraw
        if self._is_all_asked:
            return HELD
        self._run_queue.add(self)
        return PARKED

    def go_on(self) -> None:
        """Asks for more, after others."""
        slot = self._slot
        assert slot is not None
        try:
            self._ask()
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            slot.dropped = None
            slot.owner.has_failed(problem)
            return
        if not self._is_all_asked:
            self._run_queue.add(self)
        elif not self._missing:
            slot.fill(self._parts)

    def _ask(self) -> None:
        """Asks for a slice of the parts."""
        started_ns = clock.monotonic_ns()
        for put in self._unasked:
            number = len(self._parts)
            self._parts.append(None)
            response = put(_Part(self, number, self._api_version))
            if type(response) is not Later:
                self._parts[number] = response
            if clock.monotonic_ns() - started_ns > SLICE_NS:
                return
        self._is_all_asked = True

    def expect(self, place: "_Part") -> None:
        """A part comes later."""
        self._missing += 1
        self._places.append(place)

    def fill_part(self, number: int, response: object) -> None:
        """A part that came later."""
        assert self._parts[number] is None, "answered twice"
        self._parts[number] = response
        self._missing -= 1
        if not self._missing and self._slot is not None and self._is_all_asked:
            self._slot.fill(self._parts)

    def _withdraw(self) -> None:
        """Nobody wants the answer any more."""
        if not self._is_all_asked:
            self._run_queue.remove(self)
        for place in self._places:
            if place.registry is not None:
                place.registry.pop(place.waiter, None)


Put = Callable[["_Part"], object | Later]
"""Puts a part to whom it concerns."""


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
