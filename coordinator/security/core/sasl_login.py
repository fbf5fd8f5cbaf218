"""Logging in at a broker by SASL: what a client asks before anything else, and what it makes of the answers.

Source: Kafka's `SaslClientAuthenticator`.
"""

from dataclasses import dataclass, field
from typing import Final

from coordinator.security.credential import ScramMechanism
from coordinator.security.sasl_client import Exchange, plain_exchange, scram_exchange
from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

LOGIN_MECHANISMS: Final = ("PLAIN", *(each.mechanism_name for each in ScramMechanism))
"""Those by which one can log in from here."""
NONCE_BYTES: Final = 24
"""How many random bytes make a nonce."""
_MOST_NAMES: Final = 10


@dataclass(frozen=True, slots=True)
class Login:
    """Who logs in by SASL, and how."""

    mechanism: str
    user: str
    password: str | None = field(repr=False)
    """None: whoever types the command is asked."""


class LoginRefused(Exception):
    """The broker said no. The text may have words of the broker in it, and has no secret."""

    def __init__(self, error_code: int, text: str) -> None:
        super().__init__(text)
        self.error_code = error_code


class SaslLogin:
    """One login: a question, its answer, the next question."""

    def __init__(self, login: Login, nonce: str) -> None:
        """In: printable ASCII without commas, which nobody can foresee."""
        self._login = login
        self._exchange = _exchange(login, nonce)
        self.session_lifetime_ms = 0
        """For how long it is good, once it is done; 0: as long as the connection."""

    @property
    def first(self) -> SaslHandshakeRequest:
        """What is asked first."""
        return SaslHandshakeRequest(mechanism=self._login.mechanism)

    def next(
        self, answer: SaslHandshakeResponse | SaslAuthenticateResponse
    ) -> SaslAuthenticateRequest | None:
        """What is asked next; None: the login is done. For SCRAM that takes milliseconds. Raises LoginRefused, and
        ValueError for a broker that does not know the user either."""
        if isinstance(answer, SaslHandshakeResponse):
            self._check_mechanism(answer)
            return SaslAuthenticateRequest(auth_bytes=next(self._exchange))
        if answer.error_code != ErrorCode.NONE:
            said = answer.error_message or "no login"
            raise LoginRefused(
                answer.error_code, f"{said} (the user {self._login.user}, by {self._login.mechanism})"
            )
        try:
            token = self._exchange.send(answer.auth_bytes)
        except StopIteration:
            self.session_lifetime_ms = answer.session_lifetime_ms
            return None
        return SaslAuthenticateRequest(auth_bytes=token)

    def _check_mechanism(self, answer: SaslHandshakeResponse) -> None:
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise LoginRefused(answer.error_code, "that listener has no SASL")
        if answer.error_code != ErrorCode.NONE:
            names = ", ".join(answer.mechanisms[:_MOST_NAMES])
            raise LoginRefused(answer.error_code, f"it has no {self._login.mechanism}, but {names}")


def _exchange(login: Login, nonce: str) -> Exchange:
    password = login.password or ""
    if login.mechanism == "PLAIN":
        return plain_exchange(login.user, password)
    return scram_exchange(ScramMechanism[login.mechanism.replace("-", "_")], login.user, password, nonce)
