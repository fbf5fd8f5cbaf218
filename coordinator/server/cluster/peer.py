"""A connection to another broker of the cluster: one question after the other, in Kafka's protocol.

Source: Kafka's `InterBrokerSendThread`, `NetworkClient`.
"""

import asyncio
import secrets
import ssl
from typing import Any, Final

from coordinator import clock
from coordinator.security.sasl_login import NONCE_BYTES, Login, LoginRefused, SaslLogin
from coordinator.server.cluster.peer_security import NotLetIn, PeerSecurity, Unreachable
from protocol.apis import APIS
from protocol.codec import decode
from protocol.framing import encode_request, response_body_position
from protocol.malformed import Malformed
from protocol.schema import message_info
from storage.os_error import reason_of

_MOST_BYTES: Final = 64 << 20
_CONNECT_S: Final = 2.0
ANSWER_S: Final = 5.0
"""As long as an answer is waited for, and a login may take. Whoever asks asks again, maybe another broker."""
_SESSION_PART: Final = 0.85
"""Of its lifetime a login is used for so long; then there is a new connection, before the broker ends this one."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Peer:
    """Opened with the first question, and anew after a failure. One question at a time is the caller's business."""

    def __init__(self, client_id: str, security: PeerSecurity) -> None:
        self._client_id = client_id
        self._security = security
        self._address: tuple[str, int] | None = None
        self._streams: Streams | None = None
        self._correlation_id = 0
        self._used_until_ms: float | None = None
        """On the monotonic clock; None: the login does not end."""

    async def ask(self, address: tuple[str, int], request: Any, version: int) -> Any:
        """The answer. In: where that broker is now. Raises Unreachable."""
        try:
            streams = await self._opened(address)
            async with asyncio.timeout(ANSWER_S):
                return await self._ask(streams, request, version)
        except LoginRefused as error:
            self.close()
            raise NotLetIn(f"{address[0]}:{address[1]} refuses the login: {error}") from error
        except ssl.SSLError as error:
            self.close()
            raise NotLetIn(f"{address[0]}:{address[1]}: {_of_tls(error)}") from error
        except (OSError, EOFError, Malformed, TimeoutError) as error:
            self.close()
            reason = reason_of(error) or type(error).__name__
            raise Unreachable(f"{address[0]}:{address[1]}: {reason}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Lets go of the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _opened(self, address: tuple[str, int]) -> Streams:
        if self._streams is not None and (self._address != address or not self._is_usable(self._streams)):
            self.close()
        if self._streams is None:
            context = self._security.context
            host = None if context is None else address[0]
            async with asyncio.timeout(_CONNECT_S):
                streams = await asyncio.open_connection(*address, ssl=context, server_hostname=host)
            self._streams, self._address, self._used_until_ms = streams, address, None
            if self._security.login is not None:
                async with asyncio.timeout(ANSWER_S):
                    await self._log_in(self._security.login, streams)
        return self._streams

    def _is_usable(self, streams: Streams) -> bool:
        is_over = self._used_until_ms is not None and clock.monotonic_ms() >= self._used_until_ms
        return not is_over and not streams[0].at_eof()

    async def _log_in(self, login: Login, streams: Streams) -> None:
        """Raises LoginRefused, and Malformed for a broker that does not know the user either."""
        talk = SaslLogin(login, secrets.token_urlsafe(NONCE_BYTES))
        began_ms = clock.monotonic_ms()
        question: Any = talk.first
        while question is not None:
            version = APIS[message_info(type(question)).api_key].versions.last
            answer = await self._ask(streams, question, version)
            try:
                # In a thread: what a password is made into takes as long as it is meant to.
                question = await asyncio.to_thread(talk.next, answer)
            except ValueError as error:
                raise Malformed(str(error)) from error
        if talk.session_lifetime_ms:
            self._used_until_ms = began_ms + _SESSION_PART * talk.session_lifetime_ms

    async def _ask(self, streams: Streams, request: Any, version: int) -> Any:
        reader, writer = streams
        key = message_info(type(request)).api_key
        self._correlation_id += 1
        writer.write(encode_request(key, version, self._correlation_id, self._client_id, request))
        await writer.drain()
        size = int.from_bytes(await reader.readexactly(4), "big", signed=True)
        if not 4 <= size <= _MOST_BYTES:
            raise Malformed(f"it announced an answer of {size} bytes")
        frame = await reader.readexactly(size)
        if int.from_bytes(frame[:4], "big") != self._correlation_id:
            raise Malformed("it answered another question")
        return decode(APIS[key].response, version, frame, response_body_position(key, version, frame))


def _of_tls(error: ssl.SSLError) -> str:
    """What went wrong, and with what."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (ssl.truststore.location)"
    said = (error.reason or str(error)).lower().replace("_", " ")
    return f"no TLS with it: {said}. Has its listener TLS, and does it trust this broker's certificate?"
