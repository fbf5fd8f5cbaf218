"""A client connection: reads requests, processes them in order, and writes the responses in the same order.
`SecuredConnection` serves listeners other than PLAINTEXT; it takes over after the TLS handshake or the SASL
exchange.

Fast path: on a connection without open replies, a request with an immediate response uses nothing but its
bytes, its context and its handler, and all responses to one read leave in one write. A request that the client
repeats is not decoded: see `repeated_requests.py`.
Processing is *held* while a reply blocks it (as Kafka mutes a channel during a request), while too many replies
are open, while the peer does not read its responses, or while the connection waits in the run queue because
its requests take long. Input is then buffered up to a bound, and beyond it the socket is not read. A
connection thus holds a bounded number of bytes in each direction, apart from the one request being received
and the one response being sent. Requests being received share `queued.max.request.bytes`.
Malformed bytes cost this connection and one log line, nothing else.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from struct import Struct, error
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from coordinator.core import clock
from coordinator.core.message_text import format_peer, parse_peer_address
from coordinator.core.response_status import AWAITING_DISK, CLOSE_CONNECTION, NO_RESPONSE, DeferredResponse
from coordinator.core.time_budget import SLICE_NS
from coordinator.network.endpoint import Endpoint
from coordinator.network.repeated_requests import (
    AnsweredRequest,
    CachedRequest,
    RepeatedRequests,
    find_in_shapes,
)
from coordinator.network.reply_queue import ReplyQueue
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Route
from coordinator.security.core.principal import Principal
from protocol.apis import ApiKey
from protocol.primitives import (
    MAX_UNKNOWN_TAGS,
    Malformed,
    TooLong,
    TooManyElements,
    read_uvarint,
    skip_tagged_fields,
)

if TYPE_CHECKING:
    from protocol.messages.sasl_handshake import SaslHandshakeRequest

MAX_HELD_INPUT_BYTES: Final = 64 * 1024
"""The size of the input that a held connection buffers before it stops reading, in bytes."""
MAX_WRITE_BYTES: Final = 256 * 1024
"""The size of the responses to one read that are gathered before they are written, in bytes."""

MAX_PLAIN_REQUEST_BYTES: Final = 16 * 1024 * 1024
"""The maximum size of a request without records, in bytes. Decoding a larger one would delay all other
connections."""

_MIN_REQUEST_BYTES: Final = 10
_SIZE_BYTES: Final = 4
_SIZE_AND_KEY: Final = Struct(">ih")  # size, api key
_SIZE_AND_KEY_BYTES: Final = 6
# size, key and version as one number, correlation id, length of the client id
_HEADER: Final = Struct(">iIih")


class Connection(ReplyQueue):
    """A client's connection, created for each socket. `peername` is the address of the peer, as the system
    reports it."""

    __slots__ = (
        "_awaits_memory",
        "_client_id_bytes",
        "_is_processing",
        "_is_reading",
        "_needed_bytes",
        "_pending",
        "_repeated_requests",
        "_reserved_bytes",
    )

    def __init__(self, endpoint: Endpoint, peername: object) -> None:
        super().__init__(endpoint, "/" + parse_peer_address(peername), format_peer(peername))
        self._pending = bytearray()
        self._needed_bytes = 0
        self._reserved_bytes = 0
        self._is_reading = True
        self._awaits_memory = self._is_processing = False
        self._repeated_requests = RepeatedRequests()
        self._client_id_bytes = b""

    def repeated_requests(self) -> Iterator[object]:
        """Yield the requests that the client repeats. Heartbeats name the members that use the connection."""
        return self._repeated_requests.cached_requests()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to use the transport, or abort it if the connection is closing."""
        # uvloop's transports have the interface of asyncio's and are not subclasses of it.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        node = self._endpoint.find_node(transport.get_extra_info("sockname"))
        self.client = replace(self.client, node=node)
        if self._is_closing:  # the daemon is stopping
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Abandon the pending replies of the closed connection."""
        self._is_closing = self._is_held = True
        self._transport = None
        self._pending = bytearray()
        self._endpoint.memory.remove_receiver(self)
        if self._is_queued:
            self._endpoint.run_queue.remove(self)
        self._abandon_replies()
        self._release_memory(self._reserved_bytes)
        self._endpoint.on_connection_closed(self)

    def data_received(self, data: bytes) -> None:  # noqa: C901 - the hot path: no calls to share
        """Process or buffer received bytes. They may end anywhere in a request."""
        self.last_received_ns = started_ns = clock.monotonic_ns()
        if self._pending:
            pending = self._pending
            pending += data
            if self._is_held:
                if len(pending) > MAX_HELD_INPUT_BYTES:
                    self._stop_reading()
            elif len(pending) >= self._needed_bytes:
                del pending  # otherwise a large request would be in memory twice while it is processed
                self._process_or_enqueue()
            return
        if self._is_held:
            self._pending += data
            return
        is_unknown = False
        repeated = self._repeated_requests
        if repeated.epoch is self._endpoint.routes.epoch:
            shapes = repeated.shapes.get(len(data))
            try:
                if shapes is None:
                    if data[:_SIZE_BYTES] in repeated.equal_sizes and self._answer_equal_requests(
                        data, started_ns
                    ):
                        return
                elif (cached := find_in_shapes(shapes, data)) is None:
                    is_unknown = True
                elif cached.read_changes is None:
                    if not self._replies and cached.repeat(started_ns // 1_000_000, (), None) is not None:
                        # This takes a few microseconds, so its time is not measured.
                        self._transport.write(cached.response.answer_frame(data))  # type: ignore[union-attr]
                        return
                elif not self._endpoint.run_queue.is_iteration_over and self._repeat_with_changes(
                    cached, data, started_ns
                ):
                    return
            except Exception as problem:  # noqa: BLE001 - an error of a request closes only its own connection
                self._close_after_error(problem, bytearray(), was_decoded=True)
                return
        if self._endpoint.run_queue.is_iteration_over:
            self._pending += data
            self._process_or_enqueue()
        else:
            self._process_data(bytes(data), started_ns, is_unknown)

    # Processing

    def _process_or_enqueue(self) -> None:
        if self._endpoint.run_queue.is_iteration_over:
            self._enqueue()
        else:
            self._process_pending()

    def _enqueue(self) -> None:
        """Put the connection at the end of the run queue, so that other connections are processed first."""
        self._is_queued = self._is_held = True
        self._endpoint.run_queue.add(self)

    def run_slice(self) -> None:
        """Process buffered requests. The run queue calls this when it is the turn of the connection."""
        self._is_queued = False
        self._update_hold()
        self._process_pending()
        self._close_if_done()

    def _process_pending(self) -> None:
        """Process buffered requests until one blocks or the slice ends."""
        if self._is_processing or self._transport is None or (self._is_reading and not self._pending):
            return
        while (
            self._pending
            and len(self._pending) >= self._needed_bytes
            and not (self._is_held or self._awaits_memory)
        ):
            data = bytes(self._pending)
            self._pending = bytearray()
            received_bytes, self._reserved_bytes = self._reserved_bytes, 0
            if received_bytes:
                self._endpoint.memory.finish_receiving(self)
            self._process_data(data, clock.monotonic_ns())
            if not self._endpoint.large_requests.holds_request(self, received_bytes):
                self._release_memory_when_done(received_bytes)
        self._reserve_memory()
        if self._is_reading or self._is_closing or self._awaits_memory:
            return
        # The rest of a large request must be received, however much of it is already buffered.
        if not self._is_held or len(self._pending) <= MAX_HELD_INPUT_BYTES:
            self._is_reading = True
            self._transport.resume_reading()

    def _stop_reading(self) -> None:
        if self._is_reading and self._transport is not None and not self._is_closing:
            self._is_reading = False
            self._transport.pause_reading()

    def _process_data(self, data: bytes, started_ns: int, is_unknown: bool = False) -> None:  # noqa: C901
        """Process the requests in `data`; if `is_unknown`, it is one that is not cached. Buffer the rest."""
        self._is_processing, self._needed_bytes = True, _SIZE_AND_KEY_BYTES
        endpoint = self._endpoint
        endpoint.arrival.advance(started_ns)
        message, counted, count = None, None, 0
        out, position, end = bytearray(), 0, len(data)
        try:
            while end - position >= 14 and not self._is_held:
                if position and clock.monotonic_ns() - started_ns > SLICE_NS:
                    self._enqueue()
                    break
                size, key_version, correlation_id, length = _HEADER.unpack_from(data, position)
                frame_end = position + 4 + size
                if frame_end > end or not _MIN_REQUEST_BYTES <= size <= endpoint.max_request_bytes:
                    break
                frame, base = (data, position) if frame_end == end else (data[position:frame_end], 0)
                position = frame_end
                route = endpoint.routes.by_version.get(key_version) or endpoint.routes.find_route(key_version)
                if route is None:
                    self._queue_frame(endpoint.routes.refuse_version(key_version, correlation_id), out)
                    continue
                response = None
                if route.create_repetition is not None and not is_unknown:
                    response = self._answer_repetition(frame[base:], started_ns)
                if response is None:
                    body = base + 14 + length
                    if length < 0 or frame[base + 14 : body] != self._client_id_bytes:
                        body = self._parse_client_id(frame, base + 14, length)
                    if route.is_flexible:
                        body = body + 1 if frame[body] == 0 else _skip_tags(frame, body)
                    context = RequestContext(self.client, route, correlation_id, self, route.version)
                    message = route.decode(frame, body)
                    response = route.handle(message, context)
                    if route.create_repetition is not None:
                        if self._repeated_requests.commits_to_skip and type(response) is DeferredResponse:
                            self._repeated_requests.commits_to_skip -= 1
                        else:
                            self._cache_request(route, frame[base:], body - base, message, response, context)
                    message = None
                if type(response) is DeferredResponse:
                    continue
                if self._replies and response is not CLOSE_CONNECTION:
                    self._queue_response(route, correlation_id, response)
                    continue
                if route is not counted:
                    if counted is not None:
                        counted.counts.count_responses(clock.monotonic_ns() - started_ns, count)
                    counted, count = route, 0
                count += 1
                if response is CLOSE_CONNECTION:
                    self._is_closing = True
                    break
                if response is not NO_RESPONSE:
                    try:
                        route.write(response, correlation_id, out)
                    except TooLong:
                        count -= 1
                        self.encode_in_thread(self.open_reply(route, correlation_id, True), response)
                        break
                    if len(out) > MAX_WRITE_BYTES:
                        out = self._write_data(out)
        except TooManyElements:
            self._decode_in_thread(route, context, frame, body)
        except Exception as problem:  # noqa: BLE001 - an error of a request closes only its own connection
            self._close_after_error(problem, out, was_decoded=message is not None)
            return
        self._end_processing(out, started_ns, counted, count)
        if position != end or self._is_closing:
            self._keep_remainder(data, position)

    def _end_processing(self, out: bytearray, started_ns: int, counted: Route | None, count: int) -> None:
        """Write the responses to one read. Count the last `count` of them, all of one route, and their time."""
        self._is_processing = False
        if out:
            self._write_data(out)
        took_ns = clock.monotonic_ns() - started_ns
        if counted is not None:
            counted.counts.count_responses(took_ns, count)
        if took_ns > SLICE_NS:
            self._endpoint.run_queue.record_time(took_ns)

    def _decode_in_thread(
        self, route: Route | None, context: RequestContext, frame: bytes, body: int
    ) -> None:
        """Decode a large request in a thread. The connection processes no other request until this one is
        answered."""
        assert route is not None, "the request is being decoded"
        self._endpoint.large_requests.add_request(self, route, context, frame, body, self._endpoint.arrival)

    def _keep_remainder(self, data: bytes, position: int) -> None:
        """Buffer the bytes from `position` on, and read the size of the request that begins there."""
        if self._is_closing:
            self.close()
            return
        if position == len(data):
            return
        self._pending = bytearray(data[position:])
        if len(self._pending) < _SIZE_AND_KEY_BYTES:
            self._needed_bytes = _SIZE_AND_KEY_BYTES
        else:
            size, api_key = _SIZE_AND_KEY.unpack_from(self._pending)
            max_bytes = self._endpoint.max_request_bytes
            if api_key != ApiKey.PRODUCE:
                max_bytes = min(max_bytes, MAX_PLAIN_REQUEST_BYTES)
            if not _MIN_REQUEST_BYTES <= size <= max_bytes:
                self._endpoint.on_invalid_request(
                    self, f"a request of {size} bytes (the limit is {max_bytes})"
                )
                self.close()
                return
            self._needed_bytes = _SIZE_BYTES + size
            self._reserve_memory()
        if self._is_held and len(self._pending) > MAX_HELD_INPUT_BYTES:
            self._stop_reading()

    def _reserve_memory(self) -> None:
        """Reserve the memory of the incoming request, or stop reading until there is enough.

        A held connection reserves none, because other connections should not wait for its next request.
        """
        if self._is_held or self._awaits_memory or self._reserved_bytes:
            return
        if not _SIZE_AND_KEY_BYTES < self._needed_bytes > len(self._pending) > 0:
            return
        if self._endpoint.memory.reserve(self, self._needed_bytes):
            self._reserved_bytes = self._needed_bytes
        else:
            self._awaits_memory = True
            self._stop_reading()

    def on_memory_reserved(self, size_bytes: int) -> None:
        """Continue to receive the request for which the connection waited. Its memory is reserved now."""
        self._awaits_memory = False
        self._reserved_bytes = size_bytes
        self._process_pending()

    @property
    def received_bytes(self) -> int:
        """The number of received bytes of the incoming request. It is the full size while groupd itself delays
        the request."""
        return self._needed_bytes if self._blocking_replies or self._is_queued else len(self._pending)

    def abort_receiving(self) -> None:
        """Close the connection because other requests wait for memory and its own request does not arrive."""
        self._endpoint.on_invalid_request(
            self,
            f"only {len(self._pending)} of {self._needed_bytes} bytes of a request arrived, and other "
            "requests wait for memory (queued.max.request.bytes, queued.max.request.stall.ms)",
        )
        self.abort()

    def _release_memory(self, size_bytes: int) -> None:
        if size_bytes:
            self._endpoint.memory.release(size_bytes)

    # Repeated requests

    def _answer_equal_requests(self, data: bytes, started_ns: int) -> bool:
        """Answer several equal requests in one read. Return whether `data` consists of such requests."""
        if self._replies:
            return False
        answers = self._repeated_requests.answer_equal_requests(data, started_ns // 1_000_000)
        if answers is None:
            return False
        assert self._transport is not None
        self._transport.write(answers)
        return True

    def _answer_repetition(self, frame: bytes, started_ns: int) -> object | None:
        """Return the response to a request that the client repeats, or a `DeferredResponse`. Return None for a
        request that must be decoded.
        """
        repeated = self._repeated_requests
        if repeated.epoch is not self._endpoint.routes.epoch:
            return None
        cached = repeated.find_request(frame)
        if cached is None:
            return None
        if cached.read_changes is None:
            return cached.repeat(started_ns // 1_000_000, (), None)
        return AWAITING_DISK if self._repeat_with_changes(cached, frame, started_ns) else None

    def _cache_request(
        self,
        route: Route,
        frame: bytes,
        body: int,
        request: object,
        response: object,
        context: RequestContext,
    ) -> None:
        """Cache an answered request that may come again. See `AnsweredRequest`."""
        assert route.create_repetition is not None, "requests of the API are cached"
        answered = AnsweredRequest(frame, body, request, response, context)
        epoch = self._endpoint.routes.epoch
        self._repeated_requests.add_request(answered, route.create_repetition, epoch)

    def _repeat_with_changes(self, cached: CachedRequest, frame: bytes, started_ns: int) -> bool:
        """Process a repetition with other fields in its gaps. Return whether it has a reply; otherwise it must be
        decoded."""
        self._endpoint.arrival.advance(started_ns)
        assert cached.read_changes is not None, "the request has gaps"
        changes = cached.read_changes(frame)
        defer = partial(self.open_reply, cached.response, changes[0])
        response = cached.repeat(started_ns // 1_000_000, changes, defer)
        if response is None:
            self._repeated_requests.remove_request(frame)
            return False
        if type(response) is not DeferredResponse:
            defer(False).send(response)
        if not cached.was_repeated:
            self._repeated_requests.on_repeated(cached)
        return True

    def _release_memory_when_done(self, size_bytes: int) -> None:
        """Release the memory of a request when it is processed. A request that is processed in slices or in a
        thread stays in memory until then."""
        reply = self._replies[-1] if self._replies else None
        if size_bytes and reply is not None and reply.on_finished is not None and reply.frame is None:
            reply.on_finished = partial(self._release_memory, size_bytes)
        else:
            self._release_memory(size_bytes)

    def _parse_client_id(self, frame: bytes, position: int, length: int) -> int:
        """Read a client id of `length` bytes at `position`. Return the end position."""
        raw = frame[position : position + length] if length > 0 else b""
        if raw != self._client_id_bytes or length < -1:
            self._set_client_id(raw, length)
        return position + len(raw)

    def _close_after_error(self, problem: Exception, out: bytearray, *, was_decoded: bool) -> None:
        """Log an invalid request or a failed handler in one line, and close the connection."""
        self._is_processing = False
        if not was_decoded and isinstance(problem, Malformed | error | IndexError):
            self._endpoint.on_invalid_request(self, str(problem))
        else:
            self._endpoint.on_handler_failed(self, problem)
        self._write_data(out)
        self.close()

    def _set_client_id(self, raw: bytes, length: int) -> None:
        if len(raw) != max(length, 0) or length < -1:
            raise Malformed(f"a client id of {length} bytes")
        try:
            client_id = raw.decode()
        except UnicodeDecodeError as problem:
            raise Malformed(f"client id: {problem}") from None
        self._client_id_bytes = raw
        self.client = replace(self.client, client_id=client_id)


class SecuredConnection(Connection):
    """A connection whose client authenticates by TLS, SASL or both."""

    __slots__ = ()

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the listener that accepted the connection."""
        return self._endpoint

    def set_principal(self, principal: Principal) -> None:
        """Set the authenticated identity of the client."""
        self.client = replace(self.client, principal=principal)

    def begin_reauthentication(
        self, request: "SaslHandshakeRequest", context: RequestContext
    ) -> object | None:
        """Return the response to a SaslHandshake that begins a re-authentication, or None if the client may not
        re-authenticate."""
        return None


def _skip_tags(frame: bytes, position: int) -> int:
    count, position = read_uvarint(frame, position)
    if count > MAX_UNKNOWN_TAGS:
        raise Malformed(f"there are more than {MAX_UNKNOWN_TAGS} unknown tagged fields in the header")
    return skip_tagged_fields(frame, position, count)
