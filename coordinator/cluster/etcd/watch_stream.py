"""One watch at one node of etcd, until it ends or the node is silent.

A node that stands still, or that a cut has taken away, keeps its connection open and says nothing, as one does that
has nothing to say. So who is silent is asked for its progress, which nodes answer from 3.4 on. Pings of HTTP/2
would do the same, but etcd hangs up on who pings often.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

import grpc.aio

from coordinator.cluster.engine.engine import Changes, Compacted, Denied, Entry, Unavailable
from coordinator.cluster.etcd.messages import MESSAGES

_SILENT_S: Final = 1.0
_GONE_S: Final = 2.0


async def watch_stream(
    channel: grpc.aio.Channel, metadata: Any, begin: bytes, end: bytes, revision: int
) -> AsyncGenerator[Changes, None]:
    """Changes of a range from a revision on, in order. It ends with Unavailable, Compacted, Denied or AioRpcError;
    Denied also where etcd has forgotten who was let in."""
    create = MESSAGES["WatchCreateRequest"](key=begin, range_end=end, start_revision=revision)
    call = channel.stream_stream(
        "/etcdserverpb.Watch/Watch",
        request_serializer=MESSAGES["WatchRequest"].SerializeToString,
        response_deserializer=MESSAGES["WatchResponse"].FromString,
    )(metadata=(*metadata, ("hasleader", "true")))
    try:
        await _say(call, MESSAGES["WatchRequest"](create_request=create))
        while True:
            answer = await _heard(call)
            if answer is grpc.aio.EOF:
                raise Unavailable("the watch ended")
            if answer.compact_revision:
                raise Compacted(f"what was before revision {answer.compact_revision} is forgotten")
            if answer.canceled:
                reason = answer.cancel_reason
                is_denied = "permission denied" in reason or "invalid auth token" in reason
                raise (Denied if is_denied else Unavailable)(reason)
            for changes in _changes(answer.events):
                yield changes
    finally:
        call.cancel()


async def _say(call: Any, request: Any) -> None:
    try:
        async with asyncio.timeout(_GONE_S):
            await call.write(request)
    except (TimeoutError, asyncio.InvalidStateError) as error:
        raise Unavailable("the watch takes nothing") from error


async def _heard(call: Any) -> Any:
    """What etcd says next."""
    reading = asyncio.ensure_future(call.read())
    try:
        await asyncio.wait({reading}, timeout=_SILENT_S)
        if not reading.done():
            progress = MESSAGES["WatchProgressRequest"]()
            await _say(call, MESSAGES["WatchRequest"](progress_request=progress))
            await asyncio.wait({reading}, timeout=_GONE_S)
        if not reading.done():
            raise Unavailable("the watch is silent")
        return reading.result()
    finally:
        reading.cancel()


def entry_of(found: Any) -> Entry:
    """A key, as etcd has it."""
    return Entry(found.key, found.value, found.create_revision, found.mod_revision, found.lease)


def _changes(events: Sequence[Any]) -> list[Changes]:
    """By revision, in order."""
    by_revision: dict[int, tuple[list[Entry], list[bytes]]] = {}
    for event in events:
        written, deleted = by_revision.setdefault(event.kv.mod_revision, ([], []))
        if event.type:
            deleted.append(event.kv.key)
        else:
            written.append(entry_of(event.kv))
    return [Changes(revision, tuple(w), tuple(d)) for revision, (w, d) in sorted(by_revision.items())]
