"""`SSLContext` objects for listeners, for clients, for connections between brokers and for the HTTP port
(`http.tls.certificate`, `http.tls.key`).

A certificate that only OpenSSL's lowest security level accepts is used as in Java, which accepts it silently:
an RSA or DSA key below 2048 bits, or a SHA-1 signature. The context then also accepts weak certificates of
clients. The inter-broker context is tested against the context of its own listener, since brokers show each
other their listener certificates.
Source: Kafka's `SslFactory`, `SslEngineValidator`; OpenSSL's `SSL_CTX_set_security_level`;
`jdk.certpath.disabledAlgorithms` of a JDK, whose SHA-1 rule concerns public authorities.
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
    """What a listener shakes hands with. Raises KeyStoreError. Writes a file that is gone when this returns,
    and that nobody can read meanwhile: OpenSSL takes a key from files alone."""
    context = AlertingServerContext(ssl.PROTOCOL_TLS_SERVER)
    # A renegotiation is work that a client orders for nothing.
    context.options |= ssl.OP_NO_RENEGOTIATION
    limit_context(context, settings)
    if any(find_weakness(each) for each in (*store.chain, *trusted)):
        allow_weak_certificates(context)
    load_key_store(context, store)
    if trusted and settings.ssl_client_auth != "none":
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
    # For Java whatever is in a truststore may sign, or be shown itself, however far from a root it is.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = _VERIFY[settings.ssl_client_auth]
    return context


def find_unlisted_suites(settings: TlsSettings) -> list[str]:
    """The cipher suites of TLS 1.3 that are served although they are not in the property: Python's `ssl` has them
    all or none."""
    named = TLS_1_3 & set(settings.ssl_cipher_suites)
    if not named or "TLSv1.3" not in settings.ssl_enabled_protocols:
        return []
    return sorted(TLS_1_3 - named)


def read_client_context(settings: TlsSettings, files: Files) -> ssl.SSLContext:
    """What a client of these settings shakes hands with; it need not have a key store. Raises KeyStoreError."""
    has_key = settings.ssl_keystore_location or settings.ssl_keystore_key
    store = read_key_store(settings, files) if has_key else None
    return create_client_context(settings, store, read_truststore(settings, files))


def create_client_context(
    settings: TlsSettings, store: KeyStore | None, trusted: Sequence[x509.Certificate]
) -> ssl.SSLContext:
    """Create the TLS context of a client. Without a truststore it trusts as the system does. Raises
    KeyStoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.ssl_endpoint_identification_algorithm)
    limit_context(context, settings)
    if any(find_weakness(each) for each in (*(() if store is None else store.chain), *trusted)):
        allow_weak_certificates(context)
    if trusted:
        context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
        # As for Java, whatever is in a truststore is trusted, however far from a root it is.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context.load_default_certs()
    if store is not None:
        load_key_store(context, store)
    return context


def create_inter_broker_context(
    settings: TlsSettings, store: KeyStore, trusted: Sequence[x509.Certificate], listener: ssl.SSLContext
) -> ssl.SSLContext:
    """What this broker shakes hands with as a client of others. In: the stores of the listener, and its context.
    Raises KeyStoreError, also for a certificate that a broker with the same truststore would refuse."""
    context = create_client_context(settings, store, trusted)
    checks_host, context.check_hostname = context.check_hostname, False
    try:
        _check_handshake(context, listener)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or (error.reason or str(error)).lower().replace(
            "_", " "
        )
        raise KeyStoreError(
            f"{store.name}: brokers reach each other by this listener, and one with these stores would not be let "
            f"in by another with the same: {reason} (ssl.truststore.location)"
        ) from None
    context.check_hostname = checks_host
    return context


def _check_handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> None:
    """Raises SSLError where they do not come together."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(_MAX_TURNS):
        sides = [side for side in sides if not _is_handshake_done(side)]
        if not sides:
            return
    raise ssl.SSLError("the handshake does not end")


def _is_handshake_done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def create_http_context(certificate: str, key: str, files: Files) -> ssl.SSLContext:
    """In: the paths of two files in PEM, which may be the same. Raises StartFailed."""
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
    """Gives a context its versions and cipher suites. Raises KeyStoreError."""
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
    """Gives a context its key and certificates. Raises KeyStoreError."""
    password = secrets.token_bytes(32)
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in store.chain)
    try:
        with create_private_file(key + chain) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        raise KeyStoreError(f"{store.name}: OpenSSL does not take it: {error.reason or error}") from None


def find_weakness(certificate: x509.Certificate) -> str | None:
    """Why OpenSSL would not take a certificate as it is set up, in words that follow its subject; None where it
    would. The signature of one that signs itself says nothing, and is not looked at."""
    key = certificate.public_key()
    if isinstance(key, rsa.RSAPublicKey | dsa.DSAPublicKey) and key.key_size < _MIN_KEY_BITS:
        return f"has a key of {key.key_size} bits"
    if certificate.issuer != certificate.subject and isinstance(certificate.signature_hash_algorithm, SHA1):
        return "is signed with SHA-1"
    return None


def allow_weak_certificates(context: ssl.SSLContext) -> None:
    """Makes a context take them, its own and those of clients. Its cipher suites stay."""
    suites = [each["name"] for each in context.get_ciphers() if each["name"] not in TLS_1_3]
    context.set_ciphers(":".join([*suites, "@SECLEVEL=0"]))
