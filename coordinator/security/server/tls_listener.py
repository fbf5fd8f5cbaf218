"""TLS of one listener: its context for new handshakes, the reload of its stores, and the principal of a
client from its certificate. Where SASL follows the handshake, the certificate sets no principal. A reload
affects new connections only; unusable stores change nothing.
Source: Kafka's `SslFactory`, and its `CertificateEntries` for changes that a new certificate may have.
"""

import asyncio
import logging
import ssl
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, cast

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from coordinator.config.listener_settings import ListenerSettings, TlsSettings
from coordinator.core import clock
from coordinator.network.client_connection import Connection, SecuredConnection
from coordinator.network.endpoint import Endpoint
from coordinator.network.tls_handshakes import HandshakeFailure
from coordinator.security.core.principal import ANONYMOUS, USER, Principal
from coordinator.security.core.principal_mapping import (
    InvalidDer,
    NoMatchingRule,
    PrincipalMapping,
    parse_subject,
)
from coordinator.security.server.tls_context import (
    create_inter_broker_context,
    create_listener_context,
    find_unlisted_suites,
    find_weakness,
)
from coordinator.security.server.tls_stores import KeyStore, KeyStoreError, read_key_store, read_truststore
from storage.files import Files
from storage.storage_errors import format_error_reason

_LOG: Final = logging.getLogger("TLS")


class _LoadedStores(NamedTuple):
    context: ssl.SSLContext
    store: KeyStore
    client: ssl.SSLContext | None


class ListenerTls:
    """The TLS contexts of one listener, built from its stores."""

    def __init__(self, settings: ListenerSettings, files: Files) -> None:
        """Load the stores.

        Raises:
            KeyStoreError: a store is unusable.
        """
        assert settings.tls is not None
        self._listener = settings.name
        self._settings = settings.tls
        self._is_between_brokers = settings.is_inter_broker
        self._files = files
        self._loaded = self._load_stores()
        if suites := find_unlisted_suites(self._settings):
            _LOG.warning(
                "Listener %s also enables %s: it can only enable all cipher suites of TLS 1.3 or none "
                "(ssl.cipher.suites)",
                *(self._listener, ", ".join(suites)),
            )

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context for the next handshake."""
        return self._loaded.context

    @property
    def client_context(self) -> ssl.SSLContext | None:
        """Return the context for the next handshake with another broker; None for other listeners."""
        return self._loaded.client

    async def reload(self) -> None:
        """Reload the stores for new connections and log the result. Unusable stores change nothing."""
        try:
            subject = await asyncio.to_thread(self._reload_stores)
        except (KeyStoreError, OSError) as error:
            _LOG.error(
                "Listener %s keeps its certificate and truststore: %s",
                self._listener,
                format_error_reason(error),
            )
        else:
            _LOG.info(
                "Listener %s reloaded its stores; the subject of its certificate is %s",
                *(self._listener, subject),
            )

    def _reload_stores(self) -> str:
        """Reload the stores and return the subject of the certificate.

        Raises:
            KeyStoreError: a store is unusable, or clients would not accept the new certificate.
        """
        loaded = self._load_stores()
        _check_certificate_change(self._settings, self._loaded.store, loaded.store)
        self._loaded = loaded
        return _find_subject(loaded.store.chain[0])

    def _load_stores(self) -> _LoadedStores:
        store = read_key_store(self._settings, self._files)
        trusted = read_truststore(self._settings, self._files)
        context = create_listener_context(self._settings, store, trusted)
        client = (
            create_inter_broker_context(self._settings, store, trusted, context)
            if self._is_between_brokers
            else None
        )
        for name, certificates in ((store.name, store.chain), ("ssl.truststore", trusted)):
            for line in (*_describe_expired(certificates), *_describe_weak(certificates)):
                _LOG.warning("Listener %s, %s: %s", self._listener, name, line)
        return _LoadedStores(context, store, client)


def _describe_expired(certificates: Sequence[x509.Certificate]) -> Iterator[str]:
    now_s = clock.wall_ms() / 1000
    for each in certificates:
        subject = each.subject.rfc4514_string()
        if each.not_valid_after_utc.timestamp() < now_s:
            yield f"the certificate of {subject} expired at {each.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        elif each.not_valid_before_utc.timestamp() > now_s:
            yield f"the certificate of {subject} is not valid before {each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"


def _describe_weak(certificates: Sequence[x509.Certificate]) -> Iterator[str]:
    for each in certificates:
        if reason := find_weakness(each):
            yield (
                f"the certificate of {each.subject.rfc4514_string()} {reason}, which many clients reject; "
                "the listener also accepts such weak certificates of clients"
            )


def _check_certificate_change(settings: TlsSettings, old: KeyStore, new: KeyStore) -> None:
    """Check that clients that trust the old certificate accept the new one.

    Raises:
        KeyStoreError: the subject or an alternative name changed.
    """
    before, after = old.chain[0], new.chain[0]
    if not settings.ssl_allow_dn_changes and _find_subject(before) != _find_subject(after):
        raise KeyStoreError(
            f"{new.name}: the subject changed from {_find_subject(before)} to {_find_subject(after)} "
            "(ssl.allow.dn.changes=true allows it)"
        )
    missing = _find_alternative_names(before) - _find_alternative_names(after)
    if missing and not settings.ssl_allow_san_changes:
        raise KeyStoreError(
            f"{new.name}: it lacks previous alternative names: {', '.join(sorted(missing))} "
            "(ssl.allow.san.changes=true allows it)"
        )


def _find_subject(certificate: x509.Certificate) -> str:
    return parse_subject(certificate.public_bytes(Encoding.DER))


def _find_alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in found.value}


class CertificateAuthentication:
    """Authenticates clients by their certificates alone."""

    def __init__(self, settings: ListenerSettings) -> None:
        assert settings.tls is not None
        self._mapping = PrincipalMapping(settings.tls.ssl_principal_mapping_rules)

    def create_connection(self, endpoint: Endpoint, peername: object) -> Connection:
        """Create the connection of an accepted socket."""
        return TlsConnection(endpoint, peername, self._mapping)

    def create_protocol(self, connection: Connection) -> asyncio.BaseProtocol:
        """Return the connection itself: asyncio calls it once the handshake is complete."""
        return connection


class TlsConnection(SecuredConnection):
    """A connection with a client identified by its certificate. It starts after the handshake."""

    __slots__ = ("_mapping",)

    def __init__(self, endpoint: Endpoint, peername: object, mapping: PrincipalMapping) -> None:
        super().__init__(endpoint, peername)
        self._mapping = mapping

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set the principal after the handshake. Close the connection if no mapping rule matches."""
        ssl_object: ssl.SSLObject = transport.get_extra_info("ssl_object")
        try:
            self.set_principal(map_certificate(ssl_object.getpeercert(binary_form=True), self._mapping))
        except (NoMatchingRule, InvalidDer) as error:
            self._endpoint.on_handshake_failed(
                self, HandshakeFailure("principal", f"of its certificate {error}")
            )
            super().connection_made(transport)
            cast("asyncio.Transport", transport).abort()
            return
        super().connection_made(transport)


def map_certificate(certificate: bytes | None, mapping: PrincipalMapping) -> Principal:
    """Return the principal of a client.

    Args:
        certificate: the DER-encoded certificate; None if the client sent none.
        mapping: the mapping rules.

    Raises:
        NoMatchingRule: no rule matches.
        InvalidDer: the certificate is malformed.
    """
    return Principal(USER, mapping.map_subject(parse_subject(certificate))) if certificate else ANONYMOUS
