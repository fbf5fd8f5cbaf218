"""Sends requests to other brokers of the cluster: batches items for each broker, keeps the connection, and
logs in with TLS and SASL.

Items that arrive while a request is in flight go with the next request. The sender never retries: `on_answer`
reports a missing response to the caller. As in Kafka each kind of request has its own connection to each
broker, with one request in flight at a time.
Source: Kafka's `TransactionMarkerChannelManager`, `AddPartitionsToTxnManager`, `InterBrokerSendThread`,
`NetworkClient`, `ChannelBuilders.clientChannelBuilder`.
"""

import asyncio
import logging
import secrets
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from coordinator.core import clock
from coordinator.core.message_text import printable
from coordinator.core.wire_name import error_name
from coordinator.security.core.sasl_login import NONCE_BYTES, Login, LoginRefused, SaslLogin
from protocol.apis import APIS
from protocol.codec import decode
from protocol.framing import encode_request, response_body_position
from protocol.primitives import Malformed
from protocol.schema import message_info
from storage.storage_errors import format_error_reason

_LOG: Final = logging.getLogger("Cluster")
_MAX_REASON: Final = 500

MAX_ITEMS_PER_REQUEST: Final = 200
"""Maximum number of items in one request."""
_MAX_RESPONSE_BYTES: Final = 64 << 20
_CONNECT_TIMEOUT_S: Final = 2.0
RESPONSE_TIMEOUT_S: Final = 5.0
"""Timeout of a response and of a login. The caller repeats the request, possibly to another broker."""
_SESSION_SHARE: Final = 0.85
"""Share of a SASL session's lifetime after which the sender reconnects, before the broker closes the connection."""
T = TypeVar("T")
A = TypeVar("A")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class RequestUnanswered(Exception):
    """A broker rejected a request, or its result is unknown."""


class PeerUnreachable(RequestUnanswered):
    """The broker did not answer."""


class PeerAuthenticationFailed(RequestUnanswered):
    """One of the two brokers rejected the credentials of the other. No request was sent."""


class PeerRequestDenied(RequestUnanswered):
    """The broker authenticated this broker but does not authorize its inter-broker requests."""


