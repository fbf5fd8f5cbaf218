"""Logging in at a broker by SASL: what a command says before it may ask anything."""

import secrets
from collections.abc import Callable
from typing import Any, Final

from coordinator.cli.broker.refused import BrokerRefused
from coordinator.security.sasl_login import NONCE_BYTES, Login, LoginRefused, SaslLogin
from protocol.errors import ErrorCode
from protocol.malformed import Malformed

_SET_BY: Final[dict[int, str]] = {
    ErrorCode.ILLEGAL_SASL_STATE: " (security.protocol)",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: " (sasl.mechanism)",
}
"""What of a client's properties is wrong."""


def log_in(login: Login, ask: Callable[[Any], Any]) -> None:
    """In: what asks the broker, and returns its answer. Raises BrokerRefused, and Malformed for a broker that does
    not know the user either."""
    talk = SaslLogin(login, secrets.token_urlsafe(NONCE_BYTES))
    question: Any = talk.first
    try:
        while question is not None:
            question = talk.next(ask(question))
    except LoginRefused as refused:
        hint = _SET_BY.get(refused.error_code, "")
        raise BrokerRefused(refused.error_code, f"{refused}{hint}") from refused
    except ValueError as error:
        raise Malformed(str(error)) from error
