"""Why a TLS handshake failed, in words for a person, and in one word for a count.

Source: the reasons of OpenSSL's `sslerr.h` and `x509_vfy.h`; RFC 8446, section 6.
"""

import ssl
from typing import Final, NamedTuple

KINDS: Final = (
    *("plaintext", "left", "no-certificate", "certificate", "principal", "version", "cipher", "not-trusted"),
    *("timeout", "other"),
)


class HandshakeFailure(NamedTuple):
    """One of the kinds above, for metrics, and a text."""

    kind: str
    reason: str


SAYS_NO_TLS: Final = HandshakeFailure(
    "plaintext", "it does not speak TLS: perhaps a client that is set to PLAINTEXT"
)
PUSHED_OUT: Final = HandshakeFailure("timeout", "it was not done when too many others had begun theirs")
LEFT: Final = HandshakeFailure("left", "it went away before the handshake was done")
_NO_CERTIFICATE: Final = HandshakeFailure(
    "no-certificate", "it has shown no certificate, and ssl.client.auth=required"
)
_NO_VERSION: Final = HandshakeFailure(
    "version", "it knows no version of TLS that is enabled (ssl.enabled.protocols)"
)
_NO_CIPHER: Final = HandshakeFailure(
    "cipher", "it has no cipher suite in common with this listener (ssl.cipher.suites)"
)
_NOT_TRUSTED: Final = HandshakeFailure(
    "not-trusted", "it does not trust the certificate of this listener (ssl.keystore)"
)
_BY_REASON: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": _NO_CERTIFICATE,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "VERSION_TOO_LOW": _NO_VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "INAPPROPRIATE_FALLBACK": _NO_VERSION,
    "NO_SHARED_CIPHER": _NO_CIPHER,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _NO_CIPHER,
    "TLSV1_ALERT_UNKNOWN_CA": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _NOT_TRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _NOT_TRUSTED,
    "HTTP_REQUEST": SAYS_NO_TLS,
    "WRONG_VERSION_NUMBER": SAYS_NO_TLS,
    "UNEXPECTED_EOF_WHILE_READING": LEFT,
}


def failure_of(error: OSError) -> HandshakeFailure:
    """Why a handshake failed with this error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return HandshakeFailure(
            "certificate", f"its certificate is not good for ssl.truststore: {error.verify_message}"
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "UNKNOWN"
        found = _BY_REASON.get(reason)
        return found or HandshakeFailure("other", reason.replace("_", " ").lower())
    return LEFT


def too_slow(timeout_s: float) -> HandshakeFailure:
    """Why one failed that took longer than this."""
    return HandshakeFailure("timeout", f"it took longer than {timeout_s:g} s (authentication.timeout.ms)")
