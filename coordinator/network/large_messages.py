"""Decodes large requests and encodes large responses in a thread, one at a time each, so that they do not
delay other connections.

A request with more than `MAX_INLINE_ELEMENTS` elements is decoded here. Its connection processes no other
request until the response is there, which keeps the order. The handler finds `is_large` set and works in
steps. The bytes of the request count against `queued.max.request.bytes` until it is decoded.
A response longer than `MAX_INLINE_BYTES` is encoded again here, up to `MAX_RESPONSE_BYTES`; beyond that its
connection is closed. A short request can have such a response, for instance when it names one large group
five hundred times. Its connection processes no other request meanwhile. Encoded responses stay in memory
until they are read. While peers have more than `UNREAD_LIMIT_BYTES` of them unread, the next response waits,
and a peer that reads too little in a `READ_PERIOD_S` is disconnected.
"""

import asyncio
import logging
from collections import deque
from functools import partial
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from coordinator.core import clock
from coordinator.network.connection_limits import RequestMemory
from coordinator.network.request_context import QueuedReply, ReplyConnection, RequestContext
from coordinator.network.request_routes import Route
from protocol.primitives import TooLong

_LOG: Final = logging.getLogger("SocketServer")

MAX_RESPONSE_BYTES: Final = 100_000_000
"""The maximum size of a response in bytes. It equals librdkafka's `receive.message.max.bytes` and the maximum
size of a request."""
UNREAD_LIMIT_BYTES: Final = 64 * 1024 * 1024
READ_PERIOD_S: Final = 5.0
READ_PERIODS: Final = 6
"""The number of periods in which a peer must read a large response while other responses wait."""
POLL_INTERVAL_S: Final = 0.05


class ResponseTooLarge(Exception):
    """A response exceeds the maximum size."""


class _LargeResponse(NamedTuple):
    reply: QueuedReply
    response: object


class _UnreadLargeResponses(NamedTuple):
    """Large responses that a peer may not have read yet.

    The object keeps their size and the end of the last one in the byte stream of the connection. Bytes after
    that end belong to other responses."""

    size_bytes: int
    end_position_bytes: int

    def unread_bytes(self, connection: ReplyConnection) -> int:
        """Return the number of unread bytes of these responses."""
        after_end_bytes = max(0, self.end_position_bytes - connection.read_bytes)
        return min(self.size_bytes, after_end_bytes, connection.answer_bytes)


