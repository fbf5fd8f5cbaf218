"""Who a client is, in frames: what it may send until that is known, and what it is answered.

    start       ApiVersions, once answered with the versions       then only SaslHandshake
                SaslHandshake with a mechanism that is there       tokens are due
    tokens      after SaslHandshake v0: the bytes of each frame, and so the answers; no word of an error
                after SaslHandshake v1: SaslAuthenticate; any other request is answered ILLEGAL_SASL_STATE
    the end     let in, or turned away

A connection that authenticates anew (KIP-368) begins with a SaslHandshake that came as a request among others, and
may change neither mechanism nor principal.

Source: KIP-43, KIP-152, KIP-368; Kafka's `SaslServerAuthenticator`, for the order of errors and their texts.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from coordinator.net.peer import printable
from coordinator.security.principal import USER, Principal
from coordinator.security.sasl_server import Authenticated, Challenge, Judged, Pending, Refused, SaslServer
from coordinator.server.authentication.misplaced import misplaced_answer, why_misplaced
from coordinator.server.handlers.api_versions import refuse_api_versions
from protocol.apis import APIS, ApiKey
from protocol.budget import Budget
from protocol.codec import request_decoder
from protocol.errors import ErrorCode
from protocol.framing import RequestHeader, UnsupportedVersion, encode_response, parse_request_header
from protocol.malformed import Malformed
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_SIZE_BYTES: Final = 4
_AUTHENTICATES_IN_REQUESTS_SINCE: Final = 1
"""The version of SaslHandshake."""
_NOTHING: Final = b""

AnswerApiVersions = Callable[[ApiVersionsRequest, int], ApiVersionsResponse]
"""Takes a request and its version."""


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """How clients of one listener authenticate."""

    servers: Mapping[str, Callable[[], SaslServer]]
    """By mechanism, in the order in which they are told."""
    max_reauth_ms: Mapping[str, int]
    """By mechanism, how long an authentication is good for; not above 0: as long as the credential."""

    def session_ms(self, mechanism: str, lifetime_ms: int | None) -> int | None:
        """How long a session lasts, from its authentication on; None: for ever. In: for how long the credential is
        good."""
        bounds = [] if lifetime_ms is None else [lifetime_ms]
        if self.max_reauth_ms.get(mechanism, 0) > 0:
            bounds.append(self.max_reauth_ms[mechanism])
        return max(0, min(bounds)) if bounds else None


class Identity(NamedTuple):
    """Who was let in, and by which mechanism."""

    principal: Principal
    mechanism: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The client is to go on."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class LetIn:
    """The client is who it says."""

    frame: bytes
    identity: Identity
    session_ms: int | None
    """How long this is good for; None: for ever."""


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """The client is told in its time, or nothing where the frame is empty, and disconnected."""

    frame: bytes
    reason: str
    """For the operator's log, printable; without any secret."""


Decided: TypeAlias = Answered | LetIn | TurnedAway


@dataclass(frozen=True, slots=True)
class Waiting:
    """What becomes of the client has to be waited for; meanwhile no other frame is judged."""

    wait: Callable[[], Coroutine[Any, Any, Decided]]
    """Called once at most."""


Outcome: TypeAlias = Decided | Waiting


