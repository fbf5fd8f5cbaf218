"""Reads key stores and truststores: PEM in files or as properties, PKCS12, and JKS (through the package
purejks).

As in Java the content decides between the binary forms: the type `JKS` also reads PKCS12, which keytool
writes by default. JCEKS is refused with the command that converts it to PKCS12. PEM may also be on one line
with blanks in place of line ends, as properties contain it. Error texts name the property and the remedy, in
one line and without secrets.
Source: Kafka's `DefaultSslEngineFactory` and its `PemParser`, KIP-651; RFC 7468; Java's `KeyStore` and
`sun.security.provider.JavaKeyStore`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import PublicKeyAlgorithmOID

from coordinator.config.listener_settings import TlsSettings
from storage.files import Files
from storage.optional_dependencies import OptionalDependencyError, require_extra
from storage.storage_errors import format_error_reason

if TYPE_CHECKING:
    import jks

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_PEM: Final = "PEM"
_PEM_MARKER: Final = b"-----BEGIN "
_DER_SEQUENCE: Final = b"\x30"
_BLOCK: Final = re.compile(rb"-+BEGIN ([A-Z0-9 ]+?)-+(.*?)-+END \1-+", re.DOTALL)
_HEADER_SIGN: Final = b":"
_LINE_LENGTH: Final = 64


class KeyStoreError(Exception):
    """The store is unusable. The text names the property and the remedy in one line, without secrets."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The private key of a server and its certificate chain."""

    key: PrivateKeyTypes
    chain: Sequence[x509.Certificate]
    """The server's certificate comes first."""
    name: str
    """The property and, if any, the file that the key comes from."""


def read_key_store(settings: TlsSettings, files: Files) -> KeyStore:
    """Load the key store of a listener.

    Raises:
        KeyStoreError: the key store is unusable.
    """
    if settings.ssl_keystore_key:
        return _parse_pem_key_store(
            settings,
            settings.ssl_keystore_key.encode(),
            settings.ssl_keystore_certificate_chain.encode(),
            ("ssl.keystore.key", "ssl.keystore.certificate.chain"),
        )
    path = settings.ssl_keystore_location
    data = _read_store(files, "ssl.keystore", path, settings.ssl_keystore_type)
    name = f"ssl.keystore.location: {path}"
    if settings.ssl_keystore_type == _PEM:
        return _parse_pem_key_store(settings, data, data, (name, name))
    if data.startswith(JKS_MAGIC):
        java = parse_java_key(data, settings.ssl_keystore_password, settings.ssl_key_password, path)
        return check_key_store(KeyStore(java.key, java.chain, name))
    store = _load_pkcs12(data, settings.ssl_keystore_password, "ssl.keystore", path)
    if store.key is None or store.cert is None:
        raise KeyStoreError(f"{name}: it has no key, only certificates")
    if settings.ssl_key_password not in ("", settings.ssl_keystore_password):
        raise KeyStoreError(f"ssl.key.password: must equal ssl.keystore.password for PKCS12 ({path})")
    others = [each.certificate for each in store.additional_certs]
    return check_key_store(KeyStore(store.key, _order_chain(store.cert.certificate, others), name))


def read_truststore(settings: TlsSettings, files: Files) -> Sequence[x509.Certificate]:
    """Load the certificates of trusted issuers; empty without a truststore.

    Raises:
        KeyStoreError: the truststore is unusable.
    """
    if settings.ssl_truststore_certificates:
        return parse_pem_certificates(
            settings.ssl_truststore_certificates.encode(), "ssl.truststore.certificates"
        )
    path = settings.ssl_truststore_location
    if not path:
        return []
    data = _read_store(files, "ssl.truststore", path, settings.ssl_truststore_type)
    name = f"ssl.truststore.location: {path}"
    if settings.ssl_truststore_type == _PEM:
        return parse_pem_certificates(data, name)
    if data.startswith(JKS_MAGIC):
        found = parse_java_certificates(data, settings.ssl_truststore_password, path)
    else:
        store = _load_pkcs12(data, settings.ssl_truststore_password, "ssl.truststore", path)
        found = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    if not found:
        raise KeyStoreError(f"{name}: it has no certificates")
    return found


