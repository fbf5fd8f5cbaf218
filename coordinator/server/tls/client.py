"""TLS as a client has it: the broker's certificate is checked, and one of its own is shown if there is one."""

import ssl
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from coordinator.config.listener_settings import TlsSettings
from coordinator.server.tls.context import limit, load_key
from coordinator.server.tls.stores import KeyStore, read_key_store, read_truststore
from coordinator.server.tls.strength import take_weak_certificates, weakness
from storage.files import Files


def read_client_context(settings: TlsSettings, files: Files) -> ssl.SSLContext:
    """What a client of these settings shakes hands with; it need not have a key store. Raises StoreError."""
    has_key = settings.ssl_keystore_location or settings.ssl_keystore_key
    store = read_key_store(settings, files) if has_key else None
    return client_context(settings, store, read_truststore(settings, files))


def client_context(
    settings: TlsSettings, store: KeyStore | None, trusted: Sequence[x509.Certificate]
) -> ssl.SSLContext:
    """The same with stores that are read. Without a truststore it trusts as the system does. Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.ssl_endpoint_identification_algorithm)
    limit(context, settings)
    if any(weakness(each) for each in (*(() if store is None else store.chain), *trusted)):
        take_weak_certificates(context)
    if trusted:
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
        # As for Java, whatever is in a truststore is trusted, however far from a root it is.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context.load_default_certs()
    if store is not None:
        load_key(context, store)
    return context
