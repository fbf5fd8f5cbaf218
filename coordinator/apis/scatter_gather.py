"""Splits a request into parts, sends each part to its partition, and combines the responses when all have
arrived.

Immediate responses are added at once, others when they come. Sending and combining work in steps; other
connections go first when a slice was not enough. The reply is deferred when work is left after the first
slice. Unless only the disk is awaited, the connection then processes no other request. `in_pieces`
splits the partitions of a large request into steps of 500.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from coordinator.core import clock
from coordinator.core.reply import DeferReply, Reply
from coordinator.core.response_status import AWAITING_DISK, BLOCKED, DeferredResponse
from coordinator.core.time_budget import SLICE_NS, RunQueue
from coordinator.network.request_context import RequestContext

Combining = Generator[None, None, Any]
"""Steps to the response."""
Combine = Callable[[list[Any]], Combining]
"""Makes the response of the parts' responses."""

SendPart = Callable[[DeferReply], object | DeferredResponse]
"""Sends one part to its partition. Takes what opens the reply of the part, and returns the response, or a
`DeferredResponse` when the reply gets it later."""


class ScatterGather:
    """Gathers the parts of one answer, in the order in which they were asked for."""

    __slots__ = (
        "_combine",
        "_combining",
        "_is_all_sent",
        "_is_queued",
        "_open_parts",
        "_parts",
        "_reply",
        "_response",
        "_run_queue",
        "_unsent_parts",
    )

    def __init__(self, combine: Combine, run_queue: RunQueue) -> None:
        self._combine = combine
        self._run_queue = run_queue
        self._unsent_parts: Iterator[SendPart | None] = iter(())
        self._is_all_sent = False
        self._is_queued = False
        self._parts: list[object] = []
        self._open_parts: dict[int, PartReply] = {}
        """The replies of parts that have not arrived, by their position in `_parts`."""
        self._combining: Combining | None = None
        self._response: object = None
        self._reply: Reply | None = None

    def answer_parts(
        self, parts: Iterable[SendPart | None], context: RequestContext
    ) -> object | DeferredResponse:
        """Send all parts, and combine their responses.

        Args:
            parts: what sends each part; None for a step that sends none.
            context: the context of the request that is split.

        Returns the combined response, or AWAITING_DISK or BLOCKED when some of it comes later.
        """
        self._unsent_parts = iter(parts)
        if self._advance():
            return self._response
        waits = self._awaits_parts
        reply = self._reply = context.defer(not waits)
        reply.on_abandoned = self._cancel
        if waits:
            return AWAITING_DISK
        self._enqueue(reply)
        return BLOCKED

    def run_slice(self) -> None:
        """One more slice, after others."""
        reply = self._reply
        assert reply is not None
        reply.is_in_progress = self._is_queued = False
        try:
            is_done = self._advance()
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs its connection only
            self._cancel()
            reply.fail(problem)
            return
        if is_done:
            reply.on_abandoned = None
            reply.send(self._response)
        elif not self._awaits_parts:
            self._enqueue(reply)

    def _enqueue(self, reply: Reply) -> None:
        reply.is_in_progress = self._is_queued = True
        self._run_queue.add(self)

    @property
    def _awaits_parts(self) -> bool:
        return self._is_all_sent and bool(self._open_parts)

    def _advance(self) -> bool:
        """Works for a slice; whether the response is there."""
        started_ns = clock.monotonic_ns()
        if not self._is_all_sent and not self._send_parts(started_ns):
            return False
        return not self._open_parts and self._combine_parts(started_ns)

    def _send_parts(self, started_ns: int) -> bool:
        """Asks for parts; whether all were."""
        for send_part in self._unsent_parts:
            if send_part is not None:
                number = len(self._parts)
                self._parts.append(None)
                response = send_part(partial(self._open_part_reply, number))
                if type(response) is not DeferredResponse:
                    self._parts[number] = response
            if clock.monotonic_ns() - started_ns > SLICE_NS:
                return False
        self._is_all_sent = True
        return True

    def _combine_parts(self, started_ns: int) -> bool:
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

    def _open_part_reply(self, number: int, _: bool) -> "PartReply":
        """Open the reply of a part. A part never blocks the connection; the whole request may."""
        reply = self._open_parts[number] = PartReply(self, number)
        return reply

    def take_part(self, number: int, response: object) -> None:
        """Take the response of a part that came later; nothing happens when the client has disconnected."""
        if self._open_parts.pop(number, None) is None:
            return
        self._parts[number] = response
        if not self._open_parts and self._reply is not None and self._is_all_sent:
            self.run_slice()

    def fail(self, problem: Exception) -> None:
        """Fail the whole request, since a part has failed."""
        if self._reply is None:
            raise problem
        self._cancel()
        self._reply.fail(problem)

    def abort_connection(self) -> None:
        """Close the connection of the client at once."""
        if self._reply is not None:
            self._reply.abort_connection()

    def _cancel(self) -> None:
        """Nobody wants the answer any more."""
        if self._is_queued:
            self._is_queued = False
            self._run_queue.remove(self)
        open_parts, self._open_parts = self._open_parts, {}
        for reply in open_parts.values():
            reply.abandon()
        if self._reply is not None:
            self._reply.on_abandoned = None


class PartReply(Reply):
    """The reply to one part of a request."""

    gather: ScatterGather
    number: int

    def send(self, response: object) -> None:
        if self.transform is not None:
            response = self.apply_transform(response)
        if response is not BLOCKED:
            self.gather.take_part(self.number, response)

    def fail(self, problem: Exception) -> None:
        self.gather.fail(problem)

    def abort_connection(self) -> None:
        self.gather.abort_connection()


MAX_PARTITIONS_PER_STEP: Final = 500
"""Partitions of a large request that are resolved before others are answered."""
P = TypeVar("P")


def in_pieces(partitions: Sequence[P]) -> Iterator[list[P]]:
    """So many at a time; one empty piece where there are none."""
    for start in range(0, max(1, len(partitions)), MAX_PARTITIONS_PER_STEP):
        yield list(partitions[start : start + MAX_PARTITIONS_PER_STEP])