def check_key_store(store: KeyStore) -> KeyStore:
    """Check that the first certificate matches the key and can be presented. Return the key store.

    Raises:
        KeyStoreError: the certificate is unusable.
    """
    if store.chain[0].public_key_algorithm_oid == PublicKeyAlgorithmOID.RSASSA_PSS:
        # The key was parsed as RSA, which it is, and OpenSSL requires the same type in the certificate.
        raise KeyStoreError(
            f"{store.name}: keys for RSASSA-PSS only are not supported: use RSA, EC or Ed25519"
        )
    own = _encode_public_key(store.key.public_key())
    try:
        keys = [_encode_public_key(each.public_key()) for each in store.chain]
    except (ValueError, UnsupportedAlgorithm):
        raise KeyStoreError(f"{store.name}: a certificate has an unsupported type of key") from None
    if keys[0] == own:
        return store
    if own in keys:
        raise KeyStoreError(f"{store.name}: the certificate of the key must be the first one")
    raise KeyStoreError(f"{store.name}: the certificate does not belong to the key")


def _encode_public_key(key: object) -> bytes:
    assert hasattr(key, "public_bytes")
    encoded: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _order_chain(own: x509.Certificate, others: Sequence[x509.Certificate]) -> list[x509.Certificate]:
    """Order the chain from the own certificate up. A PKCS12 file may have any order."""
    chain, left = [own], list(others)
    while chain[-1].issuer != chain[-1].subject:
        above = next((each for each in left if each.subject == chain[-1].issuer), None)
        if above is None:
            break
        left.remove(above)
        chain.append(above)
    return chain


def _read_store(files: Files, store: str, path: str, type_: str) -> bytes:
    """Read the bytes of a store that may have this type."""
    try:
        data = files.read(path)
    except OSError as error:
        raise KeyStoreError(f"{store}.location: {path}: {format_error_reason(error, path)}") from None
    if data.startswith(_JCEKS_MAGIC):
        raise KeyStoreError(
            f"{store}.location: {path} has the format JCEKS, which is not supported. Convert it to PKCS12: "
            f"{format_convert_command(path, 'JCEKS')}"
        )
    if type_ != _PEM and _PEM_MARKER in data and not data.startswith(_DER_SEQUENCE):
        raise KeyStoreError(f"{store}.type={type_}: {path} is PEM")
    return data


def _load_pkcs12(data: bytes, password: str, store: str, path: str) -> pkcs12.PKCS12KeyAndCertificates:
    name = f"{store}.location: {path}"
    if not data.startswith(_DER_SEQUENCE):
        raise KeyStoreError(f"{name}: it is neither PKCS12 nor JKS")
    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except (ValueError, UnsupportedAlgorithm):
        if not password:
            raise KeyStoreError(f"{name}: it has a password, but {store}.password is not set") from None
        raise KeyStoreError(f"{name}: {store}.password is wrong, or the file is damaged") from None


def _parse_pem_key_store(settings: TlsSettings, key: bytes, chain: bytes, names: tuple[str, str]) -> KeyStore:
    private_key = parse_pem_key(key, settings.ssl_key_password, names[0])
    return check_key_store(KeyStore(private_key, parse_pem_certificates(chain, names[1]), names[1]))


def parse_pem_certificates(data: bytes, name: str) -> list[x509.Certificate]:
    """Parse all certificates in order. `name` is the property, with the file if there is one.

    Raises:
        KeyStoreError: a certificate is malformed.
    """
    try:
        found = [
            x509.load_pem_x509_certificate(block)
            for label, block in _parse_blocks(data)
            if label.endswith(b"CERTIFICATE")
        ]
    except ValueError as error:
        raise KeyStoreError(f"{name}: a certificate cannot be read: {error}") from None
    if not found:
        raise KeyStoreError(f"{name}: the certificate is missing (-----BEGIN CERTIFICATE-----)")
    return found


