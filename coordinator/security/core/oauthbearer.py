"""OAUTHBEARER: the server's side of the exchange, the parser of its tokens, and the validator of unsigned
tokens.

    client first:   n,[a=authorization id],^Aauth=Bearer TOKEN^A[KEY=VALUE^A ...]^A      (^A: the byte 1)
    server:         empty: authenticated
                    {"status":"invalid_token"}: the client answers ^A, and the server refuses it
    token:          base64url(header) . base64url(claims) . base64url(signature)
    unsigned:       header {"alg":"none"}
                    claims {"sub":"alice","exp":1700000000,"iat":1699996400,"scope":["a"]}
After `invalid_token` a client may also send another token. Pairs besides the token (KIP-342) are validated
and ignored. Parsing a token verifies nothing. Error texts contain no part of a token. Unsigned tokens are for
tests: any client can create one.
Source: RFC 7628, RFC 7515, RFC 7519; Kafka's `OAuthBearerSaslServer` and `OAuthBearerClientInitialResponse`
(accepted messages, order and texts of errors), `OAuthBearerUnsecuredValidatorCallbackHandler`,
`OAuthBearerUnsecuredJws`. Stricter than Kafka's validators: duplicate names, and bytes after the JSON, are
refused in every token.
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import floor, inf
from typing import Any, Final, NoReturn, TypeAlias

from coordinator.security.core.sasl_mechanisms import (
    Authenticated,
    AuthenticationRefused,
    Challenge,
    PendingStep,
    SaslStep,
    StepResult,
)

OAUTHBEARER: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Several times the size of any provider's tokens. Parsing a longer one would delay all other connections."""
MAX_TIME_MS: Final = 2**63 - 1
"""The largest representable instant."""
_SEPARATOR: Final = "\x01"
_REFUSAL_ACKNOWLEDGED: Final = b"\x01"
"""The client's acknowledgement of `invalid_token`."""
_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)++))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01)*+)\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]++) ++(?P<token>[-_~+/.a-zA-Z0-9]++=*+)")


@dataclass(frozen=True, slots=True)
class ValidToken:
    """The principal of a valid token and the token's expiry in Unix milliseconds."""

    principal: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class InvalidToken:
    """The server rejects a token."""

    reason: str
    """Written to the operator's log. Contains no part of the token."""
    status: str = INVALID_TOKEN
    scope: str | None = None
    """The scope that the client must request for its next token."""


@dataclass(frozen=True, slots=True)
class UnknownTokenKey(InvalidToken):
    """The token is signed with a key that is not in the cached key set."""


TokenResult: TypeAlias = ValidToken | InvalidToken
ValidateToken = Callable[[str], TokenResult]
"""Validate a token, malformed ones included. Never raises."""
RefreshKeys = Callable[[], Awaitable[None]]
"""Refresh the cached keys as far as the provider allows. Never raises."""


@dataclass(frozen=True, slots=True)
class BearerClientFirst:
    """The client's first message; an empty authorization id means that the client sent none."""

    token: str = field(repr=False)
    authorization_id: str


class InvalidClientFirst(ValueError):
    """The client's first message is malformed. The error text contains no part of it."""


