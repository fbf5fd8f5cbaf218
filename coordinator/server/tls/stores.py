"""What key stores and truststores hold: PEM, in files or as properties, PKCS12 and JKS.

As in Java, the content says which of the binary forms a file has: the type `JKS` also reads PKCS12, which keytool
writes by default. JCEKS is refused with the command that makes a PKCS12 of it.

Source: Kafka's `DefaultSslEngineFactory`; Java's `KeyStore`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, pkcs12
from cryptography.x509.oid import PublicKeyAlgorithmOID

from coordinator.config.listener_settings import TlsSettings
from coordinator.server.tls.java_key_store import (
    JKS_MAGIC,
    convert_command,
    read_java_certificates,
    read_java_key,
)
from coordinator.server.tls.pem import read_certificates, read_key
from coordinator.server.tls.store_error import StoreError
from storage.files import Files
from storage.os_error import reason_of

_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_PEM: Final = "PEM"
_PEM_SIGN: Final = b"-----BEGIN "
_DER_SEQUENCE: Final = b"\x30"


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The key of a server, and its certificate with those above it."""

    key: PrivateKeyTypes
    chain: Sequence[x509.Certificate]
    """The server's own first."""
    name: str
    """The property that it is from, and the file."""


def read_key_store(settings: TlsSettings, files: Files) -> KeyStore:
    """What a listener shows to its clients. Raises StoreError."""
    if settings.ssl_keystore_key:
        return _pem_key_store(
            settings,
            settings.ssl_keystore_key.encode(),
            settings.ssl_keystore_certificate_chain.encode(),
            ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        )
    path = settings.ssl_keystore_location
    data = _read(files, "ssl.keystore", path, settings.ssl_keystore_type)
    name = f"ssl.keystore.location: {path}"
    if settings.ssl_keystore_type == _PEM:
        return _pem_key_store(settings, data, data, (name, name))
    if data.startswith(JKS_MAGIC):
        java = read_java_key(data, settings.ssl_keystore_password, settings.ssl_key_password, path)
        return fitting(KeyStore(java.key, java.chain, name))
    store = _load_pkcs12(data, settings.ssl_keystore_password, "ssl.keystore", path)
    if store.key is None or store.cert is None:
        raise StoreError(f"{name}: it has no key, only certificates")
    if settings.ssl_key_password not in ("", settings.ssl_keystore_password):
        raise StoreError(
            f"ssl.key.password: is not ssl.keystore.password, and in PKCS12 both are the same ({path})"
        )
    others = [each.certificate for each in store.additional_certs]
    return fitting(KeyStore(store.key, _chain(store.cert.certificate, others), name))


def read_truststore(settings: TlsSettings, files: Files) -> Sequence[x509.Certificate]:
    """The certificates of those who may sign that of a client; none where nothing is set. Raises StoreError."""
    if settings.ssl_truststore_certificates:
        return read_certificates(settings.ssl_truststore_certificates.encode(), "ssl.truststore.certificates")
    path = settings.ssl_truststore_location
    if not path:
        return []
    data = _read(files, "ssl.truststore", path, settings.ssl_truststore_type)
    name = f"ssl.truststore.location: {path}"
    if settings.ssl_truststore_type == _PEM:
        return read_certificates(data, name)
    if data.startswith(JKS_MAGIC):
        found = read_java_certificates(data, settings.ssl_truststore_password, path)
    else:
        store = _load_pkcs12(data, settings.ssl_truststore_password, "ssl.truststore", path)
        found = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    if not found:
        raise StoreError(f"{name}: it has no certificates")
    return found


def _read(files: Files, store: str, path: str, type_: str) -> bytes:
    """The bytes of a store that may have this type."""
    try:
        data = files.read(path)
    except OSError as error:
        raise StoreError(f"{store}.location: {path}: {reason_of(error, path)}") from None
    if data.startswith(_JCEKS_MAGIC):
        raise StoreError(
            f"{store}.location: {path} is a JCEKS, which is not read here. This makes a PKCS12 of it: "
            f"{convert_command(path, 'JCEKS')}"
        )
    if type_ != _PEM and _PEM_SIGN in data and not data.startswith(_DER_SEQUENCE):
        raise StoreError(f"{store}.type={type_}: {path} is PEM")
    return data


def _load_pkcs12(data: bytes, password: str, store: str, path: str) -> pkcs12.PKCS12KeyAndCertificates:
    name = f"{store}.location: {path}"
    if not data.startswith(_DER_SEQUENCE):
        raise StoreError(f"{name}: it is neither PKCS12 nor JKS")
    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except (ValueError, UnsupportedAlgorithm):
        if not password:
            raise StoreError(f"{name}: it has a password, and {store}.password is not set") from None
        raise StoreError(f"{name}: {store}.password is wrong, or the file is damaged") from None


def _pem_key_store(settings: TlsSettings, key: bytes, chain: bytes, names: tuple[str, str]) -> KeyStore:
    read = read_key(key, settings.ssl_key_password, names[0])
    return fitting(KeyStore(read, read_certificates(chain, names[1]), names[1]))


def _chain(own: x509.Certificate, others: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """The certificates from the own one up: a PKCS12 has them in any order."""
    chain, left = [own], list(others)
    while chain[-1].issuer != chain[-1].subject:
        above = next((each for each in left if each.subject == chain[-1].issuer), None)
        if above is None:
            break
        left.remove(above)
        chain.append(above)
    return chain


def fitting(store: KeyStore) -> KeyStore:
    """The same. Raises StoreError where the first certificate is not that of the key, or cannot be shown."""
    if store.chain[0].public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        # The key was read as one of RSA, which it is, and OpenSSL wants both to say the same.
        raise StoreError(
            f"{store.name}: the key is for RSASSA-PSS alone, which is not served here; RSA, EC and Ed25519 are"
        )
    own = _public(store.key.public_key())
    try:
        keys = [_public(each.public_key()) for each in store.chain]
    except (ValueError, UnsupportedAlgorithm):
        raise StoreError(f"{store.name}: a certificate has a kind of key that is not known here") from None
    if keys[0] == own:
        return store
    if own in keys:
        raise StoreError(f"{store.name}: the certificate of the key has to be the first one")
    raise StoreError(f"{store.name}: the certificate is not that of the key")


def _public(key: object) -> bytes:
    assert hasattr(key, "public_bytes")
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded
