"""SaslHandshake (17): a client names the SASL mechanism that it wants to use.

Source: KIP-43, KIP-152. After v0 tokens follow as they are, each with its size; after v1 in SaslAuthenticate.
"""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, String, request, response


@request(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeRequest:
    """v1 the tokens come in SaslAuthenticate"""

    mechanism: String


@response(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeResponse:
    """The enabled mechanisms, and an error if the requested one is not among them."""

    error_code: Int16
    mechanisms: Array[String]
