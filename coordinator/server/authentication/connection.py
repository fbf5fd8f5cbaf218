"""A connection whose client has authenticated by SASL: it may have to do so again, and its session may end.

A SaslHandshake that comes among other requests begins a re-authentication, where sessions end: from there on frames
go to an `Exchange`, as they did before the client was let in. Once the session has ended, any other request closes
the connection without an answer; what is parked before may outlive it, and is answered.

Source: KIP-368; Kafka's `KafkaChannel` and `Processor.processCompletedReceives`.
"""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from coordinator import clock
from coordinator.answers import GOODBYE, PARKED
from coordinator.net.endpoint import Endpoint
from coordinator.net.repeat import Repeated
from coordinator.net.secured_connection import SecuredConnection
from coordinator.server.authentication.door import INVALID_SIZE, LAST_WORDS_S, SIZE_BYTES, SaslDoor
from coordinator.server.authentication.exchange import (
    Answered,
    Exchange,
    Identity,
    LetIn,
    Outcome,
    TurnedAway,
    Waiting,
)
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.malformed import Malformed
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from coordinator.server.authentication.sasl import Sasl

_KEY_END: Final = 6
"""Up to where a frame says which API it is of."""
_MIN_REAUTHENTICATION_NS: Final = 1_000_000_000
"""Between two beginnings of a re-authentication."""