class LargeResponseWriter:
    """Writes the large responses of all connections. All methods belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[_LargeResponse] = deque()
        self._is_busy = False
        self._unread_by_connection: dict[ReplyConnection, _UnreadLargeResponses] = {}
        self._read_at_period_start: dict[ReplyConnection, int] = {}
        self._period_ends_ns = 0

    def add_response(self, reply: QueuedReply, response: object) -> None:
        """Encode a response in a thread, and complete its reply."""
        reply.on_abandoned = lambda: self._remove_response(reply)
        self._waiting.append(_LargeResponse(reply, response))
        if not self._is_busy:
            self._is_busy = True
            self._write_next()

    def _remove_response(self, reply: QueuedReply) -> None:
        self._waiting = deque(large for large in self._waiting if large.reply is not reply)

    def _write_next(self) -> None:
        if not self._waiting:
            self._is_busy = False
        elif self._count_unread_bytes() <= UNREAD_LIMIT_BYTES:
            self._period_ends_ns = 0
            self._read_at_period_start.clear()
            large = self._waiting.popleft()
            self._loop.create_task(self._write(large))
        else:
            self._abort_slow_readers()
            self._loop.call_later(POLL_INTERVAL_S, self._write_next)

    async def _write(self, large: _LargeResponse) -> None:
        reply, frame = large.reply, bytearray()
        reply.on_abandoned = (
            None  # otherwise it would keep the reply and its frame until a garbage collection
        )
        try:
            await self._loop.run_in_executor(
                None, reply.encoder.write, large.response, reply.correlation_id, frame, MAX_RESPONSE_BYTES
            )
            self._deliver(reply, frame)
        except TooLong:
            reply.fail(ResponseTooLarge(f"an answer of more than {MAX_RESPONSE_BYTES} bytes"))
        except Exception as problem:  # noqa: BLE001 - the connections behind this one wait for their answers
            reply.fail(problem)
        finally:
            self._write_next()

    def _deliver(self, reply: QueuedReply, frame: bytearray) -> None:
        connection = reply.connection
        earlier = self._unread_by_connection.get(connection)
        unread_bytes = 0 if earlier is None else earlier.unread_bytes(connection)
        end_position_bytes = connection.read_bytes + connection.answer_bytes + len(frame)
        connection.add_frame(reply, frame)
        self._unread_by_connection[connection] = _UnreadLargeResponses(
            unread_bytes + len(frame), end_position_bytes
        )

    def _count_unread_bytes(self) -> int:
        """Return the number of large-response bytes that peers have not read."""
        unread = {
            connection: given.unread_bytes(connection)
            for connection, given in self._unread_by_connection.items()
        }
        self._unread_by_connection = {
            connection: given
            for connection, given in self._unread_by_connection.items()
            if unread[connection]
        }
        return sum(unread.values())

    def _abort_slow_readers(self) -> None:
        """Close connections that make other responses wait for too long."""
        now_ns = clock.monotonic_ns()
        if not self._period_ends_ns:
            self._period_ends_ns = now_ns + round(READ_PERIOD_S * 1e9)
            self._read_at_period_start = {
                connection: connection.read_bytes for connection in self._unread_by_connection
            }
        elif now_ns >= self._period_ends_ns:
            self._period_ends_ns = 0
            read_at_start, self._read_at_period_start = self._read_at_period_start, {}
            for connection, before_bytes in read_at_start.items():
                given = self._unread_by_connection.get(connection)
                if (
                    given is not None
                    and connection.read_bytes - before_bytes < given.size_bytes // READ_PERIODS
                ):
                    self._abort_slow_reader(connection)

    def _abort_slow_reader(self, connection: ReplyConnection) -> None:
        _LOG.warning(
            "Closing connection from %s: it reads too slowly while others wait for the memory of its answers (%d "
            "bytes)",
            connection.client.peer,
            connection.answer_bytes,
        )
        connection.abort()


class _UndecodedRequest:
    """A large request that waits for a decoder, or is being decoded."""

    __slots__ = (
        "arrival",
        "body",
        "connection",
        "context",
        "frame",
        "is_abandoned",
        "reply",
        "reserved_bytes",
        "route",
    )

    def __init__(
        self,
        connection: object,
        route: Route,
        context: RequestContext,
        frame: bytes,
        body: int,
        arrival: clock.Arrival,
    ) -> None:
        self.connection = connection
        self.route = route
        self.reply = context.defer(blocks=True)
        self.context = replace(context, is_large=True).with_reply(self.reply)
        self.frame = frame
        self.body = body
        self.arrival = arrival
        self.reserved_bytes = 0
        self.is_abandoned = False

    def decode(self) -> Any:
        """Return the decoded request. Raises Malformed."""
        frame, self.frame = self.frame, b""
        return self.route.decode_large(frame, self.body)

    def handle(self, decoded: "asyncio.Future[Any]") -> object:
        """Pass the decoded request to the handler, with the current time. Raises the error of the decoder."""
        message = decoded.result()
        self.arrival.advance(clock.monotonic_ns())
        return self.route.handle(message, self.context)


class LargeRequestDecoder:
    """Decodes the large requests of all connections. All methods belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, memory: RequestMemory) -> None:
        self._loop = loop
        self._memory = memory
        self._waiting: deque[_UndecodedRequest] = deque()
        self._undecoded: dict[object, _UndecodedRequest] = {}
        """The undecoded requests by connection. A connection has at most one."""
        self._is_busy = False

    def add_request(
        self,
        connection: object,
        route: Route,
        context: RequestContext,
        frame: bytes,
        body: int,
        arrival: clock.Arrival,
    ) -> None:
        """Decode a request in a thread, then pass it to its handler. It blocks its connection until then.

        Args:
            body: the position of the body in the frame.
            arrival: the instant of the request that is being processed, for the coordinators.
        """
        large = _UndecodedRequest(connection, route, context, frame, body, arrival)
        large.reply.begin_work(partial(self._on_connection_lost, large))
        self._undecoded[connection] = large
        self._waiting.append(large)
        if not self._is_busy:
            self._is_busy = True
            self._decode_next()

    def holds_request(self, connection: object, size_bytes: int) -> bool:
        """Return whether the request of a connection is here and not decoded. If it is, its reserved memory is
        released after the decoding."""
        large = self._undecoded.get(connection)
        if large is None:
            return False
        large.reserved_bytes = size_bytes
        return True

    def _on_connection_lost(self, large: _UndecodedRequest) -> None:
        """Drop the request of a closed connection."""
        large.is_abandoned = True
        if large in self._waiting:
            self._waiting.remove(large)
            self._remove_request(large)

    def _remove_request(self, large: _UndecodedRequest) -> None:
        del self._undecoded[large.connection]
        self._memory.release(large.reserved_bytes)

    def _decode_next(self) -> None:
        if not self._waiting:
            self._is_busy = False
            return
        large = self._waiting.popleft()
        try:
            decoding = self._loop.run_in_executor(None, large.decode)
        except Exception as problem:  # noqa: BLE001 - no thread could be started; later requests may succeed
            decoding = self._loop.create_future()
            decoding.set_exception(problem)
        decoding.add_done_callback(partial(self._on_decoded, large))

    def _on_decoded(self, large: _UndecodedRequest, done: "asyncio.Future[Any]") -> None:
        self._remove_request(large)
        self._decode_next()
        if done.cancelled():
            return
        done.exception()  # otherwise asyncio reports an exception that was never retrieved
        if not large.is_abandoned:
            large.reply.complete_with(large.handle, done)
