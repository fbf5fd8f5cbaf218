"""Splits a request into parts, sends each part to its partition, and gathers the responses.

A coroutine of a request sends its parts and awaits the `PartResponses`. Immediate responses are added at once,
others when they come; the last of them resumes the coroutine. That wait leaves the connection free to process
further requests, because only the disk is awaited.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from coordinator.core.reply import DeferReply, Reply
from coordinator.core.response_status import BLOCKED, DeferredResponse
from coordinator.core.time_budget import Budget
from coordinator.network.request_context import RequestContext

SendPart = Callable[[DeferReply], object | DeferredResponse]
"""Sends one part to its partition. Takes what opens the reply of the part, and returns the response, or a
`DeferredResponse` when the reply gets it later."""


class PartResponses:
    """The responses of the parts of one request, in the order in which the parts were sent.

    Await it to get them as a list. It raises what a part has failed with. At the end of its `with` block it
    abandons the parts that have no response.
    """

    __slots__ = ("_context", "_failure", "_on_complete", "_open_parts", "_responses")

    def __init__(self, context: RequestContext) -> None:
        """In: the context of the request that is split."""
        self._context = context
        self._responses: list[Any] = []
        self._open_parts: dict[int, PartReply] = {}
        """The replies of parts without a response, by their position in `_responses`."""
        self._failure: Exception | None = None
        self._on_complete: Callable[[PartResponses], object] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        open_parts, self._open_parts = self._open_parts, {}
        for reply in open_parts.values():
            reply.abandon()

    def __await__(self) -> Generator["PartResponses", None, list[Any]]:
        if self._open_parts and self._failure is None:
            yield self
        if self._failure is not None:
            raise self._failure
        return self._responses

    def send(self, send_part: SendPart) -> None:
        """Send the next part."""
        number = len(self._responses)
        self._responses.append(None)
        response = send_part(partial(self._open_part_reply, number))
        if type(response) is not DeferredResponse:
            self._responses[number] = response

    def _open_part_reply(self, number: int, _: bool) -> "PartReply":
        """Open the reply of a part. A part never blocks the connection; the whole request may."""
        reply = self._open_parts[number] = PartReply(self, number)
        return reply

    def add_response(self, number: int, response: object) -> None:
        """Add the response of a part that came later. Nothing happens when the request has ended."""
        if self._open_parts.pop(number, None) is not None:
            self._responses[number] = response
            if not self._open_parts:
                self._complete()

    def fail(self, number: int, problem: Exception) -> None:
        """Fail the whole request, since a part has failed."""
        if self._open_parts.pop(number, None) is not None and self._failure is None:
            self._failure = problem
            self._complete()

    def abort_connection(self) -> None:
        """Close the connection of the client at once; a request of groupd has none."""
        if self._context.connection is not None:
            self._context.connection.abort()

    # For the driver of the coroutine: see `AwaitedByRequest`

    def add_done_callback(self, on_done: Callable[["PartResponses"], object]) -> None:
        """Call a function when all responses are there, or a part has failed. There is one such function."""
        self._on_complete = on_done

    def remove_done_callback(self, on_done: Callable[["PartResponses"], object]) -> None:
        """Do not call the function that was to be called."""
        if self._on_complete == on_done:
            self._on_complete = None

    def _complete(self) -> None:
        on_complete, self._on_complete = self._on_complete, None
        if on_complete is not None:
            on_complete(self)


class PartReply(Reply):
    """The reply to one part of a request."""

    responses: PartResponses
    number: int

    def send(self, response: object) -> None:
        if self.transform is not None:
            response = self.apply_transform(response)
        if response is not BLOCKED:
            self.responses.add_response(self.number, response)

    def fail(self, problem: Exception) -> None:
        self.responses.fail(self.number, problem)

    def abort_connection(self) -> None:
        self.responses.abort_connection()


async def gather_parts(parts: Iterable[SendPart], context: RequestContext, budget: Budget) -> list[Any]:
    """Send all parts of a request, and return their responses in the same order.

    Args:
        parts: what sends each part. Other requests may be processed between two parts. So a generator looks up what
            a part relies on just before it yields the part.
        context: the context of the request that is split.

    Raises:
        Exception: what a part has failed with.
    """
    with PartResponses(context) as responses:
        for send_part in parts:
            responses.send(send_part)
            await budget.checkpoint()
        return await responses


MAX_PARTITIONS_PER_STEP: Final = 500
"""Partitions of a large request that are resolved before others are answered."""
P = TypeVar("P")


def in_pieces(partitions: Sequence[P]) -> Iterator[list[P]]:
    """Split partitions into lists of at most `MAX_PARTITIONS_PER_STEP`; one empty list when there are none."""
    for start in range(0, max(1, len(partitions)), MAX_PARTITIONS_PER_STEP):
        yield list(partitions[start : start + MAX_PARTITIONS_PER_STEP])
