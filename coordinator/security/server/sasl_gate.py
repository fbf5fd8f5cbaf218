"""Connections of a listener with SASL: the gate that handles frames until a client is authenticated, then
re-authentication and the end of sessions.

The gate passes frames to a `SaslExchange`, one frame of each client in an iteration of the event loop. An
unauthenticated client costs little: its buffered bytes are bounded, for each client and for all together, and
it has a deadline. A refused client gets its response after a delay, during which nothing is read.
On a listener with sessions a SaslHandshake among other requests starts a re-authentication, and the following
frames go to an exchange again. After the end of its session any other request closes the connection without a
response. A response that is pending at that time is still sent.
Source: KIP-368; Kafka's `SaslServerAuthenticator`, `Selector`, `KafkaChannel`,
`Processor.processCompletedReceives`.
"""

import asyncio
from typing import Final, cast

from coordinator.core import clock
from coordinator.core.response_status import BLOCKED, CLOSE_CONNECTION
from coordinator.core.time_budget import RunQueue
from coordinator.network.client_connection import Connection, SecuredConnection
from coordinator.network.endpoint import Endpoint
from coordinator.network.repeated_requests import RepeatedRequests
from coordinator.network.request_context import ApiCounts, RequestContext, ResponseEncoder
from coordinator.security.server.sasl_exchange import (
    ExchangeContinues,
    ExchangeFailed,
    ExchangeOutcome,
    ExchangePending,
    ExchangeSucceeded,
    SaslExchange,
    SaslIdentity,
)
from coordinator.security.server.sasl_listener import SaslListener
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.primitives import Malformed

SIZE_BYTES: Final = 4
MAX_FRAMES: Final = 100
"""The maximum number of frames of an unauthenticated client. An authentication needs about six."""
INVALID_SIZE: Final = "Failing SASL authentication due to invalid receive size"
REJECTION_LINGER_S: Final = 0.05
"""The time between the response to a refused client and the close of its connection. A client that sees both at
once may ignore the response (kafka-python does).
"""
_LINGER_S: Final = 5.0

_API_KEY_END: Final = 6
"""The end of the API key in a frame."""
_MIN_REAUTHENTICATION_NS: Final = 1_000_000_000
"""The minimum time between two re-authentications."""


