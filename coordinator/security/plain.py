"""PLAIN: the client sends its name and its password.

    token:   [authorization id] NUL user NUL password

A user that does not exist is refused with the same words as a wrong password, and after the same time.

Source: RFC 4616; Kafka's `PlainSaslServer` and `PlainServerCallbackHandler`, for the order of errors and their
texts.
"""

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from coordinator.security.sasl_server import Authenticated, Refused

MECHANISM: Final = "PLAIN"
_PARTS: Final = 3
_NOBODY: Final = ""
"""In place of the password of a user that does not exist."""


class PlainServer:
    """See the top of this file."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        """In: the passwords by user."""
        self._passwords = passwords

    def step(self, token: bytes) -> Authenticated | Refused:
        """Judges the only token there is."""
        parts = token.decode(errors="replace").split("\0", _PARTS)
        if len(parts) != _PARTS:
            return _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            return _refused("Authentication failed: username not specified")
        if not password:
            return _refused("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        is_right = compare_digest(_digest(password), _digest(_NOBODY if expected is None else expected))
        if expected is None or not is_right:
            reason = "there is no such user" if expected is None else "the password is wrong"
            return Refused(reason, "Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            return _refused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return Authenticated(user)


def _digest(password: str) -> bytes:
    """Of one length, so that comparing tells nothing about that of the password."""
    return sha256(password.encode(errors="surrogatepass")).digest()


def _refused(message: str) -> Refused:
    return Refused(message, message)
