"""The SASL login of a command at a broker, before its first request."""

import secrets
from collections.abc import Callable
from typing import Any, Final

from coordinator.cli.command_errors import BrokerError
from coordinator.security.core.sasl_login import NONCE_BYTES, Login, LoginRefused, SaslLogin
from protocol.error_codes import ErrorCode
from protocol.primitives import Malformed

_PROPERTY_HINTS: Final[dict[int, str]] = {
    ErrorCode.ILLEGAL_SASL_STATE: " (security.protocol)",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: " (sasl.mechanism)",
}
"""The client property to check, by error code."""


def log_in(login: Login, send_request: Callable[[Any], Any]) -> None:
    """Log in by SASL. `send_request` sends a request to the broker and returns its response.

    Raises BrokerError if the broker refuses the login, and Malformed if the broker does not prove that it knows the
    user.
    """
    talk = SaslLogin(login, secrets.token_urlsafe(NONCE_BYTES))
    question: Any = talk.first_request
    try:
        while question is not None:
            question = talk.next_request(send_request(question))
    except LoginRefused as refused:
        hint = _PROPERTY_HINTS.get(refused.error_code, "")
        raise BrokerError(refused.error_code, f"{refused}{hint}") from refused
    except ValueError as error:
        raise Malformed(str(error)) from error
