"""OAUTHBEARER: the client sends a token that somebody else has given it, and who that is for is its principal.

    client first:   n,[a=authorization id],^Aauth=Bearer TOKEN^A[KEY=VALUE^A ...]^A      (^A: the byte 1)
    server:         nothing: let in
                    {"status":"invalid_token"}: the client is to answer ^A, and is refused then

After such an answer a client may also show another token. What it sends besides the token (KIP-342) is checked and
left alone.

Source: RFC 7628; Kafka's `OAuthBearerSaslServer` and `OAuthBearerClientInitialResponse`, for what is a message, the
order of errors and their texts.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from coordinator.security.sasl_server import Authenticated, Challenge, Judged, Pending, Refused, Step

MECHANISM: Final = "OAUTHBEARER"
INVALID_TOKEN: Final = "invalid_token"
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Several times what any provider's tokens have. Longer ones would keep everybody waiting."""
MAX_TIME_MS: Final = 2**63 - 1
"""The last instant there is."""
_SEPARATOR: Final = "\x01"
_LAST_WORD: Final = b"\x01"
"""What a client says that has understood that it is refused."""
_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authorization_id>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)++))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01)*+)\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]++) ++(?P<token>[-_~+/.a-zA-Z0-9]++=*+)")


@dataclass(frozen=True, slots=True)
class ValidToken:
    """Who a token is for, and until when it is good, in Unix milliseconds."""

    principal: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class InvalidToken:
    """A token that lets nobody in."""

    reason: str
    """For the operator's log: it says none of the token."""
    status: str = INVALID_TOKEN
    scope: str | None = None
    """What is to be asked for with the next token."""


@dataclass(frozen=True, slots=True)
class UnknownKey(InvalidToken):
    """A token whose key is not among those that were read last."""


Verdict: TypeAlias = ValidToken | InvalidToken
ValidateToken = Callable[[str], Verdict]
"""Judges a token, whatever it is. Never raises."""
ReadKeysAgain = Callable[[], Awaitable[None]]
"""Sees to it that keys which are there now are known, as far as that goes. Never raises."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """What a client says first; an authorization id of "" is none."""

    token: str = field(repr=False)
    authorization_id: str


class NotAClientFirst(ValueError):
    """What is no first message. The text says none of it."""


def parse_client_first(message: bytes) -> ClientFirst:
    """Raises NotAClientFirst."""
    invalid = "Invalid OAUTHBEARER client first message"
    if len(message) > MAX_MESSAGE_BYTES:
        raise NotAClientFirst(f"{invalid}: it has more than {MAX_MESSAGE_BYTES} bytes")
    found = _CLIENT_FIRST.fullmatch(message.decode(errors="replace"))
    if found is None:
        raise NotAClientFirst(invalid)
    pairs = dict(each.split("=", 1) for each in found["pairs"].split(_SEPARATOR)[:-1])
    if "auth" not in pairs:
        raise NotAClientFirst(f"{invalid}: 'auth' not specified")
    auth = _AUTH.fullmatch(pairs["auth"])
    if auth is None:
        raise NotAClientFirst(f"{invalid}: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise NotAClientFirst("Invalid scheme in OAUTHBEARER client first message")
    return ClientFirst(auth["token"], found["authorization_id"] or "")


class BearerServer:
    """See the top of this file."""

    def __init__(
        self,
        validate: ValidateToken,
        wall_ms: Callable[[], int],
        read_keys_again: ReadKeysAgain | None = None,
    ) -> None:
        """In: who judges tokens; the time; None where there are no keys."""
        self._validate = validate
        self._wall_ms = wall_ms
        self._read_keys_again = read_keys_again
        self._invalid: InvalidToken | None = None

    def step(self, token: bytes) -> Step:
        """Judges what a client sends."""
        invalid, self._invalid = self._invalid, None
        if invalid is not None and token == _LAST_WORD:
            return Refused(invalid.reason, _error_message(invalid))
        try:
            first = parse_client_first(token)
        except NotAClientFirst as problem:
            return Refused(str(problem))
        verdict = self._validate(first.token)
        if isinstance(verdict, UnknownKey) and self._read_keys_again is not None:
            return Pending(partial(self._with_new_keys, first, self._read_keys_again))
        return self._decide(first, verdict)

    async def _with_new_keys(self, first: ClientFirst, read_keys_again: ReadKeysAgain) -> Judged:
        await read_keys_again()
        return self._decide(first, self._validate(first.token))

    def _decide(self, first: ClientFirst, verdict: Verdict) -> Judged:
        if isinstance(verdict, InvalidToken):
            self._invalid = verdict
            return Challenge(_error_message(verdict).encode())
        if first.authorization_id not in ("", verdict.principal):
            message = (
                f"Authentication failed: Client requested an authorization id ({first.authorization_id}) that is "
                f"different from the token's principal name ({verdict.principal})"
            )
            return Refused(message, message)
        return Authenticated(verdict.principal, lifetime_ms=verdict.until_ms - self._wall_ms())


def _error_message(invalid: InvalidToken) -> str:
    scope = "" if invalid.scope is None else f', "scope":"{invalid.scope}"'
    return f'{{"status":"{invalid.status}"{scope}}}'
