"""Sends requests to other brokers of the cluster: batches items for each broker, keeps the connection, and
logs in with TLS and SASL.

Items that arrive while a broker has not answered go with the next request. Nothing is retried here: the
sender of an item learns of a missing response. As in Kafka each kind of request has its own connection to
each broker, with one request at a time.
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
"""Items in one request."""
_MAX_RESPONSE_BYTES: Final = 64 << 20
_CONNECT_TIMEOUT_S: Final = 2.0
RESPONSE_TIMEOUT_S: Final = 5.0
"""As long as an answer is waited for, and a login may take. Whoever asks asks again, maybe another broker."""
_SESSION_SHARE: Final = 0.85
"""Of its lifetime a login is used for so long; then there is a new connection, before the broker ends this one."""
T = TypeVar("T")
A = TypeVar("A")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class RequestUnanswered(Exception):
    """A broker has not done what it was asked, or it is not known that it has."""


class PeerUnreachable(RequestUnanswered):
    """The broker did not answer."""


class PeerAuthenticationFailed(RequestUnanswered):
    """The broker does not know this one, or the other way round: nothing was asked."""


class PeerRequestDenied(RequestUnanswered):
    """The broker knows this one, and denies it what brokers ask of each other."""


class PeerSecurity:
    """TLS and SASL of all connections to other brokers. All methods belong to the event loop's thread."""

    def __init__(self, context: Callable[[], ssl.SSLContext | None], login: Login | None) -> None:
        """In: what the next handshake is made with, None for no TLS; who logs in by SASL, None for nobody."""
        self._context = context
        self.login = login
        self._refused: dict[int, str] = {}
        """Why, by node id of those that do not let this one in, or that it does not trust."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """For the next handshake; None: there is no TLS."""
        return self._context()

    def on_refused(self, node_id: int, error: PeerAuthenticationFailed) -> None:
        """One line, however often that happens, until there is another reason."""
        reason = printable(str(error), _MAX_REASON)
        if self._refused.get(node_id) != reason:
            self._refused[node_id] = reason
            _LOG.error("Transactions wait: this broker does not get on with broker %d: %s", node_id, reason)

    def on_accepted(self, node_id: int) -> None:
        """It answered: tells so, if a line had said that it would not."""
        if self._refused.pop(node_id, None) is not None:
            _LOG.info("Broker %d lets this broker in again; transactions go on", node_id)


class InterBrokerRequest(NamedTuple, Generic[T, A]):
    """A kind of request to other brokers. `T` is one item of it, `A` is what came of the item."""

    name: str
    """Who asks, as the other broker sees it."""
    version: int
    create_request: Callable[[Sequence[T]], Any]
    """Puts items into a request."""
    parse_response: Callable[[Sequence[T], Any], Sequence[A]]
    """Takes the same items, and the response: what it says of each. Raises PeerRequestDenied where it says
    that this broker may not ask."""
    create_unanswered: Callable[[T], A]
    """What is said of an item that nobody has answered."""
    on_answer: Callable[[T, A], None]


class InterBrokerSender(Generic[T, A]):
    """Sends one kind of request to every broker that there is something for. All methods belong to the event
    loop's thread."""

    def __init__(
        self,
        request: InterBrokerRequest[T, A],
        address: Callable[[int], tuple[str, int] | None],
        security: PeerSecurity,
    ) -> None:
        """In: where a broker is, None where it does not live; what is shown to it."""
        self._request = request
        self._address = address
        self._security = security
        self._peers: dict[int, PeerConnection] = {}
        self._queues: dict[int, deque[T]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failing: dict[int, type[RequestUnanswered]] = {}
        """Brokers of which it was told that they do not answer, or deny it."""
        self._is_closed = False

    def enqueue(self, node_id: int, item: T) -> None:
        """Has something brought to a broker."""
        if self._is_closed:
            return
        self._queues.setdefault(node_id, deque()).append(item)
        if node_id not in self._tasks:
            self._tasks[node_id] = asyncio.get_running_loop().create_task(self._send_queue(node_id))

    def close(self) -> None:
        """Brings nothing any more; nobody is told."""
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
            except Exception as problem:  # noqa: BLE001 - who waits is told, and what is behind it is brought
                _LOG.error("%s: to broker %d", self._request.name, node_id, exc_info=problem)
                answers = [self._request.create_unanswered(item) for item in items]
            for item, answer in zip(items, answers, strict=True):
                self._deliver_answer(item, answer)
        # Here, and not when the task is done: what is put until then would wait for the next one.
        del self._tasks[node_id]

    def _log_failure(self, node_id: int, error: RequestUnanswered) -> None:
        """One line, however often that happens."""
        if isinstance(error, PeerAuthenticationFailed):
            self._failing.pop(node_id, None)
            self._security.on_refused(node_id, error)
        elif self._failing.get(node_id) is not type(error):
            self._failing[node_id] = type(error)
            if isinstance(error, PeerRequestDenied):
                _LOG.error("%s: broker %d denies what it is asked: %s", self._request.name, node_id, error)
            else:
                _LOG.warning("%s: broker %d does not answer: %s", self._request.name, node_id, error)

    async def _send_items(self, node_id: int, items: Sequence[T]) -> Sequence[A]:
        address = self._address(node_id)
        if address is None:
            raise PeerUnreachable("it does not live")
        peer = self._peers.setdefault(node_id, PeerConnection(self._request.name, self._security))
        response = await peer.send_request(
            address, self._request.create_request(items), self._request.version
        )
        return self._request.parse_response(items, response)

    def _deliver_answer(self, item: T, answer: A) -> None:
        try:
            self._request.on_answer(item, answer)
        except Exception as problem:  # noqa: BLE001 - the others are told all the same
            _LOG.error("%s: what came of %r", self._request.name, item, exc_info=problem)


class PeerConnection:
    """A connection to another broker, opened with the first request, and anew after a failure. Its caller
    sends one request at a time."""

    def __init__(self, client_id: str, security: PeerSecurity) -> None:
        self._client_id = client_id
        self._security = security
        self._address: tuple[str, int] | None = None
        self._streams: Streams | None = None
        self._correlation_id = 0
        self._used_until_ms: float | None = None
        """On the monotonic clock; None: the login does not end."""

    async def send_request(self, address: tuple[str, int], request: Any, version: int) -> Any:
        """The answer. In: where that broker is now. Raises PeerUnreachable."""
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
        """Lets go of the connection."""
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
        """Raises LoginRefused, and Malformed for a broker that does not know the user either."""
        sasl_login = SaslLogin(login, secrets.token_urlsafe(NONCE_BYTES))
        began_ms = clock.monotonic_ms()
        request: Any = sasl_login.first_request
        while request is not None:
            version = APIS[message_info(type(request)).api_key].versions.last
            answer = await self._exchange_frames(streams, request, version)
            try:
                # In a thread: what a password is made into takes as long as it is meant to.
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
            raise Malformed(f"it announced an answer of {size} bytes")
        frame = await reader.readexactly(size)
        if int.from_bytes(frame[:4], "big") != self._correlation_id:
            raise Malformed("it answered another question")
        return decode(APIS[key].response, version, frame, response_body_position(key, version, frame))


def _describe_tls_error(error: ssl.SSLError) -> str:
    """What went wrong, and with what."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (ssl.truststore.location)"
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return f"no TLS with it: {reason}. Has its listener TLS, and does it trust this broker's certificate?"
