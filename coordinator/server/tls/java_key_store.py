"""Java's own key stores, of type JKS, as keytool wrote them before Java 9. The package purejks reads them.

Source: Java's `sun.security.provider.JavaKeyStore`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_private_key

from coordinator.server.tls.store_error import StoreError

if TYPE_CHECKING:
    import jks

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"


@dataclass(frozen=True, slots=True)
class JavaKey:
    """The first key of a store, decrypted, and its certificates, its own first."""

    key: PrivateKeyTypes
    chain: Sequence[x509.Certificate]


def read_java_key(data: bytes, password: str, key_password: str, path: str) -> JavaKey:
    """Return the first key of a store. `key_password` is "" where it is that of the store. Raises StoreError."""
    store, name = _load(data, password, "ssl.keystore", path), f"ssl.keystore.location: {path}"
    entry = next(iter(store.private_keys.values()), None)
    if entry is None:
        raise StoreError(f"{name}: it has no key, only certificates")
    import jks  # it is there: the store was read

    try:
        entry.decrypt(key_password or password)
        key = load_der_private_key(entry.pkey_pkcs8, None)
    except jks.DecryptionFailureException:
        raise StoreError(f"ssl.key.password: it is wrong for the key in {path}") from None
    except (jks.KeystoreException, ValueError, TypeError, UnsupportedAlgorithm):
        # The message of the library may show bytes of the key.
        raise StoreError(f"{name}: the key cannot be read") from None
    return JavaKey(key, [_certificate(each, name) for _, each in entry.cert_chain])


def read_java_certificates(data: bytes, password: str, path: str) -> list[x509.Certificate]:
    """Return the certificates that a store trusts; like Java, also the own one of each key. An empty password skips
    the check of integrity. Raises StoreError."""
    store, name = _load(data, password, "ssl.truststore", path), f"ssl.truststore.location: {path}"
    found = [entry.cert for entry in store.certs.values()]
    found += [entry.cert_chain[0][1] for entry in store.private_keys.values() if entry.cert_chain]
    return [_certificate(each, name) for each in found]


def _load(data: bytes, password: str, store: str, path: str) -> "jks.KeyStore":
    try:
        import jks
    except ImportError as error:
        raise StoreError(
            f"{store}.location: {path} has the format JKS, and {error.name} is missing: "
            f"pip install 'groupd[jks]', or convert it: {convert_command(path, 'JKS')}"
        ) from None
    try:
        return jks.KeyStore.loads(data, password or None, try_decrypt_keys=False)
    except jks.KeystoreSignatureException:
        raise StoreError(
            f"{store}.location: {path}: {store}.password is wrong, or the file is damaged"
        ) from None
    except jks.KeystoreException:
        raise StoreError(f"{store}.location: {path}: the file is damaged") from None


def _certificate(data: bytes, name: str) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(data)
    except ValueError as error:
        raise StoreError(f"{name}: a certificate cannot be read: {error}") from None


def convert_command(path: str, form: str) -> str:
    """Return the command that makes a PKCS12 of a store that has the format JKS or JCEKS."""
    made = quote(f"{path.removesuffix(f'.{form.lower()}')}.p12")
    return (
        f"keytool -importkeystore -srckeystore {quote(path)} -srcstoretype {form} "
        f"-destkeystore {made} -deststoretype PKCS12"
    )
