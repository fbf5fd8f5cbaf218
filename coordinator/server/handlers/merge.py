"""One answer from several: a request that was split is answered when all of its parts have been.

Each part is put to its partition by itself, with an asker of its own. Parts that come at once are added; the others
fill their place later. Asking takes steps, and so does making one answer of the parts: others go first when a slice
was not enough. The caller's slot is opened when something is left to do by the end of the first slice; unless that
is only to wait for the disk, nothing else of the caller is processed then.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from coordinator import clock
from coordinator.answers import HELD, PARKED, Later
from coordinator.net.caller import Caller
from coordinator.net.run_queue import SLICE_NS, RunQueue
from coordinator.net.slot import Slot, SlotOwner

Combining = Generator[None, None, Any]
"""Steps to the response."""
Combine = Callable[[list[Any]], Combining]
"""Makes the response of the parts' responses."""


class Merge:
    """Gathers the parts of one answer, in the order in which they were asked for."""

    __slots__ = (
        "_api_version",
        "_combine",
        "_combining",
        "_is_all_asked",
        "_is_in_line",
        "_missing",
        "_parts",
        "_places",
        "_response",
        "_run_queue",
        "_slot",
        "_unasked",
    )

    def __init__(self, combine: Combine, run_queue: RunQueue, api_version: int) -> None:
        self._combine = combine
        self._run_queue = run_queue
        self._api_version = api_version
        self._unasked: Iterator[Put | None] = iter(())
        self._is_all_asked = False
        self._is_in_line = False
        self._parts: list[object] = []
        self._missing = 0
        self._places: list[Part] = []
        self._combining: Combining | None = None
        self._response: object = None
        self._slot: Slot | None = None

    def answer(self, parts: Iterable["Put | None"], caller: Caller) -> object | Later:
        """Asks for all parts: each puts itself to whom it concerns, with the asker that it is given; None is a step
        that asks nobody. Out: the whole answer, or HELD or PARKED when some of it comes later."""
        self._unasked = iter(parts)
        if self._advance():
            return self._response
        waits = self._waits
        self._slot = caller.answer_later(parks=not waits)
        self._slot.dropped = self._withdraw
        if waits:
            return HELD
        self._get_in_line(self._slot)
        return PARKED

    def go_on(self) -> None:
        """One more slice, after others."""
        slot = self._slot
        assert slot is not None
        slot.ends = self._is_in_line = False
        try:
            is_done = self._advance()
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            self._withdraw()
            slot.dropped = None
            slot.owner.has_failed(problem)
            return
        if is_done:
            slot.dropped = None
            # Each place knows this, and would keep all parts until the next collection.
            self._places.clear()
            slot.fill(self._response)
        elif not self._waits:
            self._get_in_line(slot)

    def _get_in_line(self, slot: Slot) -> None:
        slot.ends = self._is_in_line = True
        self._run_queue.add(self)

    @property
    def _waits(self) -> bool:
        return self._is_all_asked and self._missing > 0

    def _advance(self) -> bool:
        """Works for a slice; whether the response is there."""
        started_ns = clock.monotonic_ns()
        if not self._is_all_asked and not self._ask(started_ns):
            return False
        return not self._missing and self._put_together(started_ns)

    def _ask(self, started_ns: int) -> bool:
        """Asks for parts; whether all were."""
        for put in self._unasked:
            if put is not None:
                number = len(self._parts)
                self._parts.append(None)
                response = put(Part(self, number, self._api_version))
                if type(response) is not Later:
                    self._parts[number] = response
            if clock.monotonic_ns() - started_ns > SLICE_NS:
                return False
        self._is_all_asked = True
        return True

    def _put_together(self, started_ns: int) -> bool:
        """Makes the response of the parts; whether it is there."""
        if self._combining is None:
            self._combining = self._combine(self._parts)
        try:
            while clock.monotonic_ns() - started_ns < SLICE_NS:
                next(self._combining)
        except StopIteration as end:
            self._response = end.value
            return True
        return False

    @property
    def owner(self) -> SlotOwner | None:
        """Whoever waits for the answer; None where nobody has to wait yet."""
        return None if self._slot is None else self._slot.owner

    def expect(self, place: "Part") -> None:
        """A part comes later."""
        self._missing += 1
        self._places.append(place)

    def fill_part(self, number: int, response: object) -> None:
        """A part that came later."""
        assert self._parts[number] is None, "answered twice"
        self._parts[number] = response
        self._missing -= 1
        if not self._missing and self._slot is not None and self._is_all_asked:
            self.go_on()

    def _withdraw(self) -> None:
        """Nobody wants the answer any more."""
        if self._is_in_line:
            self._run_queue.remove(self)
        for place in self._places:
            if place.registry is not None:
                place.registry.pop(place.waiter, None)
        self._places.clear()
        if self._slot is not None:
            self._slot.dropped = None


Put = Callable[["Part"], object | Later]
"""Puts a part to whom it concerns."""


class Part:
    """Asks for one part, and takes it."""

    __slots__ = ("_merge", "_number", "api_version", "registry", "request", "waiter")

    def __init__(self, merge: Merge, number: int, api_version: int) -> None:
        self._merge = merge
        self._number = number
        self.api_version = api_version
        self.request: object = None
        self.registry: dict[int, Any] | None = None
        self.waiter = 0

    def answer_later(self, *, parks: bool) -> "Part":
        """The part comes later: here. What is merged never parks its connection."""
        self._merge.expect(self)
        return self

    @property
    def owner(self) -> SlotOwner | None:
        """Whoever waits for the answer; None where the answer is being given at once."""
        return self._merge.owner

    def fill(self, response: object) -> None:
        """Passes the part on."""
        self._merge.fill_part(self._number, response)