def parse_client_first(message: bytes) -> BearerClientFirst:
    """Parse the client's first message.

    Raises:
        InvalidClientFirst: the message is malformed.
    """
    invalid = "Invalid OAUTHBEARER client first message"
    if len(message) > MAX_MESSAGE_BYTES:
        raise InvalidClientFirst(f"{invalid}: it has more than {MAX_MESSAGE_BYTES} bytes")
    found = _CLIENT_FIRST.fullmatch(message.decode(errors="replace"))
    if found is None:
        raise InvalidClientFirst(invalid)
    pairs = dict(each.split("=", 1) for each in found["pairs"].split(_SEPARATOR)[:-1])
    if "auth" not in pairs:
        raise InvalidClientFirst(f"{invalid}: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise InvalidClientFirst(f"{invalid}: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise InvalidClientFirst("Invalid scheme in OAUTHBEARER client first message")
    return BearerClientFirst(auth["token"], found["authorization_id"] or "")


class BearerServer:
    """The server's side of one OAUTHBEARER authentication."""

    def __init__(
        self,
        validate: ValidateToken,
        wall_ms: Callable[[], int],
        refresh_keys: RefreshKeys | None = None,
    ) -> None:
        """Start an authentication.

        Args:
            validate: validates tokens.
            wall_ms: returns the Unix time in milliseconds.
            refresh_keys: refreshes the signing keys; None for a listener without keys.
        """
        self._validate = validate
        self._wall_ms = wall_ms
        self._refresh_keys = refresh_keys
        self._invalid: InvalidToken | None = None

    def evaluate_response(self, token: bytes) -> SaslStep:
        """Evaluate the client's next message."""
        invalid, self._invalid = self._invalid, None
        if invalid is not None and token == _REFUSAL_ACKNOWLEDGED:
            return AuthenticationRefused(invalid.reason, _format_error(invalid))
        try:
            first = parse_client_first(token)
        except InvalidClientFirst as problem:
            return AuthenticationRefused(str(problem))
        result = self._validate(first.token)
        if isinstance(result, UnknownTokenKey) and self._refresh_keys is not None:
            return PendingStep(partial(self._validate_with_new_keys, first, self._refresh_keys))
        return self._decide(first, result)

    async def _validate_with_new_keys(
        self, first: BearerClientFirst, refresh_keys: RefreshKeys
    ) -> StepResult:
        await refresh_keys()
        return self._decide(first, self._validate(first.token))

    def _decide(self, first: BearerClientFirst, result: TokenResult) -> StepResult:
        if isinstance(result, InvalidToken):
            self._invalid = result
            return Challenge(_format_error(result).encode())
        if first.authorization_id not in ("", result.principal):
            message = (
                f"Authentication failed: Client requested an authorization id ({first.authorization_id}) that is "
                f"different from the token's principal name ({result.principal})"
            )
            return AuthenticationRefused(message, message)
        return Authenticated(result.principal, lifetime_ms=result.until_ms - self._wall_ms())


def _format_error(invalid: InvalidToken) -> str:
    scope = "" if invalid.scope is None else f', "scope":"{invalid.scope}"'
    return f'{{"status":"{invalid.status}"{scope}}}'


_PARTS: Final = 3
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_BASE64_GROUP: Final = 4


class InvalidJws(ValueError):
    """The token is not a well-formed JWS. The text names the missing part and contains no part of the token."""


@dataclass(frozen=True, slots=True)
class Jws:
    """A parsed token. Header and claims keep the names and values of the JSON."""

    header: dict[str, Any] = field(repr=False)
    claims: dict[str, Any] = field(repr=False)
    signature: bytes = field(repr=False)
    signed: bytes = field(repr=False)
    """The bytes that the signature covers."""


def parse_jws(token: str) -> Jws:
    """Split a token into header, claims and signature.

    Raises:
        InvalidJws: the token is malformed.
    """
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise InvalidJws(f"the token has {len(parts)} parts instead of {_PARTS}")
    header, claims, signature = parts
    return Jws(
        _parse_json_part(header, "header"),
        _parse_json_part(claims, "claims"),
        _decode_part(signature, "signature"),
        f"{header}.{claims}".encode(),
    )


def is_number(value: object) -> bool:
    """Return whether a JSON value is a number. In Python, true and false are numbers as well."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _decode_part(part: str, name: str) -> bytes:
    if _BASE64URL.fullmatch(part) is None or len(part) % _BASE64_GROUP == 1:
        raise InvalidJws(f"the {name} of the token is not base64url")
    return urlsafe_b64decode(part + "=" * (-len(part) % _BASE64_GROUP))


def _parse_json_part(part: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(
            _decode_part(part, name).decode(),
            object_pairs_hook=_reject_duplicate_names,
            parse_constant=_reject_constant,
        )
    except InvalidJws:
        raise
    except (ValueError, RecursionError):
        raise InvalidJws(f"the {name} of the token is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidJws(f"the {name} of the token is not a JSON object")
    return value


def _reject_duplicate_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _reject_constant(_: str) -> NoReturn:
    """Reject NaN and Infinity, which Python's JSON parser accepts."""
    raise ValueError


_OPTION: Final = "unsecuredValidator"
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_DIGITS: Final = re.compile(r"[+-]?[0-9]+")
_MAX_SKEW_MS: Final = 2**31 - 1


class _InvalidUnsecuredToken(Exception):
    """The reason why an unsecured token is rejected. The text contains no part of the token."""


@dataclass(frozen=True, slots=True)
class UnsecuredRules:
    """The rules for the unsecured tokens of one listener."""

    principal_claim_name: str = "sub"
    scope_claim_name: str = "scope"
    required_scope: tuple[str, ...] = ()
    allowable_clock_skew_ms: int = 0


def parse_unsecured_rules(options: Mapping[str, str]) -> UnsecuredRules:
    """Parse the rules from the options of a login module.

    Raises:
        ValueError: an option is invalid; the text names it.
    """

    def option(name: str, default: str) -> str:
        return options.get(_OPTION + name, "").strip() or default

    scope = tuple(each for each in option("RequiredScope", "").split(" ") if each)
    if not all(_SCOPE.fullmatch(each) for each in scope):
        raise ValueError(f"{_OPTION}RequiredScope must be a list of scopes, separated by spaces")
    skew = option("AllowableClockSkewMs", "0")
    if _DIGITS.fullmatch(skew) is None or not 0 <= int(skew) <= _MAX_SKEW_MS:
        raise ValueError(f"{_OPTION}AllowableClockSkewMs must be a number from 0 to {_MAX_SKEW_MS}")
    return UnsecuredRules(
        option("PrincipalClaimName", "sub"), option("ScopeClaimName", "scope"), scope, int(skew)
    )


class UnsecuredTokenValidator:
    """Validates unsecured tokens by the rules of one listener."""

    def __init__(self, rules: UnsecuredRules, wall_ms: Callable[[], int]) -> None:
        """`wall_ms` returns the Unix time in milliseconds."""
        self._rules = rules
        self._wall_ms = wall_ms

    def validate(self, token: str) -> TokenResult:
        """Validate a token, and return the result."""
        rules = self._rules
        try:
            jws = parse_jws(token)
            if jws.header.get("alg") != "none":
                raise _InvalidUnsecuredToken("the algorithm of an unsecured token is not none")
            if jws.signature:
                raise _InvalidUnsecuredToken("an unsecured token has a signature")
            claims = {name: _to_java_claim(value) for name, value in jws.claims.items()}
            scope = _parse_scope(claims.get(rules.scope_claim_name))
            until_ms = self._validate_times(claims)
            principal = _find_principal(claims, rules.principal_claim_name)
        except (InvalidJws, _InvalidUnsecuredToken) as problem:
            return InvalidToken(str(problem))
        if not scope.issuperset(rules.required_scope):
            return InvalidToken(
                "the token lacks a required scope",
                INSUFFICIENT_SCOPE,
                f"[{', '.join(rules.required_scope)}]",
            )
        return ValidToken(principal, until_ms)

    def _validate_times(self, claims: Mapping[str, Any]) -> int:
        """Check the times of a token that is valid now and return its expiry."""
        expires, issued = (_parse_time_ms(claims, name) for name in ("exp", "iat"))
        now_ms, skew_ms = self._wall_ms(), self._rules.allowable_clock_skew_ms
        if expires is None:
            raise _InvalidUnsecuredToken("the token has no exp")
        if issued is not None and issued > now_ms + skew_ms:
            raise _InvalidUnsecuredToken("the token is from the future (iat)")
        if now_ms - skew_ms >= expires:
            raise _InvalidUnsecuredToken("the token has expired (exp)")
        if issued is not None and expires <= issued:
            raise _InvalidUnsecuredToken("the token expires before it was issued (exp, iat)")
        return min(MAX_TIME_MS, floor(min(expires + 0.5, float(MAX_TIME_MS))))


def _to_java_claim(value: Any) -> Any:
    """Convert a claim to Kafka's form: numbers stay numbers, other values become text, lists item by item."""
    if isinstance(value, list):
        return [_to_java_text(each) for each in value]
    return value if is_number(value) else _to_java_text(value)


def _to_java_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if is_number(value) else ""


def _parse_scope(claim: Any) -> set[str]:
    if claim is None:
        return set()
    if is_number(claim):
        raise _InvalidUnsecuredToken("the scope of the token is a number")
    return {each.strip() for each in ([claim] if isinstance(claim, str) else claim) if each.strip()}


def _parse_time_ms(claims: Mapping[str, Any], name: str) -> float | None:
    claim = claims.get(name)
    if claim is None:
        return None
    if not is_number(claim):
        raise _InvalidUnsecuredToken(f"{name} of the token is not a number")
    try:
        return float(claim) * 1000
    except OverflowError:
        return inf if claim > 0 else -inf


def _find_principal(claims: Mapping[str, Any], name: str) -> str:
    claim = claims.get(name)
    if not isinstance(claim, str) or not claim.strip() or not is_valid_unicode(claim):
        raise _InvalidUnsecuredToken("the claim of the principal's name is missing or not a string")
    return claim


def is_valid_unicode(claim: str) -> bool:
    """Return whether a JSON string can be encoded. JSON allows unpaired surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in claim)
