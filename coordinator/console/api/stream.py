"""What happens in groups, as Server-Sent Events: `GET /v1/stream?group=&kind=`.

`id` is the number of an event, so that whoever comes back with `Last-Event-ID` misses nothing that is still kept;
`event: gap` says what is not. While nothing happens a comment is sent now and then, which tells either end that the
other is still there. A reader that is too slow is cut off, and comes back.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import Meta, Struct

from coordinator.console.api.request_values import bad_request
from coordinator.console.api.route import Call, Pieces, StreamRoute
from coordinator.control.control import Control
from coordinator.control.problem import Problem, ProblemKind

HEARTBEAT_S: Final = 15.0
_RETRY_MS: Final = 1000
_LAST: Final = 2**63 - 1


class StreamEvent(Protocol):
    """One event: a value that becomes JSON. A gap has the kind "gap", and the number of the last that is
    missing."""

    @property
    def seq(self) -> int:
        """Its number."""

    @property
    def kind(self) -> str:
        """What happened."""


class EventSource(Protocol):
    """What the stream is fed from."""

    def follow(
        self, *, after: int | None, group_id: str | None, kinds: frozenset[str]
    ) -> AsyncGenerator[StreamEvent, None]:
        """The events after a number that are still kept, and then each as it comes. None: those to come. It ends
        for a reader that has fallen too far behind. No kinds are all kinds."""


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of which group, of which kinds (all); `after` is where to begin, as Last-Event-ID, which goes before it."""

    group: str | None = None
    kind: list[str] = []
    after: Annotated[int, Meta(ge=-1, le=_LAST)] | None = None


async def follow(control: Control, call: Call) -> Pieces:
    """Events as they come."""
    source: EventSource | None = getattr(control, "stream", None)
    if source is None:
        raise Problem(ProblemKind.NOT_POSSIBLE, "There is no stream", "Events are not kept here.")
    query: StreamQuery = call.query
    after = query.after
    if call.last_event_id:
        text = call.last_event_id.strip()
        if not (text.isascii() and text.isdigit() and len(text) < 19):
            raise bad_request("", "Last-Event-ID is wrong", "Last-Event-ID is the number of an event.")
        after = int(text)
    return _pieces(source.follow(after=after, group_id=query.group, kinds=frozenset(query.kind)))


async def _pieces(events: AsyncGenerator[StreamEvent, None]) -> Pieces:
    encode = msgspec.json.Encoder().encode
    coming: asyncio.Future[StreamEvent | None] | None = None
    async with aclosing(events):
        try:
            yield b"retry: %d\n\n" % _RETRY_MS
            while True:
                coming = asyncio.ensure_future(anext(events, None))
                while not coming.done():
                    await asyncio.wait([coming], timeout=HEARTBEAT_S)
                    if not coming.done():
                        yield b": nothing happened\n\n"
                event = coming.result()
                if event is None:
                    return
                yield _frame(event, encode(event))
        finally:
            if coming is not None and not coming.done():
                coming.cancel()
                await asyncio.wait([coming])


def _frame(event: StreamEvent, data: Any) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), data)


STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/stream",
        summary="What happens in groups, as it happens",
        open=follow,
        content_type="text/event-stream",
        is_endless=True,
        query=StreamQuery,
        problems=(ProblemKind.TOO_MANY,),
    ),
)
