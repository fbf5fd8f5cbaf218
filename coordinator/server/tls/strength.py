"""Certificates that OpenSSL takes at its lowest security level alone, and Java without a word.

Sources: OpenSSL's `SSL_CTX_set_security_level`; `jdk.certpath.disabledAlgorithms` of a JDK, whose SHA-1 is that of
public authorities.
"""

import ssl
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, rsa
from cryptography.hazmat.primitives.hashes import SHA1

from coordinator.config.cipher_suites import TLS_1_3

_LEAST_BITS: Final = 2048


def weakness(certificate: x509.Certificate) -> str | None:
    """Why OpenSSL would not take a certificate as it is set up, in words that follow its subject; None where it
    would. The signature of one that signs itself says nothing, and is not looked at."""
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey | dsa.DSAPublicKey) and key.key_size < _LEAST_BITS:
        return f"has a key of {key.key_size} bits"
    if certificate.issuer != certificate.subject and isinstance(certificate.signature_hash_algorithm, SHA1):
        return "is signed with SHA-1"
    return None


def take_weak_certificates(context: ssl.SSLContext) -> None:
    """Makes a context take them, its own and those of clients. Its cipher suites stay."""
    suites = [each["name"] for each in context.get_ciphers() if each["name"] not in TLS_1_3]
    context.set_ciphers(":".join([*suites, "@SECLEVEL=0"]))
