"""SaslHandshake and SaslAuthenticate where they come as requests among others: a client that is let in already has
nothing to show, unless it authenticates anew.

Source: Kafka's `KafkaApis.handleSaslHandshakeRequest` and `handleSaslAuthenticateRequest`.
"""

from typing import TYPE_CHECKING, Final

from coordinator.net.caller import Caller
from coordinator.net.secured_connection import SecuredConnection
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
    from protocol.messages.sasl_handshake import SaslHandshakeRequest

_TOO_LATE: Final = "SaslAuthenticate request received after successful authentication"


def handshake(request: "SaslHandshakeRequest", caller: Caller) -> object:
    """The beginning of a re-authentication where the connection allows one, else an error."""
    answer = caller.reauthenticate(request) if isinstance(caller, SecuredConnection) else None
    if answer is not None:
        return answer
    from protocol.messages.sasl_handshake import SaslHandshakeResponse

    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


def authenticate(request: "SaslAuthenticateRequest", caller: Caller) -> "SaslAuthenticateResponse":
    """Always an error: no token is due."""
    from protocol.messages.sasl_authenticate import SaslAuthenticateResponse

    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOO_LATE, auth_bytes=b""
    )
