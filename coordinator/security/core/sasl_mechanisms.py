"""SASL on the server's side: the interface of a mechanism, PLAIN and SCRAM, and the SCRAM credentials that a
broker stores in place of passwords.

    PLAIN                [authorization id] NUL user NUL password
    SCRAM client first   n,[a=authorization id],n=user,r=nonce[,name=value…]
    SCRAM server first   r=nonce and server's nonce,s=salt,i=iterations
    SCRAM client final   c=biws,r=both nonces,p=proof
    SCRAM server final   v=signature
PLAIN refuses an unknown user with the same message and after the same time as a wrong password. SCRAM, as in
Kafka, refuses an unknown user at the first step and a wrong password at the second, does not prepare names
(SASLprep) and does not bind channels. It ignores extensions, except `tokenauth=true`, which it refuses:
delegation tokens are not supported.
Source: RFC 4422, RFC 4616, RFC 5802, RFC 7677; Java's `SaslServer` as Kafka's `SaslServerAuthenticator` uses
it; Kafka's `PlainSaslServer` and `PlainServerCallbackHandler` (order and texts of errors), `ScramSaslServer`,
`ScramMessages`, `ScramFormatter`, `ScramCredential`, `ScramMechanism`.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac, sha256
from hmac import compare_digest
from hmac import digest as hmac
from typing import Any, Final, NamedTuple, Protocol, TypeAlias


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, with their numbers in requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The SASL name, such as SCRAM-SHA-256."""
        return self.name.replace("_", "-")


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored credential that verifies a user's proofs for one mechanism. Its repr shows no secret bytes."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class Challenge:
    """A server token that requires another client token."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """A successful authentication: the name of the principal and the server's last token."""

    name: str
    token: bytes = field(default=b"", repr=False)
    lifetime_ms: int | None = None
    """Remaining lifetime of the credentials in milliseconds; None: unlimited."""


@dataclass(frozen=True, slots=True)
class AuthenticationRefused:
    """A failed authentication."""

    reason: str
    """For the operator's log. More detailed than `message`, but without secrets."""
    message: str | None = None
    """The error text for the client; None: the generic text for invalid credentials."""


StepResult: TypeAlias = Challenge | Authenticated | AuthenticationRefused


@dataclass(frozen=True, slots=True)
class PendingStep:
    """The evaluation of a token is pending. Until it ends the exchange accepts no other token."""

    wait: Callable[[], Coroutine[Any, Any, StepResult]]
    """Return the result of the step. Never raises; the caller awaits it at most once."""


SaslStep: TypeAlias = StepResult | PendingStep


class SaslServer(Protocol):
    """One authentication. Every result other than a challenge, immediate or pending, ends it."""

    def evaluate_response(self, token: bytes) -> SaslStep:
        """Evaluate the next token, malformed ones included. Never raises."""


PLAIN: Final = "PLAIN"
_PARTS: Final = 3
_UNKNOWN_USER_PASSWORD: Final = ""
"""Compared in place of the password of an unknown user."""


class PlainServer:
    """The server's side of one PLAIN authentication."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """`passwords` maps user names to passwords."""
        self._passwords = passwords

    def evaluate_response(self, token: bytes) -> Authenticated | AuthenticationRefused:
        """Evaluate the only token of the exchange."""
        parts = token.decode(errors="replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            return _refuse(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            return _refuse("Authentication failed: username not specified")
        if not password:
            return _refuse("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        is_right = compare_digest(
            _hash_password(password), _hash_password(_UNKNOWN_USER_PASSWORD if expected is None else expected)
        )
        if expected is None or not is_right:
            reason = "the user does not exist" if expected is None else "the password is wrong"
            return AuthenticationRefused(reason, "Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            return _refuse(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Authenticated(user)


def _hash_password(password: str) -> bytes:
    """Hash to a fixed length, so that the time of a comparison does not reveal the length of the password."""
    return sha256(password.encode(errors="surrogatepass")).digest()


def _refuse(message: str) -> AuthenticationRefused:
    return AuthenticationRefused(message, message)


MAX_TOKEN_BYTES: Final = 8 * 1024
"""A longer token is refused before it is parsed, because the client has not authenticated yet."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The upper bound on the iterations of a credential, the same as Kafka's."""

HASHES: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
# The quantifiers are possessive: an unauthenticated client cannot cause backtracking with a long message.
_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_VALUE: Final = rb"[\x01-\x2b\x2d-\x7f]++"
_NONCE: Final = rb"[\x21-\x2b\x2d-\x7e]++"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]++=" + _VALUE + rb")*"
_BASE64: Final = rb"(?:[a-zA-Z0-9/+]{4})*+(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?+"
_CLIENT_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authorization_id>%b))?,(?:m=%b,)?(?P<bare>n=(?P<user>%b),r=(?P<nonce>%b)(?P<extensions>%b))"
    % (_NAME, _VALUE, _NAME, _NONCE, _EXTENSIONS)
)
_CLIENT_FINAL: Final = re.compile(
    rb"(?P<bare>c=%b,r=(?P<nonce>%b))%b,p=(?P<proof>%b)" % (_BASE64, _NONCE, _EXTENSIONS, _BASE64)
)

