"""The events of groups as Server-Sent Events: `GET /v1/stream?group=&kind=`.

`id` has the mark of this process and the number to resume from ("5f3a9c1e.431"). A client that sends it as
`Last-Event-ID` gets all later events that groupd still keeps. The stream begins with an `id` without an
event. `event` is the kind, or `gap`, which reports lost events and whether the process has restarted
(`restarted`). `data` is JSON. groupd sends a comment during silence, so that each end notices a lost
connection. It disconnects a slow reader, which then reconnects.

Source: the WHATWG's HTML standard, "Server-sent events".
"""

import asyncio
from typing import Final, TypeAlias

from msgspec import Struct

from coordinator.broker.consumer_group_log_lines import CONSUMER_GROUP_LINES
from coordinator.broker.group_event_log import GROUP_LINES, UNLOGGED_EVENTS
from coordinator.control.control_plane import ControlPlane
from coordinator.control.event_stream import EventSubscription, StreamEvent, parse_event_number
from coordinator.control.problem import ProblemKind
from coordinator.core.message_text import printable, suggest
from coordinator.core.wire_name import get_wire_name
from coordinator.http.api.api_messages import bad_request
from coordinator.http.api.api_route import ApiCall, Chunks, StreamRoute

EVENT_KINDS: Final = frozenset(
    get_wire_name(kind) for kind in (*GROUP_LINES, *CONSUMER_GROUP_LINES) if kind not in UNLOGGED_EVENTS
)
"""The event kinds that a client can select."""
HEARTBEAT_S: Final = 15.0
_RETRY_MS: Final = 1000
_FollowArguments: TypeAlias = tuple[str | None, frozenset[str], int | None, str | None]
"""A group, event kinds, the number to resume from, and the mark of the process of that number."""


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A selection of events; by default all new events of all groups. `kind` has event kinds, repeated or
    separated by commas. `after` is the id or number of the last known event, unless the header Last-Event-ID has
    it."""

    group: str | None = None
    kind: list[str] = []
    after: str | None = None


async def follow_events(control: ControlPlane, call: ApiCall) -> Chunks:
    """Return the stream of events. Raises Problem (bad-request)."""
    where = _parse_query(call.query, call.last_event_id)
    # The subscription begins with the first read. An iterator that is never started would never end it.
    return _iterate_events(control, where)


def create_following(
    control: ControlPlane, query: StreamQuery, last_event_id: str | None
) -> EventSubscription:
    """Create the subscription of a reader, to be used as a context manager.

    Raises Problem (bad-request) for an unknown kind or an invalid id.
    """
    return control.stream.subscribe(*_parse_query(query, last_event_id))


def _parse_query(query: StreamQuery, last_event_id: str | None) -> _FollowArguments:
    kinds = frozenset(word.strip() for words in query.kind for word in words.split(",")) - {""}
    unknown = sorted(kinds - EVENT_KINDS)
    if unknown:
        what = f"{printable(unknown[0])!r} is not an event kind {suggest(unknown[0], sorted(EVENT_KINDS))}."
        raise bad_request("/kind", "kind is invalid", what)
    pointer, text = ("", last_event_id) if last_event_id else ("/after", query.after)
    if text is None:
        return query.group, kinds, None, None
    after = parse_event_number(text)
    if after is None:
        name = pointer.removeprefix("/") or "Last-Event-ID"
        raise bad_request(pointer, f"{name} is invalid", f"{name} must be the id or number of an event.")
    return query.group, kinds, after.number, after.mark


async def _iterate_events(control: ControlPlane, where: _FollowArguments) -> Chunks:
    coming: asyncio.Future[StreamEvent] | None = None
    with control.stream.subscribe(*where) as subscription:
        try:
            instance = control.stream.instance
            # An id without an event lets a client resume that is disconnected before the first event.
            start = (
                b"" if subscription.start is None else b"id: %s\n" % _format_id(instance, subscription.start)
            )
            yield start + b"retry: %d\n\n" % _RETRY_MS
            while True:
                coming = asyncio.ensure_future(subscription.__anext__())
                # Retrieve the exception, so that asyncio does not log it if the reader is cancelled at this
                # moment.
                coming.add_done_callback(lambda done: done.cancelled() or done.exception())
                while not coming.done():
                    await asyncio.wait([coming], timeout=HEARTBEAT_S)
                    if not coming.done():
                        yield b": nothing happened\n\n"
                yield format_event(coming.result(), instance)
        except StopAsyncIteration:
            return
        finally:
            if coming is not None and not coming.done():
                coming.cancel()
                await asyncio.wait([coming])


def format_event(event: StreamEvent, instance: str) -> bytes:
    """Return an event in the format of server-sent events. `instance` is the mark of the process."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        _format_id(instance, event.seq),
        event.kind.encode(),
        event.data,
    )


def _format_id(instance: str, seq: int) -> bytes:
    return f"{instance}.{seq}".encode()


STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/stream",
        summary="The events of groups as they happen",
        command="watch",
        open_stream=follow_events,
        content_type="text/event-stream",
        is_endless=True,
        query=StreamQuery,
        problems=(ProblemKind.TOO_MANY,),
    ),
)
