"""SASL login of a client by PLAIN or SCRAM, for commands and for connections between brokers. It performs no
I/O: the caller sends each request and passes on each response.

An exchange is a generator: it yields the tokens of the client, receives those of the server, and returns at
the end. It raises ValueError when the server's SCRAM signature is invalid: it may not know the user's credential.
Source: Kafka's `SaslClientAuthenticator`, `PlainSaslServer`, `ScramSaslClient`; RFC 4616, RFC 5802, RFC 7677.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Generator
from dataclasses import dataclass, field
from hashlib import new as new_hash
from hmac import compare_digest
from hmac import digest as hmac
from typing import Final

from coordinator.security.core.sasl_mechanisms import HASHES, ScramMechanism, salted_password
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

LOGIN_MECHANISMS: Final = ("PLAIN", *(each.mechanism_name for each in ScramMechanism))
"""The mechanisms that this client supports."""
NONCE_BYTES: Final = 24
"""The number of random bytes of a nonce."""
_MAX_LISTED_MECHANISMS: Final = 10

_SERVER_FIRST: Final = re.compile(rb"r=([^,]+),s=([a-zA-Z0-9/+=]+),i=([0-9]{1,7})(?:,.*)?")
_GS2_HEADER: Final = b"n,,"

SaslClientExchange = Generator[bytes, bytes, None]


@dataclass(frozen=True, slots=True)
class Login:
    """The mechanism and the credentials of a login."""

    mechanism: str
    user: str
    password: str | None = field(repr=False)
    """None: the command prompts for the password."""


class LoginRefused(Exception):
    """The broker rejected the login. The text may quote the broker and contains no secret."""

    def __init__(self, error_code: int, text: str) -> None:
        super().__init__(text)
        self.error_code = error_code


class SaslLogin:
    """One login as a sequence of requests and responses."""

    def __init__(self, login: Login, nonce: str) -> None:
        """`nonce` is unpredictable printable ASCII without commas."""
        self._login = login
        self._exchange = _create_exchange(login, nonce)
        self.session_lifetime_ms = 0
        """The lifetime of the session in milliseconds after the login; 0: unlimited."""

    @property
    def first_request(self) -> SaslHandshakeRequest:
        """Return the first request."""
        return SaslHandshakeRequest(mechanism=self._login.mechanism)

    def next_request(
        self, answer: SaslHandshakeResponse | SaslAuthenticateResponse
    ) -> SaslAuthenticateRequest | None:
        """Return the next request, or None if the login is complete. SCRAM takes milliseconds.

        Raises:
            LoginRefused: the broker rejected the login.
            ValueError: the broker did not prove that it knows the credential.
        """
        if isinstance(answer, SaslHandshakeResponse):
            self._check_mechanism(answer)
            return SaslAuthenticateRequest(auth_bytes=next(self._exchange))
        if answer.error_code != ErrorCode.NONE:
            message = answer.error_message or "no login"
            raise LoginRefused(
                answer.error_code, f"{message} (the user {self._login.user}, by {self._login.mechanism})"
            )
        try:
            token = self._exchange.send(answer.auth_bytes)
        except StopIteration:
            self.session_lifetime_ms = answer.session_lifetime_ms
            return None
        return SaslAuthenticateRequest(auth_bytes=token)

    def _check_mechanism(self, answer: SaslHandshakeResponse) -> None:
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise LoginRefused(answer.error_code, "that listener does not use SASL")
        if answer.error_code != ErrorCode.NONE:
            names = ", ".join(answer.mechanisms[:_MAX_LISTED_MECHANISMS])
            raise LoginRefused(
                answer.error_code, f"it does not enable {self._login.mechanism}. Use one of {names}"
            )


def _create_exchange(login: Login, nonce: str) -> SaslClientExchange:
    password = login.password or ""
    if login.mechanism == "PLAIN":
        return plain_exchange(login.user, password)
    return scram_exchange(ScramMechanism[login.mechanism.replace("-", "_")], login.user, password, nonce)


def plain_exchange(user: str, password: str) -> SaslClientExchange:
    """Yield the only token of PLAIN."""
    yield f"\0{user}\0{password}".encode()


def scram_exchange(mechanism: ScramMechanism, user: str, password: str, nonce: str) -> SaslClientExchange:
    """Run the client's side of SCRAM. `nonce` is unpredictable printable ASCII without commas."""
    hash_name = HASHES[mechanism]
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}".encode()
    server_first = yield _GS2_HEADER + first
    match = _SERVER_FIRST.fullmatch(server_first)
    if match is None or not match[1].startswith(nonce.encode()):
        raise ValueError("the server's first message is not a SCRAM message")
    salted = salted_password(mechanism, password, b64decode(match[2]), int(match[3]))
    final = b"c=%b,r=%b" % (b64encode(_GS2_HEADER), match[1])
    exchanged = b",".join((first, server_first, final))
    client_key = hmac(salted, b"Client Key", hash_name)
    signature = hmac(new_hash(hash_name, client_key).digest(), exchanged, hash_name)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    server_final = yield b"%b,p=%b" % (final, b64encode(proof))
    signature = hmac(hmac(salted, b"Server Key", hash_name), exchanged, hash_name)
    if not compare_digest(server_final, b"v=" + b64encode(signature)):
        raise ValueError("the server's SCRAM signature is invalid: it may not know the user")
