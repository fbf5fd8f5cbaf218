"""SaslAuthenticate (36): one token of a SASL mechanism, and the response to it (KIP-152)."""

from protocol.apis import ApiKey
from protocol.schema import Bytes, Int16, Int64, NullableString, request, response, since


@request(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateRequest:
    """v1 the client supports limited sessions (KIP-368), v2 flexible"""

    auth_bytes: Bytes


@response(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateResponse:
    """v1 the lifetime of the session in milliseconds. It is 0 for an unlimited session, and in all responses
    before the last one."""

    error_code: Int16
    error_message: NullableString
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = since("1+", default=0)
