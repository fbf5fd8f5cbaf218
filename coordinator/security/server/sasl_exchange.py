"""The SASL exchange of a connection, frame by frame: which requests a client may send before it is
authenticated, and the responses.

    start       ApiVersions, once answered with the versions       then only SaslHandshake
                SaslHandshake with a supported mechanism           tokens follow
    tokens      after SaslHandshake v0: the bytes of each frame, and so the responses; no error text
                after SaslHandshake v1: SaslAuthenticate; any other request is answered ILLEGAL_SASL_STATE
    the end     authenticated, or refused
A re-authentication (KIP-368) begins with a SaslHandshake among other requests and may change neither
mechanism nor principal.
A request of another API in place of SaslAuthenticate gets a response of its own API with ILLEGAL_SASL_STATE.
Where such a response has errors only in lists, one for each requested item, the lists are empty here.
Source: KIP-43, KIP-152, KIP-368; Kafka's `SaslServerAuthenticator` (order and texts of errors), and
`getErrorResponse` of its request classes.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from coordinator.apis.broker_handlers import encode_unsupported_api_versions
from coordinator.core.message_text import printable
from coordinator.security.core.principal import USER, Principal
from coordinator.security.core.sasl_mechanisms import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
    PendingStep,
    SaslServer,
    StepResult,
)
from protocol.apis import APIS, ApiKey
from protocol.codec import request_decoder
from protocol.error_codes import ErrorCode
from protocol.error_response import build_bare_error_response
from protocol.framing import RequestHeader, UnsupportedVersion, encode_response, parse_request_header
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from protocol.primitives import DecodingBudget, Malformed

_SIZE_BYTES: Final = 4
_SASL_AUTHENTICATE_SINCE: Final = 1
"""The version of SaslHandshake."""
_NO_FRAME: Final = b""

AnswerApiVersions = Callable[[ApiVersionsRequest, int], ApiVersionsResponse]
"""Answer an ApiVersions request of this version."""


@dataclass(frozen=True, slots=True)
class SaslMechanisms:
    """The SASL mechanisms of one listener."""

    servers: Mapping[str, Callable[[], SaslServer]]
    """Server factories by mechanism, in the order in which responses list the mechanisms."""
    max_reauth_ms: Mapping[str, int]
    """Maximum session times by mechanism; 0 or less: as long as the credential."""

    def session_ms(self, mechanism: str, lifetime_ms: int | None) -> int | None:
        """Return the lifetime of a session in milliseconds; None: unlimited. `lifetime_ms` is the lifetime of the
        credential.
        """
        bounds = [] if lifetime_ms is None else [lifetime_ms]
        if self.max_reauth_ms.get(mechanism, 0) > 0:
            bounds.append(self.max_reauth_ms[mechanism])
        return max(0, min(bounds)) if bounds else None


class SaslIdentity(NamedTuple):
    """An authenticated principal and the mechanism."""

    principal: Principal
    mechanism: str


@dataclass(frozen=True, slots=True)
class ExchangeContinues:
    """The client must send the next token."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class ExchangeSucceeded:
    """The client has authenticated."""

    frame: bytes
    identity: SaslIdentity
    session_ms: int | None
    """The lifetime of the session in milliseconds; None: unlimited."""


@dataclass(frozen=True, slots=True)
class ExchangeFailed:
    """The gate sends the frame after a delay, unless it is empty, and disconnects the client."""

    frame: bytes
    reason: str
    """For the operator's log: printable, without secrets."""


ExchangeDecision: TypeAlias = ExchangeContinues | ExchangeSucceeded | ExchangeFailed


@dataclass(frozen=True, slots=True)
class ExchangePending:
    """The decision is pending. Until then no other frame is evaluated."""

    wait: Callable[[], Coroutine[Any, Any, ExchangeDecision]]
    """Called at most once."""


ExchangeOutcome: TypeAlias = ExchangeDecision | ExchangePending


