"""SaslAuthenticate (36): one token of a SASL mechanism, and the response to it (KIP-152)."""

from protocol.apis import ApiKey
from protocol.schema import Bytes, Int16, Int64, NullableString, request, response, since


@request(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateRequest:
    """v1 the client knows that sessions end (KIP-368), v2 flexible"""

    auth_bytes: Bytes


@response(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateResponse:
    """v1 for how long the session lasts; 0 where it does not end, and in all answers but the last one."""

    error_code: Int16
    error_message: NullableString
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = since("1+", default=0)
