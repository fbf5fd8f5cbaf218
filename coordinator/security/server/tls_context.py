"""`SSLContext` objects for listeners, for clients, for connections between brokers and for the HTTP port
(`http.tls.certificate`, `http.tls.key`).

A certificate that only OpenSSL's lowest security level accepts is used as in Java, which accepts it silently:
an RSA or DSA key below 2048 bits, or a SHA-1 signature. The context then also accepts weak certificates of
clients. The inter-broker context is tested against the context of its own listener, since brokers show each
other their listener certificates.
Source: Kafka's `SslFactory`, `SslEngineValidator`; OpenSSL's `SSL_CTX_set_security_level`;
`jdk.certpath.disabledAlgorithms` of a JDK; its SHA-1 rule concerns public authorities.
"""

import secrets
import ssl
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, rsa
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from coordinator.config.cipher_suites import OPENSSL_NAMES, TLS_1_3
from coordinator.config.listener_settings import TlsSettings
from coordinator.core.message_text import StartFailed
from coordinator.network.tls_handshakes import AlertingServerContext
from coordinator.security.server.tls_stores import (
    KeyStore,
    KeyStoreError,
    check_key_store,
    parse_pem_certificates,
    parse_pem_key,
    read_key_store,
    read_truststore,
)
from storage.files import Files, create_private_file
from storage.storage_errors import format_error_reason

_MAX_TURNS: Final = 10

_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_MIN_KEY_BITS: Final = 2048


def create_listener_context(
    settings: TlsSettings, store: KeyStore, trusted: Sequence[x509.Certificate]
) -> ssl.SSLContext:
    """Create the TLS context of a listener.

    OpenSSL loads keys only from files, so the key is written to a temporary file. Other users cannot read the file,
    and it is deleted before the return.

    Raises:
        KeyStoreError: the key store is unusable.
    """
    context = AlertingServerContext(ssl.PROTOCOL_TLS_SERVER)
    # A client could cause load by renegotiations.
    context.options |= ssl.OP_NO_RENEGOTIATION
    limit_context(context, settings)
    if any(find_weakness(each) for each in (*store.chain, *trusted)):
        allow_weak_certificates(context)
    load_key_store(context, store)
    if trusted and settings.ssl_client_auth != "none":
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
    # As in Java every certificate in a truststore is a trust anchor, also without a root above it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = _VERIFY[settings.ssl_client_auth]
    return context


def find_unlisted_suites(settings: TlsSettings) -> list[str]:
    """Return the enabled TLS 1.3 cipher suites that the property does not list: Python's `ssl` enables all or none
    of them.
    """
    named = TLS_1_3 & set(settings.ssl_cipher_suites)
    if not named or "TLSv1.3" not in settings.ssl_enabled_protocols:
        return []
    return sorted(TLS_1_3 - named)


def read_client_context(settings: TlsSettings, files: Files) -> ssl.SSLContext:
    """Load the TLS context of a client. The key store is optional.

    Raises:
        KeyStoreError: a store is unusable.
    """
    has_key = settings.ssl_keystore_location or settings.ssl_keystore_key
    store = read_key_store(settings, files) if has_key else None
    return create_client_context(settings, store, read_truststore(settings, files))


def create_client_context(
    settings: TlsSettings, store: KeyStore | None, trusted: Sequence[x509.Certificate]
) -> ssl.SSLContext:
    """Create the TLS context of a client. Without a truststore it trusts the system's certificates.

    Raises:
        KeyStoreError: a store is unusable.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.ssl_endpoint_identification_algorithm)
    limit_context(context, settings)
    if any(find_weakness(each) for each in (*(() if store is None else store.chain), *trusted)):
        allow_weak_certificates(context)
    if trusted:
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
        # As in Java every certificate in a truststore is a trust anchor, also without a root above it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context.load_default_certs()
    if store is not None:
        load_key_store(context, store)
    return context


def create_inter_broker_context(
    settings: TlsSettings, store: KeyStore, trusted: Sequence[x509.Certificate], listener: ssl.SSLContext
) -> ssl.SSLContext:
    """Create the context for connections to other brokers. `settings`, `store` and `trusted` are the listener's,
    and `listener` is its context.

    Raises:
        KeyStoreError: a store is unusable, or a broker with the same truststore would reject the certificate.
    """
    context = create_client_context(settings, store, trusted)
    checks_host, context.check_hostname = context.check_hostname, False
    try:
        _check_handshake(context, listener)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or (error.reason or str(error)).lower().replace(
            "_", " "
        )
        raise KeyStoreError(
            f"{store.name}: brokers connect to each other by this listener, and the truststore rejects this "
            f"certificate: {reason}. Add its issuer to ssl.truststore.location"
        ) from None
    context.check_hostname = checks_host
    return context


def _check_handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Run a handshake in memory.

    Raises:
        SSLError: the handshake failed.
    """
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(_MAX_TURNS):
        sides = [side for side in sides if not _is_handshake_done(side)]
        if not sides:
            return
    raise ssl.SSLError("the handshake did not complete")


def _is_handshake_done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def create_http_context(certificate: str, key: str, files: Files) -> ssl.SSLContext:
    """Create the context of the HTTP port from two PEM files, which may be the same.

    Raises:
        StartFailed: a file is unusable.
    """
    name = f"http.tls.certificate: {certificate}"
    try:
        private_key = parse_pem_key(_read_file(files, "http.tls.key", key), "", f"http.tls.key: {key}")
        chain = parse_pem_certificates(_read_file(files, "http.tls.certificate", certificate), name)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        load_key_store(context, check_key_store(KeyStore(private_key, chain, name)))
    except KeyStoreError as error:
        raise StartFailed(str(error)) from error
    return context


def _read_file(files: Files, name: str, path: str) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise KeyStoreError(f"{name}: {path}: {format_error_reason(error, path)}") from None


def limit_context(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Set the TLS versions and cipher suites of a context.

    Raises:
        KeyStoreError: a value is not supported.
    """
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
            raise KeyStoreError(
                f"ssl.cipher.suites: {ssl.OPENSSL_VERSION} has none of {', '.join(suites)}"
            ) from None


def load_key_store(context: ssl.SSLContext, store: KeyStore) -> None:
    """Load the key and the certificate chain into a context.

    Raises:
        KeyStoreError: OpenSSL rejects them.
    """
    password = secrets.token_bytes(32)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in store.chain)
    try:
        with create_private_file(key + chain) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        raise KeyStoreError(f"{store.name}: OpenSSL rejects it: {error.reason or error}") from None


def find_weakness(certificate: x509.Certificate) -> str | None:
    """Return why OpenSSL's default security level rejects a certificate, as the end of a sentence about it; None if
    it accepts the certificate. The signature of a self-signed certificate is not checked.
    """
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey | dsa.DSAPublicKey) and key.key_size < _MIN_KEY_BITS:
        return f"has a key of {key.key_size} bits"
    if certificate.issuer != certificate.subject and isinstance(certificate.signature_hash_algorithm, SHA1):
        return "is signed with SHA-1"
    return None


def allow_weak_certificates(context: ssl.SSLContext) -> None:
    """Make a context accept weak certificates, its own and those of clients. Its cipher suites stay."""
    suites = [each["name"] for each in context.get_ciphers() if each["name"] not in TLS_1_3]
    context.set_ciphers(":".join([*suites, "@SECLEVEL=0"]))
