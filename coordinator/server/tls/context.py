"""The `SSLContext` of a listener, from its stores, its versions and its cipher suites."""

import secrets
import ssl
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from coordinator.config.cipher_suites import OPENSSL_NAMES, TLS_1_3
from coordinator.config.listener_settings import TlsSettings
from coordinator.net.handshakes import ListenerContext
from coordinator.server.tls.store_error import StoreError
from coordinator.server.tls.stores import KeyStore
from coordinator.server.tls.strength import take_weak_certificates, weakness
from storage.files import private_file

_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def make_context(
    settings: TlsSettings, store: KeyStore, trusted: Sequence[x509.Certificate]
) -> ssl.SSLContext:
    """What a listener shakes hands with. Raises StoreError. Writes a file that is gone when this returns, and that
    nobody can read meanwhile: OpenSSL takes a key from files alone."""
    context = ListenerContext(ssl.PROTOCOL_TLS_SERVER)
    # A renegotiation is work that a client orders for nothing.
    context.options |= ssl.OP_NO_RENEGOTIATION
    limit(context, settings)
    if any(weakness(each) for each in (*store.chain, *trusted)):
        take_weak_certificates(context)
    load_key(context, store)
    if trusted and settings.ssl_client_auth != "none":
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
    # For Java whatever is in a truststore may sign, or be shown itself, however far from a root it is.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = _VERIFY[settings.ssl_client_auth]
    return context


def untold_suites(settings: TlsSettings) -> list[str]:
    """The cipher suites of TLS 1.3 that are served although they are not in the property: Python's `ssl` has them
    all or none."""
    named = TLS_1_3 & set(settings.ssl_cipher_suites)
    if not named or "TLSv1.3" not in settings.ssl_enabled_protocols:
        return []
    return sorted(TLS_1_3 - named)


def limit(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Gives a context its versions and cipher suites. Raises StoreError."""
    suites = settings.ssl_cipher_suites
    older = [OPENSSL_NAMES[each] for each in suites if each not in TLS_1_3]
    versions = set(settings.ssl_enabled_protocols)
    if suites and not TLS_1_3.intersection(suites):
        versions.discard("TLSv1.3")
    if suites and not older:
        versions.discard("TLSv1.2")
    numbers = [_VERSIONS[each] for each in sorted(versions)]
    context.minimum_version, context.maximum_version = numbers[0], numbers[-1]
    if older:
        try:
            context.set_ciphers(":".join(older))
        except ssl.SSLError:
            raise StoreError(
                f"ssl.cipher.suites: {ssl.OPENSSL_VERSION} has none of {', '.join(suites)}"
            ) from None


def load_key(context: ssl.SSLContext, store: KeyStore) -> None:
    """Gives a context its key and certificates. Raises StoreError."""
    password = secrets.token_bytes(32)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in store.chain)
    try:
        with private_file(key + chain) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        raise StoreError(f"{store.name}: OpenSSL does not take it: {error.reason or error}") from None