class SaslConnection(SecuredConnection):
    """See the top of this file."""

    __slots__ = ("_began_ns", "_exchange", "_mechanism", "_sasl", "_session_end_ns", "_wait", "door")

    def __init__(self, endpoint: Endpoint, peername: object, sasl: "Sasl") -> None:
        super().__init__(endpoint, peername)
        self._sasl = sasl
        self._mechanism = ""
        self._session_end_ns = 0
        self._began_ns = 0
        self._exchange: Exchange | None = None
        self._wait: asyncio.Task[Outcome] | None = None
        """For what becomes of an exchange; meanwhile nothing is processed."""
        self.door: SaslDoor | None = None
        """What has the transport until the client is let in."""

    @property
    def endpoint(self) -> Endpoint:
        """Its listener."""
        return self._endpoint

    def answer_api_versions(self, request: ApiVersionsRequest, version: int) -> ApiVersionsResponse:
        """As any client is answered. In: a request of this version."""
        self.api_version = version
        answer: object = self._endpoint.routes.handler(ApiKey.API_VERSIONS)(request, self)
        return cast("ApiVersionsResponse", answer)

    def let_in(self, outcome: LetIn) -> None:
        """The client has shown who it is; its session begins."""
        self.identity, self._mechanism = outcome.identity
        self._session_end_ns = 0
        if outcome.session_ms is not None:
            self._session_end_ns = clock.monotonic_ns() + outcome.session_ms * 1_000_000

    @property
    def _has_session_ended(self) -> bool:
        return self._session_end_ns > 0 and clock.monotonic_ns() > self._session_end_ns

    # Sessions

    def data_received(self, data: bytes) -> None:
        """Bytes from the client, any number of them."""
        if self._session_end_ns and (self._exchange is not None or self._has_session_ended):
            self._repeated = Repeated()  # nothing is answered as before
        super().data_received(data)

    def _process(self, data: bytes, started_ns: int) -> None:
        """Processes what is in `data`; what is left over is kept."""
        if self._exchange is not None:
            self._reauthenticate(self._exchange, data, started_ns)
        elif self._has_session_ended and _is_other_than_handshake(data):
            self._end_session()
            self.close()
        else:
            super()._process(data, started_ns)

    def _end_session(self) -> None:
        self._sasl.counts.expired_connections += 1

    # Authenticating anew

    def reauthenticate(self, request: SaslHandshakeRequest) -> object | None:
        """The answer to a SaslHandshake that begins a re-authentication; None: it begins none."""
        now_ns = clock.monotonic_ns()
        if not self._session_end_ns:
            return None
        if self._began_ns and now_ns - self._began_ns < _MIN_REAUTHENTICATION_NS:
            if self._has_session_ended:
                self._end_session()
                return GOODBYE
            return None
        self._began_ns = now_ns
        exchange = self._sasl.exchange(self, Identity(self.identity, self._mechanism))
        if not exchange.choose(request.mechanism, self.api_version):
            self._sasl.turned_away(self, "", "Unsupported SASL mechanism", is_again=True)
            return GOODBYE
        self._repeated = Repeated()
        self._exchange = exchange
        slot = self.answer_later(parks=True)  # what follows it goes to the exchange
        slot.fill(SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=exchange.names))
        return PARKED

    def _reauthenticate(self, exchange: Exchange, data: bytes, started_ns: int) -> None:
        """Gives the next whole frame to the exchange; the frames behind it wait for another iteration."""
        position, self._wanted = 0, SIZE_BYTES
        if len(data) >= SIZE_BYTES:
            size = int.from_bytes(data[:SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= self._sasl.max_receive_bytes:
                self._turn_away(TurnedAway(b"", f"{INVALID_SIZE} ({size} bytes)"))
                return
            end = SIZE_BYTES + size
            if end > len(data):
                self._wanted = end
            else:
                try:
                    outcome = exchange.receive(data[SIZE_BYTES:end])
                except Malformed as problem:
                    self._endpoint.refused(self, str(problem))
                    self.close()
                    return
                position = end
                self._carry_out(outcome)
        if 0 < position < len(data) and not self._is_held:
            if self._exchange is None:
                self._process(data[position:], started_ns)
                return
            self._wait_in_line()
        self._pending = bytearray(data[position:])

    def _carry_out(self, outcome: Outcome) -> None:
        match outcome:
            case Answered(frame):
                self._answer_frame(frame)
            case LetIn(frame, identity):
                self._answer_frame(frame)
                self._exchange = None
                self._sasl.succeeded(self, identity.mechanism, is_again=True)
                self.let_in(outcome)
            case TurnedAway():
                self._turn_away(outcome)
            case Waiting(wait):
                self._parked += 1
                self._is_held = True
                self._wait = self._endpoint.loop.create_task(wait())
                self._wait.add_done_callback(self._has_waited)

    def _has_waited(self, wait: asyncio.Task[Outcome]) -> None:
        self._wait = None
        self._parked -= 1
        if wait.cancelled() or self._transport is None or self._is_closing:
            return
        self._weigh()
        try:
            self._carry_out(wait.result())
        except Exception as problem:  # noqa: BLE001 - whatever a client causes costs this connection only
            self._sasl.failed(self, problem)
            self.close()
        self._work()

    def _answer_frame(self, frame: bytes) -> None:
        out = bytearray()
        self._answer_bytes(frame, out)
        self._write(out)

    def _turn_away(self, outcome: TurnedAway) -> None:
        """The client is told in its time; until then nothing of it is processed."""
        assert self._exchange is not None
        self._sasl.turned_away(self, self._exchange.mechanism, outcome.reason, is_again=True)
        self._parked += 1  # for good: it is the last that is answered
        self._is_held = True
        self._stop_reading()
        self._endpoint.loop.call_later(self._sasl.delay_s, self._tell, outcome.frame)

    def _tell(self, frame: bytes) -> None:
        if not self._slots:  # else it would come before answers that are still to be given
            self._write(frame)
        self._endpoint.loop.call_later(LAST_WORDS_S if frame else 0, self.close)

    # Ending

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        if self._wait is not None:
            self._wait.cancel()
        super().connection_lost(exc)

    def close(self) -> None:
        """Sends what is ready, then closes."""
        super().close()
        if self.door is not None:
            self.door.abort()

    def abort(self) -> None:
        """Closes at once."""
        super().abort()
        if self.door is not None:
            self.door.abort()


def _is_other_than_handshake(data: bytes) -> bool:
    """Whether bytes begin a request of another API, as far as they tell."""
    if len(data) < _KEY_END:
        return False
    return int.from_bytes(data[SIZE_BYTES:_KEY_END], "big", signed=True) != ApiKey.SASL_HANDSHAKE