class Exchange:
    """See the top of this file. Of one authentication; there is nothing after its end."""

    def __init__(
        self, mechanisms: Mechanisms, answer_api_versions: AnswerApiVersions, before: Identity | None = None
    ) -> None:
        """In: who answers ApiVersions; who the client was until now, where it authenticates anew."""
        self._mechanisms = mechanisms
        self._answer_api_versions = answer_api_versions
        self._before = before
        self._versions_told = before is not None
        self._are_tokens_bare = False
        self._server: SaslServer | None = None
        self._is_other_mechanism = False
        self.mechanism = ""
        """That of the client; "" before it has chosen one that is there."""

    def choose(self, mechanism: str, version: int) -> bool:
        """Takes the mechanism that a SaslHandshake names; False: there is no such one."""
        if mechanism not in self._mechanisms.servers:
            return False
        self._are_tokens_bare = version < _AUTHENTICATES_IN_REQUESTS_SINCE
        self._is_other_mechanism = self._before is not None and mechanism != self._before.mechanism
        self.mechanism = mechanism
        self._server = self._mechanisms.servers[mechanism]()
        return True

    @property
    def names(self) -> list[str]:
        """The mechanisms that there are."""
        return list(self._mechanisms.servers)

    def receive(self, frame: bytes) -> Outcome:
        """Judges the next frame, without its size. Raises Malformed: it is no request, and ends the connection."""
        if self._server is None:
            return self._before_tokens(frame)
        if self._is_other_mechanism:
            assert self._before is not None
            return TurnedAway(
                _NOTHING,
                f"SASL mechanism '{self.mechanism}' requested by client is not supported for re-authentication "
                f"of mechanism '{self._before.mechanism}'",
            )
        if self._are_tokens_bare:
            return self._bare_token(self._server, frame)
        return self._token(self._server, frame)

    # Before tokens

    def _before_tokens(self, frame: bytes) -> Outcome:
        try:
            header = parse_request_header(frame)
        except UnsupportedVersion as unsupported:
            header = unsupported.header
            if header.api_key == ApiKey.API_VERSIONS and not self._versions_told:
                return Answered(bytes(refuse_api_versions(header.correlation_id)))
            raise
        if header.api_key == ApiKey.API_VERSIONS:
            return self._api_versions(header, frame)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(header, frame)
        return TurnedAway(
            _NOTHING, f"Unexpected Kafka request of type {_name(header.api_key)} during SASL handshake."
        )

    def _api_versions(self, header: RequestHeader, frame: bytes) -> Answered:
        if self._versions_told:
            raise Malformed("ApiVersions came where SaslHandshake was expected")
        request: ApiVersionsRequest = _decoded(header, frame)
        response = self._answer_api_versions(request, header.api_version)
        self._versions_told = response.error_code == ErrorCode.NONE
        return Answered(_encoded(header, response))

    def _handshake(self, header: RequestHeader, frame: bytes) -> Answered | TurnedAway:
        request: SaslHandshakeRequest = _decoded(header, frame)
        is_there = self.choose(request.mechanism, header.api_version)
        error = ErrorCode.NONE if is_there else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = _encoded(header, SaslHandshakeResponse(error_code=error, mechanisms=self.names))
        if is_there:
            return Answered(answer)
        return TurnedAway(answer, f"Unsupported SASL mechanism {printable(request.mechanism, 50)}")

    # Tokens

    def _bare_token(self, server: SaslServer, token: bytes) -> Outcome:
        return _in_time(server.step(token), self._bare_outcome)

    def _bare_outcome(self, step: Judged) -> Decided:
        match step:
            case Challenge(challenge):
                return Answered(_sized(challenge))
            case Authenticated(name, last, lifetime_ms):
                refusal = self._why_other_principal(name)
                if refusal is not None:
                    return TurnedAway(_NOTHING, printable(refusal))
                return self._let_in(_sized(last), name, self._session_ms(lifetime_ms))
            case Refused(reason):
                return TurnedAway(_NOTHING, printable(reason))

    def _token(self, server: SaslServer, frame: bytes) -> Outcome:
        try:
            header = parse_request_header(frame)
        except UnsupportedVersion as unsupported:
            if unsupported.header.api_key != ApiKey.API_VERSIONS:
                raise
            return self._misplaced(replace(unsupported.header, api_version=0))
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return self._misplaced(header)
        request: SaslAuthenticateRequest = _decoded(header, frame)
        return _in_time(server.step(request.auth_bytes), partial(self._outcome, header))

    def _outcome(self, header: RequestHeader, step: Judged) -> Decided:
        match step:
            case Challenge(challenge):
                return Answered(_encoded(header, _step(challenge)))
            case Authenticated(name, last, lifetime_ms):
                refusal = self._why_other_principal(name)
                if refusal is not None:
                    return self._refused(header, refusal, refusal)
                session_ms = self._session_ms(lifetime_ms)
                return self._let_in(_encoded(header, _step(last, session_ms or 0)), name, session_ms)
            case Refused(reason, message):
                return self._refused(header, reason, message)

    def _misplaced(self, header: RequestHeader) -> TurnedAway:
        answer = misplaced_answer(header.api_key, header.api_version, header.correlation_id)
        return TurnedAway(answer, why_misplaced(header.api_key))

    def _refused(self, header: RequestHeader, reason: str, message: str | None) -> TurnedAway:
        if message is None:
            what = "authentication" if self._before is None else "re-authentication"
            message = (
                f"Authentication failed during {what} due to invalid credentials with SASL mechanism "
                f"{self.mechanism}"
            )
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message, auth_bytes=b""
        )
        return TurnedAway(_encoded(header, response), printable(reason))

    def _why_other_principal(self, name: str) -> str | None:
        if self._before is None or self._before.principal == Principal(USER, name):
            return None
        before = self._before.principal
        return (
            f"Cannot change principals during re-authentication from {before.type}.{before.name}: "
            f"{USER}.{name}"
        )

    def _session_ms(self, lifetime_ms: int | None) -> int | None:
        return self._mechanisms.session_ms(self.mechanism, lifetime_ms)

    def _let_in(self, frame: bytes, name: str, session_ms: int | None) -> LetIn:
        return LetIn(frame, Identity(Principal(USER, name), self.mechanism), session_ms)


def _in_time(step: Judged | Pending, outcome: Callable[[Judged], Decided]) -> Outcome:
    """What follows from a step, now or once it is known."""
    if not isinstance(step, Pending):
        return outcome(step)
    wait_for_step = step.wait

    async def wait() -> Decided:
        return outcome(await wait_for_step())

    return Waiting(wait)


def _name(api_key: int) -> str:
    """As Kafka's log has it: SASL_HANDSHAKE."""
    return ApiKey(api_key).name


def _step(token: bytes, session_ms: int = 0) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE,
        error_message="",  # and not null: Kafka's
        auth_bytes=token,
        session_lifetime_ms=session_ms,
    )


def _decoded(header: RequestHeader, frame: bytes) -> Any:
    """The body of a request. Raises Malformed."""
    api = APIS[header.api_key]
    decode = request_decoder(api.request, header.api_version, Budget(api.most_elements))
    return decode(frame, header.body_position)


def _encoded(header: RequestHeader, response: object) -> bytes:
    return bytes(encode_response(header.api_key, header.api_version, header.correlation_id, response))


def _sized(token: bytes) -> bytes:
    return len(token).to_bytes(_SIZE_BYTES, "big") + token