class SaslGate(asyncio.Protocol):
    """The gate of one connection. It opens once the client has authenticated."""

    def __init__(self, sasl: SaslListener, connection: "SaslConnection") -> None:
        """Create the gate of a new connection. The client's deadline counts from the accept of its socket."""
        self._sasl = sasl
        self._connection = connection
        self._exchange = sasl.create_exchange(connection.answer_api_versions)
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._counted_bytes = 0
        self._frames = 0
        self._is_over = False
        self._is_queued = False
        self._wait: asyncio.Task[ExchangeOutcome] | None = None
        """The task of a pending step. Meanwhile the gate buffers the client's frames."""
        waited_s = (clock.monotonic_ns() - connection.last_received_ns) / 1e9
        self._timer = sasl.loop.call_later(max(0.0, sasl.timeout_s - waited_s), self._on_timeout)
        connection.gate = self

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to read from the socket."""
        # uvloop's transports do not subclass asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        if self._is_over:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after a client that disconnected before it authenticated."""
        self._stop()
        self._transport = None
        self._connection.gate = None
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """Close the connection: an unauthenticated client does not read its responses."""
        self.abort()

    def data_received(self, data: bytes) -> None:
        """Buffer bytes from the client and schedule its frames."""
        if self._is_over:
            return
        self._buffer += data
        if self._wait is not None and len(self._buffer) > self._sasl.max_receive_bytes:
            assert self._transport is not None
            self._transport.pause_reading()
        if self._run_queue.is_iteration_over:
            self._enqueue()
        else:
            self._process_next_frame()

    @property
    def _run_queue(self) -> RunQueue:
        return self._connection.endpoint.run_queue

    def _enqueue(self) -> None:
        if not self._is_queued:
            self._is_queued = True
            self._run_queue.add(self)

    def run_slice(self) -> None:
        """Process one frame of this client, in its turn of the run queue."""
        self._is_queued = False
        self._process_next_frame()

    def _process_next_frame(self, wait: asyncio.Task[ExchangeOutcome] | None = None) -> None:
        """Process the next frame unless the client must wait for its turn. `wait` is a finished pending step."""
        started_ns = clock.monotonic_ns()
        try:
            if wait is not None:
                self._apply_outcome(wait.result())
            frame = None if self._is_queued else self._take_frame()
            if frame is not None:
                self._frames += 1
                if self._frames > MAX_FRAMES:
                    raise Malformed(
                        f"the client sent more than {MAX_FRAMES} frames before it was authenticated"
                    )
                self._apply_outcome(self._exchange.receive_frame(frame))
                if self._has_frame:
                    self._enqueue()
                self._run_queue.record_time(clock.monotonic_ns() - started_ns)
            self._count_buffered()
        except Malformed as problem:
            self._sasl.on_invalid_request(self._connection, str(problem))
            self.abort()
        except Exception as problem:  # noqa: BLE001 - an error must not affect other connections
            self._sasl.on_error(self._connection, problem)
            self.abort()

    # Frames

    @property
    def _has_frame(self) -> bool:
        """Return whether another frame can be processed."""
        buffer = self._buffer
        if self._is_over or self._wait is not None or len(buffer) < SIZE_BYTES:
            return False
        size = int.from_bytes(buffer[:SIZE_BYTES], "big", signed=True)
        return len(buffer) >= SIZE_BYTES + size

    def _take_frame(self) -> bytes | None:
        """Return the next frame without its size, None if it is incomplete."""
        buffer = self._buffer
        if self._is_over or self._wait is not None or len(buffer) < SIZE_BYTES:
            return None
        size = int.from_bytes(buffer[:SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self._sasl.max_receive_bytes:
            self._reject_client(ExchangeFailed(b"", f"{INVALID_SIZE} ({size} bytes)"))
            return None
        end = SIZE_BYTES + size
        if len(buffer) < end:
            return None
        frame = bytes(buffer[SIZE_BYTES:end])
        del buffer[:end]
        return frame

    def _apply_outcome(self, outcome: ExchangeOutcome) -> None:
        match outcome:
            case ExchangeContinues(frame):
                self._write(frame)
            case ExchangeSucceeded():
                self._admit_client(outcome)
            case ExchangeFailed():
                self._reject_client(outcome)
            case ExchangePending(wait):
                self._wait = self._sasl.loop.create_task(wait())
                self._wait.add_done_callback(self._on_wait_done)

    def _on_wait_done(self, wait: asyncio.Task[ExchangeOutcome]) -> None:
        self._wait = None
        if not self._is_over and not wait.cancelled() and self._transport is not None:
            self._transport.resume_reading()
            self._process_next_frame(wait)

    def _admit_client(self, outcome: ExchangeSucceeded) -> None:
        early, transport = bytes(self._buffer), self._transport
        assert transport is not None
        self._stop()
        connection = self._connection
        connection.gate = None
        self._sasl.on_authenticated(connection, outcome.identity.mechanism)
        connection.on_authenticated(outcome)
        self._transport = None
        transport.write(outcome.frame)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if early:
            connection.data_received(early)

    def _reject_client(self, outcome: ExchangeFailed) -> None:
        self._stop()
        self._sasl.on_authentication_failed(self._connection, self._exchange.mechanism, outcome.reason)
        if self._transport is not None:
            self._transport.pause_reading()
        self._timer = self._sasl.loop.call_later(self._sasl.delay_s, self._send_rejection, outcome.frame)

    def _send_rejection(self, frame: bytes) -> None:
        """Send the delayed response to a refused client."""
        transport = self._transport
        if transport is None:
            return
        self._write(frame)
        self._timer = self._sasl.loop.call_later(REJECTION_LINGER_S if frame else 0, self._close)

    def _close(self) -> None:
        transport = self._transport
        if transport is not None:
            transport.close()
            self._timer = self._sasl.loop.call_later(_LINGER_S, transport.abort)

    def _write(self, frame: bytes) -> None:
        if frame and self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def _count_buffered(self) -> None:
        """Update the listener's total of buffered bytes, which is limited as well."""
        if self._is_over:
            return
        self._sasl.buffered_bytes += len(self._buffer) - self._counted_bytes
        self._counted_bytes = len(self._buffer)
        if self._counted_bytes and self._sasl.buffered_bytes > self._sasl.max_buffered_bytes:
            raise Malformed("unauthenticated clients together sent too many bytes of incomplete requests")

    # Ending

    def _on_timeout(self) -> None:
        transport = self._transport
        self._stop()
        if transport is None:
            return
        reason = f"it was not authenticated within {self._sasl.timeout_s:g} s (authentication.timeout.ms)"
        self._sasl.on_authentication_failed(self._connection, self._exchange.mechanism, reason)
        transport.abort()

    def _stop(self) -> None:
        """Stop reading and cancel the deadline."""
        self._is_over = True
        if self._is_queued:
            self._is_queued = False
            self._run_queue.remove(self)
        self._timer.cancel()
        self._sasl.buffered_bytes -= self._counted_bytes
        self._counted_bytes = 0
        self._buffer = bytearray()
        if self._wait is not None:
            self._wait.cancel()

    def abort(self) -> None:
        """Close the connection at once."""
        self._stop()
        if self._transport is not None:
            self._transport.abort()


class SaslConnection(SecuredConnection):
    """An authenticated connection of a SASL listener: its session and re-authentication."""

    __slots__ = (
        "_exchange",
        "_mechanism",
        "_reauthentication_began_ns",
        "_sasl",
        "_session_end_ns",
        "_wait",
        "gate",
    )

    def __init__(self, endpoint: Endpoint, peername: object, sasl: SaslListener) -> None:
        super().__init__(endpoint, peername)
        self._sasl = sasl
        self._mechanism = ""
        self._session_end_ns = 0
        self._reauthentication_began_ns = 0
        self._exchange: SaslExchange | None = None
        self._wait: asyncio.Task[ExchangeOutcome] | None = None
        """The task of a pending exchange step. Meanwhile the connection processes nothing."""
        self.gate: SaslGate | None = None
        """The gate, which owns the transport until the client has authenticated."""

    def answer_api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """Answer an ApiVersions request as for any client. `request` has this `version`."""
        encoder = ResponseEncoder(APIS[ApiKey.API_VERSIONS], version, ApiCounts())
        context = RequestContext(self.client, encoder, 0, self, version)
        answer: object = self._endpoint.routes.get_handler(ApiKey.API_VERSIONS)(request, context)
        return cast("ApiVersionsResponse", answer)

    def on_authenticated(self, outcome: ExchangeSucceeded) -> None:
        """Start the session of an authenticated client."""
        principal, self._mechanism = outcome.identity
        self.set_principal(principal)
        self._session_end_ns = 0
        if outcome.session_ms is not None:
            self._session_end_ns = clock.monotonic_ns() + outcome.session_ms * 1_000_000

    @property
    def _has_session_ended(self) -> bool:
        return self._session_end_ns > 0 and clock.monotonic_ns() > self._session_end_ns

    # Sessions

    def data_received(self, data: bytes) -> None:
        """Process bytes from the client."""
        if self._session_end_ns and (self._exchange is not None or self._has_session_ended):
            self._repeated_requests = RepeatedRequests()  # cached responses no longer apply
        super().data_received(data)

    def _process_data(self, data: bytes, started_ns: int, is_unknown: bool = False) -> None:
        """Process the complete frames in `data` and buffer the rest."""
        if self._exchange is not None:
            self._process_reauthentication(self._exchange, data, started_ns)
        elif self._has_session_ended and _is_other_than_handshake(data):
            self._count_expired_session()
            self.close()
        else:
            super()._process_data(data, started_ns, is_unknown)

    def _count_expired_session(self) -> None:
        self._sasl.counts.expired_connections += 1

    # Re-authentication

    def begin_reauthentication(self, request: SaslHandshakeRequest, context: RequestContext) -> object | None:
        """Return the response to a SaslHandshake that starts a re-authentication; None if it does not start one."""
        now_ns = clock.monotonic_ns()
        if not self._session_end_ns:
            return None
        if (
            self._reauthentication_began_ns
            and now_ns - self._reauthentication_began_ns < _MIN_REAUTHENTICATION_NS
        ):
            if self._has_session_ended:
                self._count_expired_session()
                return CLOSE_CONNECTION
            return None
        self._reauthentication_began_ns = now_ns
        exchange = self._sasl.create_exchange(
            self.answer_api_versions, SaslIdentity(self.client.principal, self._mechanism)
        )
        if not exchange.choose_mechanism(request.mechanism, context.api_version):
            self._sasl.on_authentication_failed(
                self, "", "Unsupported SASL mechanism", is_reauthentication=True
            )
            return CLOSE_CONNECTION
        self._repeated_requests = RepeatedRequests()
        self._exchange = exchange
        reply = context.defer(blocks=True)  # the next bytes belong to the exchange
        reply.send(SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=exchange.mechanism_names))
        return BLOCKED

    def _process_reauthentication(self, exchange: SaslExchange, data: bytes, started_ns: int) -> None:
        """Pass the next complete frame to the exchange. Later frames wait for another iteration."""
        position, self._needed_bytes = 0, SIZE_BYTES
        if len(data) >= SIZE_BYTES:
            size = int.from_bytes(data[:SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= self._sasl.max_receive_bytes:
                self._reject_client(ExchangeFailed(b"", f"{INVALID_SIZE} ({size} bytes)"))
                return
            end = SIZE_BYTES + size
            if end > len(data):
                self._needed_bytes = end
            else:
                try:
                    outcome = exchange.receive_frame(data[SIZE_BYTES:end])
                except Malformed as problem:
                    self._endpoint.on_invalid_request(self, str(problem))
                    self.close()
                    return
                position = end
                self._apply_outcome(outcome)
        if 0 < position < len(data) and not self._is_held:
            if self._exchange is None:
                self._process_data(data[position:], started_ns)
                return
            self._enqueue()
        self._pending = bytearray(data[position:])

    def _apply_outcome(self, outcome: ExchangeOutcome) -> None:
        match outcome:
            case ExchangeContinues(frame):
                self._send_frame(frame)
            case ExchangeSucceeded(frame, identity):
                self._send_frame(frame)
                self._exchange = None
                self._sasl.on_authenticated(self, identity.mechanism, is_reauthentication=True)
                self.on_authenticated(outcome)
            case ExchangeFailed():
                self._reject_client(outcome)
            case ExchangePending(wait):
                self._blocking_replies += 1
                self._is_held = True
                self._wait = self._endpoint.loop.create_task(wait())
                self._wait.add_done_callback(self._on_wait_done)

    def _on_wait_done(self, wait: asyncio.Task[ExchangeOutcome]) -> None:
        self._wait = None
        self._blocking_replies -= 1
        if wait.cancelled() or self._transport is None or self._is_closing:
            return
        self._update_hold()
        try:
            self._apply_outcome(wait.result())
        except Exception as problem:  # noqa: BLE001 - the error of a client closes only its connection
            self._sasl.on_error(self, problem)
            self.close()
        self._process_pending()

    def _send_frame(self, frame: bytes) -> None:
        out = bytearray()
        self._queue_frame(frame, out)
        self._write_data(out)

    def _reject_client(self, outcome: ExchangeFailed) -> None:
        """Schedule the delayed response to a refused client. Until then the connection processes nothing."""
        assert self._exchange is not None
        self._sasl.on_authentication_failed(
            self, self._exchange.mechanism, outcome.reason, is_reauthentication=True
        )
        self._blocking_replies += 1  # permanently: this response is the last one
        self._is_held = True
        self._stop_reading()
        self._endpoint.loop.call_later(self._sasl.delay_s, self._send_rejection, outcome.frame)

    def _send_rejection(self, frame: bytes) -> None:
        if not self._replies:  # otherwise it would overtake pending responses
            self._write_data(frame)
        self._endpoint.loop.call_later(REJECTION_LINGER_S if frame else 0, self.close)

    # Ending

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after the connection was closed."""
        if self._wait is not None:
            self._wait.cancel()
        super().connection_lost(exc)

    def close(self) -> None:
        """Send the ready responses, then close."""
        super().close()
        if self.gate is not None:
            self.gate.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        super().abort()
        if self.gate is not None:
            self.gate.abort()


class SaslAuthentication:
    """Authenticates clients by the SASL of their listener."""

    def __init__(self, sasl: SaslListener) -> None:
        self._sasl = sasl

    def create_connection(self, endpoint: Endpoint, peername: object) -> SaslConnection:
        """Create the connection of an accepted socket."""
        return SaslConnection(endpoint, peername, self._sasl)

    def create_protocol(self, connection: Connection) -> SaslGate:
        """Create the gate, which handles the connection's transport first."""
        assert isinstance(connection, SaslConnection)
        return SaslGate(self._sasl, connection)


def _is_other_than_handshake(data: bytes) -> bool:
    """Return whether the available bytes begin a request of another API."""
    if len(data) < _API_KEY_END:
        return False
    return int.from_bytes(data[SIZE_BYTES:_API_KEY_END], "big", signed=True) != ApiKey.SASL_HANDSHAKE