def parse_pem_key(data: bytes, password: str, name: str) -> PrivateKeyTypes:
    """Parse the private key. `name` is the property, with the file if there is one; `password` is "" for an
    unencrypted key.

    Raises:
        KeyStoreError: the key is malformed or the password is wrong.
    """
    block = next((block for label, block in _parse_blocks(data) if label.endswith(b"PRIVATE KEY")), None)
    if block is None:
        raise KeyStoreError(f"{name}: the key is missing (-----BEGIN PRIVATE KEY-----)")
    is_encrypted = b"ENCRYPTED" in block
    if is_encrypted and not password:
        raise KeyStoreError(f"{name}: the key is encrypted, but ssl.key.password is not set")
    if password and not is_encrypted:
        raise KeyStoreError(f"ssl.key.password: the key is not encrypted ({name})")
    try:
        return load_pem_private_key(block, password.encode() or None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's message may contain bytes of the key.
        why = "ssl.key.password is wrong, or the key is damaged" if is_encrypted else "the key cannot be read"
        raise KeyStoreError(f"{name}: {why}") from None


def _parse_blocks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the label and the text of each PEM block. A block on a single line gets line ends."""
    found: list[tuple[bytes, bytes]] = []
    for match in _BLOCK.finditer(data):
        label, body = match.groups()
        if _HEADER_SIGN not in body:  # headers of OpenSSL's legacy format are on separate lines
            text = b"".join(body.split())
            body = b"\n%b\n" % b"\n".join(
                text[at : at + _LINE_LENGTH] for at in range(0, len(text), _LINE_LENGTH)
            )
        found.append((label, b"-----BEGIN %b-----%b-----END %b-----\n" % (label, body, label)))
    return found


@dataclass(frozen=True, slots=True)
class JavaKey:
    """The first key of a store, decrypted, and its certificate chain, the own one first."""

    key: PrivateKeyTypes
    chain: Sequence[x509.Certificate]


def parse_java_key(data: bytes, password: str, key_password: str, path: str) -> JavaKey:
    """Return the first key of a store. `key_password` is "" if it equals the store's.

    Raises:
        KeyStoreError: the store is unusable.
    """
    store, name = _load_java_store(data, password, "ssl.keystore", path), f"ssl.keystore.location: {path}"
    entry = next(iter(store.private_keys.values()), None)
    if entry is None:
        raise KeyStoreError(f"{name}: it has no key, only certificates")
    import jks  # installed, since the store was read

    try:
        entry.decrypt(key_password or password)
        key = load_der_private_key(entry.pkey_pkcs8, None)
    except jks.DecryptionFailureException:
        raise KeyStoreError(f"ssl.key.password: is wrong for the key in {path}") from None
    except (jks.KeystoreException, ValueError, TypeError, UnsupportedAlgorithm):
        # The library's message may contain bytes of the key.
        raise KeyStoreError(f"{name}: the key cannot be read") from None
    return JavaKey(key, [_parse_der_certificate(each, name) for _, each in entry.cert_chain])


def parse_java_certificates(data: bytes, password: str, path: str) -> list[x509.Certificate]:
    """Return the trusted certificates of a store and, as in Java, the first certificate of each key. An empty
    password skips the integrity check.

    Raises:
        KeyStoreError: the store is unusable.
    """
    store, name = _load_java_store(data, password, "ssl.truststore", path), f"ssl.truststore.location: {path}"
    found = [entry.cert for entry in store.certs.values()]
    found += [entry.cert_chain[0][1] for entry in store.private_keys.values() if entry.cert_chain]
    return [_parse_der_certificate(each, name) for each in found]


def _load_java_store(data: bytes, password: str, store: str, path: str) -> "jks.KeyStore":
    try:
        with require_extra("jks", f"{store}.location: {path}: the format JKS"):
            import jks
    except OptionalDependencyError as error:
        raise KeyStoreError(f"{error}, or convert it: {format_convert_command(path, 'JKS')}") from None
    try:
        return jks.KeyStore.loads(data, password or None, try_decrypt_keys=False)
    except jks.KeystoreSignatureException:
        raise KeyStoreError(
            f"{store}.location: {path}: {store}.password is wrong, or the file is damaged"
        ) from None
    except jks.KeystoreException:
        raise KeyStoreError(f"{store}.location: {path}: the file is damaged") from None


def _parse_der_certificate(data: bytes, name: str) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(data)
    except ValueError as error:
        raise KeyStoreError(f"{name}: a certificate cannot be read: {error}") from None


def format_convert_command(path: str, form: str) -> str:
    """Return the command that converts a JKS or JCEKS store to PKCS12."""
    target = quote(f"{path.removesuffix(f'.{form.lower()}')}.p12")
    return (
        f"keytool -importkeystore -srckeystore {quote(path)} -srcstoretype {form} "
        f"-destkeystore {target} -deststoretype PKCS12"
    )
