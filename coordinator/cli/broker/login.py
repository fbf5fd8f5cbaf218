"""Logging in at a broker by SASL: what a command says before it may ask anything."""

import secrets
from collections.abc import Callable
from typing import Any, Final

from coordinator.cli.broker.client_properties import Login
from coordinator.cli.broker.refused import BrokerRefused
from coordinator.net.peer import printable
from coordinator.security.credential import ScramMechanism
from coordinator.security.sasl_client import Exchange, plain_exchange, scram_exchange
from protocol.errors import ErrorCode
from protocol.malformed import Malformed
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

_NONCE_BYTES: Final = 24


def log_in(login: Login, ask: Callable[[Any], Any]) -> None:
    """In: what asks the broker, and returns its answer. Raises BrokerRefused, and Malformed for a broker that does
    not know the user either."""
    there = ask(SaslHandshakeRequest(mechanism=login.mechanism))
    if there.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise BrokerRefused(there.error_code, "that listener has no SASL (security.protocol)")
    if there.error_code != ErrorCode.NONE:
        names = ", ".join(printable(each) for each in there.mechanisms[:10])
        raise BrokerRefused(there.error_code, f"it has no {login.mechanism} (sasl.mechanism), but {names}")
    exchange = _exchange(login)
    token: bytes | None = next(exchange)
    while token is not None:
        answer = ask(SaslAuthenticateRequest(auth_bytes=token))
        if answer.error_code != ErrorCode.NONE:
            who = f" (the user {printable(login.user)}, by {login.mechanism})"
            raise BrokerRefused(answer.error_code, (answer.error_message or "no login") + who)
        token = _next(exchange, answer.auth_bytes)


def _exchange(login: Login) -> Exchange:
    password = login.password or ""
    if login.mechanism == "PLAIN":
        return plain_exchange(login.user, password)
    mechanism = ScramMechanism[login.mechanism.replace("-", "_")]
    return scram_exchange(mechanism, login.user, password, secrets.token_urlsafe(_NONCE_BYTES))


def _next(exchange: Exchange, said: bytes) -> bytes | None:
    """The next token; None where the client has nothing more to say. Raises Malformed."""
    try:
        return exchange.send(said)
    except StopIteration:
        return None
    except ValueError as error:
        raise Malformed(str(error)) from error