class SaslExchange:
    """One authentication of a client. It cannot be used after its end."""

    def __init__(
        self,
        mechanisms: SaslMechanisms,
        answer_api_versions: AnswerApiVersions,
        previous_identity: SaslIdentity | None = None,
    ) -> None:
        """Start an exchange.

        Args:
            mechanisms: the mechanisms of the listener.
            answer_api_versions: answers ApiVersions requests.
            previous_identity: the identity before a re-authentication.
        """
        self._mechanisms = mechanisms
        self._answer_api_versions = answer_api_versions
        self._previous_identity = previous_identity
        self._has_answered_versions = previous_identity is not None
        self._are_tokens_bare = False
        self._server: SaslServer | None = None
        self._is_other_mechanism = False
        self.mechanism = ""
        """The client's mechanism; "" until it selects a supported one."""

    def choose_mechanism(self, mechanism: str, version: int) -> bool:
        """Select the mechanism of a SaslHandshake; return False if it is not supported."""
        if mechanism not in self._mechanisms.servers:
            return False
        self._are_tokens_bare = version < _SASL_AUTHENTICATE_SINCE
        self._is_other_mechanism = (
            self._previous_identity is not None and mechanism != self._previous_identity.mechanism
        )
        self.mechanism = mechanism
        self._server = self._mechanisms.servers[mechanism]()
        return True

    @property
    def mechanism_names(self) -> list[str]:
        """Return the names of the supported mechanisms."""
        return list(self._mechanisms.servers)

    def receive_frame(self, frame: bytes) -> ExchangeOutcome:
        """Evaluate the next frame, without its size.

        Raises:
            Malformed: the frame is not a valid request; the connection must be closed.
        """
        if self._server is None:
            return self._handle_before_tokens(frame)
        if self._is_other_mechanism:
            assert self._previous_identity is not None
            return ExchangeFailed(
                _NO_FRAME,
                f"SASL mechanism '{self.mechanism}' requested by client is not supported for re-authentication "
                f"of mechanism '{self._previous_identity.mechanism}'",
            )
        if self._are_tokens_bare:
            return self._evaluate_bare_token(self._server, frame)
        return self._evaluate_token(self._server, frame)

    # Before the tokens

    def _handle_before_tokens(self, frame: bytes) -> ExchangeOutcome:
        try:
            header = parse_request_header(frame)
        except UnsupportedVersion as unsupported:
            header = unsupported.header
            if header.api_key == ApiKey.API_VERSIONS and not self._has_answered_versions:
                return ExchangeContinues(bytes(encode_unsupported_api_versions(header.correlation_id)))
            raise
        if header.api_key == ApiKey.API_VERSIONS:
            return self._handle_api_versions(header, frame)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._handle_handshake(header, frame)
        return ExchangeFailed(
            _NO_FRAME,
            f"Unexpected Kafka request of type {_format_api_name(header.api_key)} during SASL handshake.",
        )

    def _handle_api_versions(self, header: RequestHeader, frame: bytes) -> ExchangeContinues:
        if self._has_answered_versions:
            raise Malformed("Received ApiVersions instead of SaslHandshake")
        request: ApiVersionsRequest = _decode_body(header, frame)
        response = self._answer_api_versions(request, header.api_version)
        self._has_answered_versions = response.error_code == ErrorCode.NONE
        return ExchangeContinues(_encode_frame(header, response))

    def _handle_handshake(self, header: RequestHeader, frame: bytes) -> ExchangeContinues | ExchangeFailed:
        request: SaslHandshakeRequest = _decode_body(header, frame)
        is_supported = self.choose_mechanism(request.mechanism, header.api_version)
        error = ErrorCode.NONE if is_supported else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = _encode_frame(
            header, SaslHandshakeResponse(error_code=error, mechanisms=self.mechanism_names)
        )
        if is_supported:
            return ExchangeContinues(answer)
        return ExchangeFailed(answer, f"Unsupported SASL mechanism {printable(request.mechanism, 50)}")

    # Tokens

    def _evaluate_bare_token(self, server: SaslServer, token: bytes) -> ExchangeOutcome:
        return _decide_when_known(server.evaluate_response(token), self._decide_bare)

    def _decide_bare(self, step: StepResult) -> ExchangeDecision:
        match step:
            case Challenge(challenge):
                return ExchangeContinues(_add_size_prefix(challenge))
            case Authenticated(name, last, lifetime_ms):
                refusal = self._why_other_principal(name)
                if refusal is not None:
                    return ExchangeFailed(_NO_FRAME, printable(refusal))
                return self._succeed(_add_size_prefix(last), name, self._session_ms(lifetime_ms))
            case AuthenticationRefused(reason):
                return ExchangeFailed(_NO_FRAME, printable(reason))

    def _evaluate_token(self, server: SaslServer, frame: bytes) -> ExchangeOutcome:
        try:
            header = parse_request_header(frame)
        except UnsupportedVersion as unsupported:
            if unsupported.header.api_key != ApiKey.API_VERSIONS:
                raise
            return self._reject_misplaced(replace(unsupported.header, api_version=0))
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return self._reject_misplaced(header)
        request: SaslAuthenticateRequest = _decode_body(header, frame)
        return _decide_when_known(server.evaluate_response(request.auth_bytes), partial(self._decide, header))

    def _decide(self, header: RequestHeader, step: StepResult) -> ExchangeDecision:
        match step:
            case Challenge(challenge):
                return ExchangeContinues(_encode_frame(header, _create_authenticate_response(challenge)))
            case Authenticated(name, last, lifetime_ms):
                refusal = self._why_other_principal(name)
                if refusal is not None:
                    return self._reject_credentials(header, refusal, refusal)
                session_ms = self._session_ms(lifetime_ms)
                return self._succeed(
                    _encode_frame(header, _create_authenticate_response(last, session_ms or 0)),
                    name,
                    session_ms,
                )
            case AuthenticationRefused(reason, message):
                return self._reject_credentials(header, reason, message)

    def _reject_misplaced(self, header: RequestHeader) -> ExchangeFailed:
        answer = encode_misplaced_response(header.api_key, header.api_version, header.correlation_id)
        return ExchangeFailed(answer, why_misplaced(header.api_key))

    def _reject_credentials(self, header: RequestHeader, reason: str, message: str | None) -> ExchangeFailed:
        if message is None:
            phase = "authentication" if self._previous_identity is None else "re-authentication"
            message = (
                f"Authentication failed during {phase} due to invalid credentials with SASL mechanism "
                f"{self.mechanism}"
            )
        response = build_bare_error_response(
            SaslAuthenticateRequest,
            header.api_version,
            ErrorCode.SASL_AUTHENTICATION_FAILED,
            message,
        )
        return ExchangeFailed(_encode_frame(header, response), printable(reason))

    def _why_other_principal(self, name: str) -> str | None:
        if self._previous_identity is None or self._previous_identity.principal == Principal(USER, name):
            return None
        previous = self._previous_identity.principal
        return (
            f"Cannot change principals during re-authentication from {previous.type}.{previous.name}: "
            f"{USER}.{name}"
        )

    def _session_ms(self, lifetime_ms: int | None) -> int | None:
        return self._mechanisms.session_ms(self.mechanism, lifetime_ms)

    def _succeed(self, frame: bytes, name: str, session_ms: int | None) -> ExchangeSucceeded:
        return ExchangeSucceeded(frame, SaslIdentity(Principal(USER, name), self.mechanism), session_ms)