FindScramCredential = Callable[[str], ScramCredential | None]
"""Look up the credential of a user by name."""


class ScramClientFirst(NamedTuple):
    """A client's first message. Names keep the escapes `=2C` and `=3D`."""

    authorization_id: bytes
    user: bytes
    nonce: bytes
    extensions: bytes
    bare: bytes

    @classmethod
    def parse(cls, token: bytes) -> "ScramClientFirst | None":
        """Parse a message; return None for a malformed one."""
        match = _CLIENT_FIRST.fullmatch(token)
        if match is None:
            return None
        return cls(*(match[name] or b"" for name in cls._fields))

    @property
    def user_name(self) -> str:
        """The unescaped user name."""
        return self.user.replace(b"=2C", b",").replace(b"=3D", b"=").decode("ascii")

    @property
    def uses_delegation_token(self) -> bool:
        """Return whether the user is a delegation token and the password its HMAC."""
        pairs = (pair.partition(b"=") for pair in self.extensions.split(b","))
        return any(name == b"tokenauth" and value.lower() == b"true" for name, _, value in pairs)


class ScramServer:
    """The server's side of one SCRAM authentication."""

    def __init__(self, mechanism: ScramMechanism, credentials: FindScramCredential, nonce: str) -> None:
        """Start an authentication.

        Args:
            mechanism: the SCRAM mechanism.
            credentials: looks up a user's credential for this mechanism.
            nonce: the server's part of the nonce: unpredictable printable ASCII without commas.
        """
        self._hash = HASHES[mechanism]
        self._credentials = credentials
        self._server_nonce = nonce.encode("ascii")
        self._user = ""
        self._nonce = self._client_first = self._server_first = b""
        self._credential: ScramCredential | None = None

    def evaluate_response(self, token: bytes) -> SaslStep:
        """Evaluate the client's first or final token."""
        if len(token) > MAX_TOKEN_BYTES:
            return AuthenticationRefused(f"the message has more than {MAX_TOKEN_BYTES} bytes")
        return (
            self._evaluate_first(token)
            if self._credential is None
            else self._evaluate_final(token, self._credential)
        )

    def _evaluate_first(self, token: bytes) -> Challenge | AuthenticationRefused:
        first = ScramClientFirst.parse(token)
        if first is None:
            return AuthenticationRefused("the first message is not a SCRAM message")
        if first.uses_delegation_token:
            return AuthenticationRefused("delegation tokens are not supported")
        self._user = first.user_name
        credential = self._credentials(self._user)
        if credential is None:
            return AuthenticationRefused("the user has no credential of this mechanism")
        if first.authorization_id and first.authorization_id.decode("ascii") != self._user:
            message = (
                "Authentication failed: Client requested an authorization id that is different from username"
            )
            return AuthenticationRefused(message, message)
        if credential.iterations < MIN_ITERATIONS:
            return AuthenticationRefused(
                f"the credential has {credential.iterations} iterations, less than {MIN_ITERATIONS}"
            )
        self._credential = credential
        self._client_first = first.bare
        self._nonce = first.nonce + self._server_nonce
        self._server_first = b"r=%b,s=%b,i=%d" % (
            self._nonce,
            b64encode(credential.salt),
            credential.iterations,
        )
        return Challenge(self._server_first)

    def _evaluate_final(
        self, token: bytes, credential: ScramCredential
    ) -> Authenticated | AuthenticationRefused:
        final = _CLIENT_FINAL.fullmatch(token)
        if final is None:
            return AuthenticationRefused("the final message is not a SCRAM message")
        if final["nonce"] != self._nonce:
            return AuthenticationRefused(
                "the final message has another nonce, as that of librdkafka before 2.6.1: Kafka 4 refuses it, too"
            )
        exchanged = b",".join((self._client_first, self._server_first, final["bare"]))
        signature = hmac(credential.stored_key, exchanged, self._hash)
        proof = b64decode(final["proof"])
        if len(proof) != len(signature):
            return AuthenticationRefused("the proof has another length than the hashes of this mechanism")
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=True))
        if not compare_digest(new_hash(self._hash, client_key).digest(), credential.stored_key):
            return AuthenticationRefused("the password is wrong")
        signature = hmac(credential.server_key, exchanged, self._hash)
        return Authenticated(self._user, b"v=" + b64encode(signature))


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive the salted password, as a client does. Takes milliseconds by design."""
    return pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def create_credential(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Create the stored credential from a salted password."""
    name = HASHES[mechanism]
    stored_key = new_hash(name, hmac(salted, b"Client Key", name)).digest()
    return ScramCredential(salt, stored_key, hmac(salted, b"Server Key", name), iterations)
