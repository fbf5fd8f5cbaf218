"""Requests of so many elements that decoding them would keep everybody waiting.

A request is decoded on the loop up to `route.AT_ONCE_ELEMENTS`; one that has more is decoded here: in a thread, one
at a time. Nothing else of its connection is processed until it is answered, so that answers keep their order, and
whoever answers it is told that it is large, and takes steps. Its bytes are taken from `queued.max.request.bytes`
until it is decoded.
"""

import asyncio
from collections import deque
from functools import partial
from typing import Any

from coordinator import clock
from coordinator.answers import GOODBYE, NO_ANSWER, Later
from coordinator.net.caller import Caller
from coordinator.net.request_memory import RequestMemory
from coordinator.net.route import Route
from coordinator.net.slot import Slot


class _Large:
    """A request, for as long as it is not decoded; then, whom its handler answers."""

    __slots__ = (
        "api_name",
        "api_version",
        "arrival",
        "body",
        "client_host",
        "client_id",
        "connection_id",
        "frame",
        "is_given_up",
        "memory_bytes",
        "node",
        "principal",
        "route",
        "slot",
    )

    is_large = True

    def __init__(
        self, sender: Caller, slot: Slot, route: Route, frame: bytes, body: int, arrival: clock.Arrival
    ) -> None:
        self.client_id = sender.client_id
        self.client_host = sender.client_host
        self.connection_id = sender.connection_id
        self.node = sender.node
        self.principal = sender.principal
        self.api_name = route.api.name
        self.api_version = route.version
        self.slot = slot
        self.route = route
        self.frame = frame
        self.body = body
        self.arrival = arrival
        self.memory_bytes = 0
        self.is_given_up = False

    def decode(self) -> Any:
        """The message. Raises Malformed."""
        frame, self.frame = self.frame, b""
        return self.route.decode_large(frame, self.body)

    def answer_later(self, *, parks: bool) -> Slot:
        """Where the answer goes: its place is taken already, and its connection waits for it in any case."""
        return self.slot


class LargeRequests:
    """The large requests of all connections. All methods belong to the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, memory: RequestMemory) -> None:
        self._loop = loop
        self._memory = memory
        self._waiting: deque[_Large] = deque()
        self._undecoded: dict[object, _Large] = {}
        """Those that are not decoded; a connection has one at most."""
        self._is_busy = False

    def add(
        self,
        sender: Caller,
        slot: Slot,
        route: Route,
        frame: bytes,
        body: int,
        arrival: clock.Arrival,
    ) -> None:
        """Decodes a request, whose body begins at `body`, in time, and has it answered in a slot that parks."""
        large = _Large(sender, slot, route, frame, body, arrival)
        slot.ends = True
        slot.dropped = partial(self._give_up, large)
        self._undecoded[slot.owner] = large
        self._waiting.append(large)
        if not self._is_busy:
            self._is_busy = True
            self._begin()

    def keeps(self, owner: object, size_bytes: int) -> bool:
        """Whether the request of a connection is here, and not decoded. The bytes that were reserved for it are
        given back when it is."""
        large = self._undecoded.get(owner)
        if large is None:
            return False
        large.memory_bytes = size_bytes
        return True

    def _give_up(self, large: _Large) -> None:
        """The connection is lost."""
        large.is_given_up = True
        large.slot.dropped = None  # it would keep the request until the next collection
        if large in self._waiting:
            self._waiting.remove(large)
            self._forget(large)

    def _forget(self, large: _Large) -> None:
        del self._undecoded[large.slot.owner]
        self._memory.give_back(large.memory_bytes)

    def _begin(self) -> None:
        if not self._waiting:
            self._is_busy = False
            return
        large = self._waiting.popleft()
        try:
            decoding = self._loop.run_in_executor(None, large.decode)
        except Exception as problem:  # noqa: BLE001 - no thread can be started: the requests behind it may succeed
            decoding = self._loop.create_future()
            decoding.set_exception(problem)
        decoding.add_done_callback(partial(self._decoded, large))

    def _decoded(self, large: _Large, done: "asyncio.Future[Any]") -> None:
        self._forget(large)
        self._begin()
        if done.cancelled():
            return
        problem = done.exception()
        slot = large.slot
        if large.is_given_up:
            return
        slot.ends, slot.dropped = False, None
        if problem is not None:
            assert isinstance(problem, Exception)
            slot.owner.has_failed(problem)
            return
        try:
            large.arrival.advance(clock.monotonic_ns())
            response = large.route.handle(done.result(), large)
        except Exception as failed:  # noqa: BLE001 - whatever a request causes costs its connection only
            slot.owner.has_failed(failed)
            return
        if type(response) is Later:
            return
        slot.fill(NO_ANSWER if response is GOODBYE else response)
        if response is GOODBYE:
            slot.owner.close()