class PeerSecurity:
    """TLS and SASL of all connections to other brokers. All methods belong to the event loop's thread."""

    def __init__(self, context: Callable[[], ssl.SSLContext | None], login: Login | None) -> None:
        """Create the security of connections to other brokers.

        Args:
            context: Returns the TLS context of the next handshake; None for no TLS.
            login: SASL credentials of this broker; None for no SASL.
        """
        self._context = context
        self.login = login
        self._refused: dict[int, str] = {}
        """Reason of the failed authentication by node id."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """TLS context of the next handshake; None without TLS."""
        return self._context()

    def on_refused(self, node_id: int, error: PeerAuthenticationFailed) -> None:
        """Log a failed authentication, once until its reason changes."""
        reason = printable(str(error), _MAX_REASON)
        if self._refused.get(node_id) != reason:
            self._refused[node_id] = reason
            _LOG.error("Cannot authenticate to broker %d; transactions wait: %s", node_id, reason)

    def on_accepted(self, node_id: int) -> None:
        """Log that a broker accepts this broker again, if a failure was logged before."""
        if self._refused.pop(node_id, None) is not None:
            _LOG.info("Broker %d accepts this broker again; transactions continue", node_id)


class InterBrokerRequest(NamedTuple, Generic[T, A]):
    """A kind of request to other brokers. `T` is one item of it, `A` is the result of an item."""

    name: str
    """Client id of the requests."""
    version: int
    create_request: Callable[[Sequence[T]], Any]
    """Builds the request for a batch of items."""
    parse_response: Callable[[Sequence[T], Any], Sequence[A]]
    """Returns the result of each item of the same batch from the response. Raises PeerRequestDenied if the
    response says that this broker is not authorized.
    """
    create_unanswered: Callable[[T], A]
    """Returns the result of an item that got no response."""
    on_answer: Callable[[T, A], None]


class InterBrokerSender(Generic[T, A]):
    """Sends one kind of request to all brokers. All methods belong to the event loop's thread."""

    def __init__(
        self,
        request: InterBrokerRequest[T, A],
        address: Callable[[int], tuple[str, int] | None],
        security: PeerSecurity,
    ) -> None:
        """Create a sender.

        Args:
            request: The kind of request.
            address: Returns host and port of a broker by node id; None if the broker is not live.
            security: TLS and SASL of the connections.
        """
        self._request = request
        self._address = address
        self._security = security
        self._peers: dict[int, PeerConnection] = {}
        self._queues: dict[int, deque[T]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failing: dict[int, type[RequestUnanswered]] = {}
        """The last failure that was logged, by node id of the broker."""
        self._is_closed = False

    def enqueue(self, node_id: int, item: T) -> None:
        """Queue an item for a broker."""
        if self._is_closed:
            return
        self._queues.setdefault(node_id, deque()).append(item)
        if node_id not in self._tasks:
            self._tasks[node_id] = asyncio.get_running_loop().create_task(self._send_queue(node_id))

    def close(self) -> None:
        """Stop sending. Queued items get no result."""
        self._is_closed = True
        for task in self._tasks.values():
            task.cancel()
        for peer in self._peers.values():
            peer.close()

    async def _send_queue(self, node_id: int) -> None:
        queue = self._queues[node_id]
        while queue:
            items = [queue.popleft() for _ in range(min(len(queue), MAX_ITEMS_PER_REQUEST))]
            try:
                answers = await self._send_items(node_id, items)
                self._failing.pop(node_id, None)
                self._security.on_accepted(node_id)
            except RequestUnanswered as error:
                self._log_failure(node_id, error)
                answers = [self._request.create_unanswered(item) for item in items]
            except Exception as problem:  # noqa: BLE001 - the callers get a result, and the log gets the traceback
                _LOG.error("%s: to broker %d", self._request.name, node_id, exc_info=problem)
                answers = [self._request.create_unanswered(item) for item in items]
            for item, answer in zip(items, answers, strict=True):
                self._deliver_answer(item, answer)
        # Here and not in a callback of the task: an item that is queued in between would wait for the next item.
        del self._tasks[node_id]

    def _log_failure(self, node_id: int, error: RequestUnanswered) -> None:
        """Log a failure, once until its kind changes."""
        if isinstance(error, PeerAuthenticationFailed):
            self._failing.pop(node_id, None)
            self._security.on_refused(node_id, error)
        elif self._failing.get(node_id) is not type(error):
            self._failing[node_id] = type(error)
            if isinstance(error, PeerRequestDenied):
                _LOG.error("%s: broker %d denies the request: %s", self._request.name, node_id, error)
            else:
                _LOG.warning("%s: broker %d does not answer: %s", self._request.name, node_id, error)

    async def _send_items(self, node_id: int, items: Sequence[T]) -> Sequence[A]:
        address = self._address(node_id)
        if address is None:
            raise PeerUnreachable("it is not live")
        peer = self._peers.setdefault(node_id, PeerConnection(self._request.name, self._security))
        response = await peer.send_request(
            address, self._request.create_request(items), self._request.version
        )
        return self._request.parse_response(items, response)

    def _deliver_answer(self, item: T, answer: A) -> None:
        try:
            self._request.on_answer(item, answer)
        except Exception as problem:  # noqa: BLE001 - the other items still get their results
            _LOG.error("%s: failed to handle the result of %r", self._request.name, item, exc_info=problem)


class PeerConnection:
    """A connection to another broker. It opens with the first request and reopens after a failure. The caller
    sends one request at a time.
    """

    def __init__(self, client_id: str, security: PeerSecurity) -> None:
        self._client_id = client_id
        self._security = security
        self._address: tuple[str, int] | None = None
        self._streams: Streams | None = None
        self._correlation_id = 0
        self._used_until_ms: float | None = None
        """End of the login's use on the monotonic clock; None: the session has no lifetime."""

    async def send_request(self, address: tuple[str, int], request: Any, version: int) -> Any:
        """Send a request and return its response.

        Args:
            address: Current host and port of the broker.
            request: Decoded request.
            version: API version of the request.

        Raises:
            PeerUnreachable: The broker did not answer in time, or its answer is malformed.
            PeerAuthenticationFailed: TLS or SASL failed.
        """
        try:
            streams = await self._open_streams(address)
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                return await self._exchange_frames(streams, request, version)
        except LoginRefused as error:
            self.close()
            raise PeerAuthenticationFailed(f"{address[0]}:{address[1]} refuses the login: {error}") from error
        except ssl.SSLError as error:
            self.close()
            raise PeerAuthenticationFailed(
                f"{address[0]}:{address[1]}: {_describe_tls_error(error)}"
            ) from error
        except (OSError, EOFError, Malformed, TimeoutError) as error:
            self.close()
            reason = format_error_reason(error) or error_name(error)
            raise PeerUnreachable(f"{address[0]}:{address[1]}: {reason}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _open_streams(self, address: tuple[str, int]) -> Streams:
        if self._streams is not None and (self._address != address or not self._is_usable(self._streams)):
            self.close()
        if self._streams is None:
            context = self._security.context
            host = None if context is None else address[0]
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                streams = await asyncio.open_connection(*address, ssl=context, server_hostname=host)
            self._streams, self._address, self._used_until_ms = streams, address, None
            if self._security.login is not None:
                async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                    await self._log_in(self._security.login, streams)
        return self._streams

    def _is_usable(self, streams: Streams) -> bool:
        is_over = self._used_until_ms is not None and clock.monotonic_ms() >= self._used_until_ms
        return not is_over and not streams[0].at_eof()

    async def _log_in(self, login: Login, streams: Streams) -> None:
        """Authenticate with SASL. Raises LoginRefused, and Malformed if the broker fails to authenticate itself."""
        sasl_login = SaslLogin(login, secrets.token_urlsafe(NONCE_BYTES))
        began_ms = clock.monotonic_ms()
        request: Any = sasl_login.first_request
        while request is not None:
            version = APIS[message_info(type(request)).api_key].versions.last
            answer = await self._exchange_frames(streams, request, version)
            try:
                # In a thread: the key derivation of SCRAM is slow by design.
                request = await asyncio.to_thread(sasl_login.next_request, answer)
            except ValueError as error:
                raise Malformed(str(error)) from error
        if sasl_login.session_lifetime_ms:
            self._used_until_ms = began_ms + _SESSION_SHARE * sasl_login.session_lifetime_ms

    async def _exchange_frames(self, streams: Streams, request: Any, version: int) -> Any:
        reader, writer = streams
        key = message_info(type(request)).api_key
        self._correlation_id += 1
        writer.write(encode_request(key, version, self._correlation_id, self._client_id, request))
        await writer.drain()
        size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
        if not 4 <= size <= _MAX_RESPONSE_BYTES:
            raise Malformed(f"it announced a response of {size} bytes")
        frame = await reader.readexactly(size)
        if int.from_bytes(frame[:4], "big") != self._correlation_id:
            raise Malformed("its response belongs to another request")
        return decode(APIS[key].response, version, frame, response_body_position(key, version, frame))


def _describe_tls_error(error: ssl.SSLError) -> str:
    """Return the cause of a TLS failure and the setting to check."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (ssl.truststore.location)"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return (
        f"the TLS handshake failed: {reason}. Check that its listener has TLS and trusts this "
        "broker's certificate"
    )