def _decide_when_known(
    step: StepResult | PendingStep, decide: Callable[[StepResult], ExchangeDecision]
) -> ExchangeOutcome:
    """Derive the decision from a step, immediately or when the step completes."""
    if not isinstance(step, PendingStep):
        return decide(step)
    wait_for_step = step.wait

    async def wait() -> ExchangeDecision:
        return decide(await wait_for_step())

    return ExchangePending(wait)


def _format_api_name(api_key: int) -> str:
    """Format an API as Kafka's log does: SASL_HANDSHAKE."""
    return ApiKey(api_key).name


def _create_authenticate_response(token: bytes, session_ms: int = 0) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.NONE,
        error_message="",  # an empty string, not null, as in Kafka
        auth_bytes=token,
        session_lifetime_ms=session_ms,
    )


def _decode_body(header: RequestHeader, frame: bytes) -> Any:
    """Decode the body of a request.

    Raises:
        Malformed: the body is invalid.
    """
    api = APIS[header.api_key]
    decode = request_decoder(api.request, header.api_version, DecodingBudget(api.max_elements))
    return decode(frame, header.body_position)


def _encode_frame(header: RequestHeader, response: object) -> bytes:
    return bytes(encode_response(header.api_key, header.api_version, header.correlation_id, response))


def _add_size_prefix(token: bytes) -> bytes:
    return len(token).to_bytes(_SIZE_BYTES, "big") + token


_WITH_ERROR_MESSAGE: Final = (
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
)
"""The APIs with an error text in the response."""


def why_misplaced(key: int) -> str:
    """Return the error text for a request in place of a token."""
    return f"Unexpected Kafka request of type {ApiKey(key).name} during SASL authentication."


def encode_misplaced_response(key: int, version: int, correlation_id: int) -> bytes:
    """Encode an error response in the form of that API, with its size prefix."""
    message = why_misplaced(key) if key in _WITH_ERROR_MESSAGE else None
    response = build_bare_error_response(APIS[key].request, version, ErrorCode.ILLEGAL_SASL_STATE, message)
    return bytes(encode_response(key, version, correlation_id, response))
