"""PEM as Kafka takes it: also in one line, with blanks where lines would end, as properties are written.

Source: Kafka's `DefaultSslEngineFactory.PemParser`, KIP-651; RFC 7468.
"""

import re
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coordinator.server.tls.store_error import StoreError

_BLOCK: Final = re.compile(rb"-+BEGIN ([A-Z0-9 ]+?)-+(.*?)-+END \1-+", re.DOTALL)
_HEADER: Final = b":"
_LINE: Final = 64


def read_certificates(data: bytes, name: str) -> list[x509.Certificate]:
    """All of them, in their order. In: the property, with the file where there is one. Raises StoreError."""
    try:
        found = [
            x509.load_pem_x509_certificate(block)
            for label, block in _blocks(data)
            if label.endswith(b"CERTIFICATE")
        ]
    except ValueError as error:
        raise StoreError(f"{name}: a certificate cannot be read: {error}") from None
    if not found:
        raise StoreError(f"{name}: there is no certificate (-----BEGIN CERTIFICATE-----)")
    return found


def read_key(data: bytes, password: str, name: str) -> PrivateKeyTypes:
    """The private key. In: as above; "" for a key without a password. Raises StoreError."""
    block = next((block for label, block in _blocks(data) if label.endswith(b"PRIVATE KEY")), None)
    if block is None:
        raise StoreError(f"{name}: there is no key (-----BEGIN PRIVATE KEY-----)")
    is_encrypted = b"ENCRYPTED" in block
    if is_encrypted and not password:
        raise StoreError(f"{name}: the key is encrypted, and ssl.key.password is not set")
    if password and not is_encrypted:
        raise StoreError(f"ssl.key.password: the key is not encrypted ({name})")
    try:
        return load_pem_private_key(block, password.encode() or None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # What the library says may be about bytes of the key.
        why = "ssl.key.password is wrong, or the key is damaged" if is_encrypted else "the key cannot be read"
        raise StoreError(f"{name}: {why}") from None


def _blocks(data: bytes) -> list[tuple[bytes, bytes]]:
    """The label of each block, and the block in lines."""
    found: list[tuple[bytes, bytes]] = []
    for match in _BLOCK.finditer(data):
        label, body = match.groups()
        if _HEADER not in body:  # headers, of OpenSSL's older form, have lines of their own
            text = b"".join(body.split())
            body = b"\n%b\n" % b"\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))
        found.append((label, b"-----BEGIN %b-----%b-----END %b-----\n" % (label, body, label)))
    return found
