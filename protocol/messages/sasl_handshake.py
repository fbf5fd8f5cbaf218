"""SaslHandshake (17): select a SASL mechanism.

Source: KIP-43, KIP-152. After v0 the tokens follow without a request header, each with its size; after v1 they
come in SaslAuthenticate requests.
"""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, String, request, response


@request(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeRequest:
    """v1 the tokens come in SaslAuthenticate requests"""

    mechanism: String


@response(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeResponse:
    """The enabled mechanisms, and an error if the requested one is not among them."""

    error_code: Int16
    mechanisms: Array[String]
