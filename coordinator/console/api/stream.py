"""What happens in groups, as Server-Sent Events: `GET /v1/stream?group=&kind=`.

`id` is the number of an event, so that whoever comes back with `Last-Event-ID` misses nothing that is still kept;
`event: gap` says what is not. While nothing happens a comment is sent now and then, which tells either end that the
other is still there. A reader that is too slow is cut off, and comes back.
"""

import asyncio
from contextlib import AbstractContextManager
from typing import Annotated, Final, Protocol

from msgspec import Meta, Struct

from coordinator.console.api.request_values import bad_request
from coordinator.console.api.route import Call, Pieces, StreamRoute
from coordinator.control.control import Control
from coordinator.control.problem import Problem, ProblemKind

HEARTBEAT_S: Final = 15.0
_RETRY_MS: Final = 1000
_LAST: Final = 2**63 - 1


class StreamEvent(Protocol):
    """One event: its number, the class of what happened (or "gap"), and a line of JSON."""

    @property
    def seq(self) -> int:
        """Its number."""

    @property
    def kind(self) -> str:
        """What happened."""

    @property
    def data(self) -> bytes:
        """All of it."""


class Following(AbstractContextManager["Following"], Protocol):
    """What one reader follows. It ends by itself for one that has fallen too far behind, and when the process
    stops."""

    async def __anext__(self) -> StreamEvent:
        """The next event, when it has come."""


class EventSource(Protocol):
    """What the stream is fed from."""

    def follow(self, group_id: str | None, kinds: frozenset[str], after: int | None) -> Following:
        """What happens from this call on, of one group or all, of these kinds or all; first what happened after a
        number, as far as it is kept."""


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
    return _pieces(source, query, after)


async def _pieces(source: EventSource, query: StreamQuery, after: int | None) -> Pieces:
    coming: asyncio.Future[StreamEvent] | None = None
    # Not before somebody reads: what was never begun is never ended either.
    with source.follow(query.group, frozenset(query.kind), after) as following:
        try:
            yield b"retry: %d\n\n" % _RETRY_MS
            while True:
                coming = asyncio.ensure_future(following.__anext__())
                while not coming.done():
                    await asyncio.wait([coming], timeout=HEARTBEAT_S)
                    if not coming.done():
                        yield b": nothing happened\n\n"
                event = coming.result()
                yield b"id: %d\nevent: %s\ndata: %s\n\n" % (event.seq, event.kind.encode(), event.data)
        except StopAsyncIteration:
            return
        finally:
            if coming is not None and not coming.done():
                coming.cancel()
                await asyncio.wait([coming])


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
