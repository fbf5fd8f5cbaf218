"""TLS of one listener: the context of new handshakes, and what takes its place when stores are read anew.

Source: Kafka's `SslFactory`; for what a new certificate may change, its `CertificateEntries`.
"""

import asyncio
import logging
import ssl
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from coordinator import clock
from coordinator.config.listener_settings import ListenerSettings, TlsSettings
from coordinator.security.distinguished_name import subject_of
from coordinator.server.tls.between_brokers import between_brokers
from coordinator.server.tls.context import make_context, untold_suites
from coordinator.server.tls.store_error import StoreError
from coordinator.server.tls.stores import KeyStore, read_key_store, read_truststore
from coordinator.server.tls.strength import weakness
from storage.files import Files
from storage.os_error import reason_of

_LOG: Final = logging.getLogger("TLS")


class _Loaded(NamedTuple):
    context: ssl.SSLContext
    store: KeyStore
    client: ssl.SSLContext | None


class ListenerTls:
    """See the top of this file."""

    def __init__(self, settings: ListenerSettings, files: Files) -> None:
        """Reads the stores. Raises StoreError."""
        assert settings.tls is not None
        self._listener = settings.name
        self._settings = settings.tls
        self._is_between_brokers = settings.is_between_brokers
        self._files = files
        self._loaded = self._load()
        if suites := untold_suites(self._settings):
            _LOG.warning(
                "Listener %s also serves %s: of TLS 1.3 it has all cipher suites or none (ssl.cipher.suites)",
                *(self._listener, ", ".join(suites)),
            )

    @property
    def context(self) -> ssl.SSLContext:
        """For the next handshake."""
        return self._loaded.context

    @property
    def client_context(self) -> ssl.SSLContext | None:
        """For the next handshake with another broker; None where this is not the listener between brokers."""
        return self._loaded.client

    async def renew(self) -> None:
        """Reads the stores again, for new connections; a line says what became of that. Where they cannot be used,
        everything is as before."""
        try:
            subject = await asyncio.to_thread(self._read_again)
        except (StoreError, OSError) as error:
            _LOG.error(
                "Listener %s keeps its certificate and truststore: %s", self._listener, reason_of(error)
            )
        else:
            _LOG.info(
                "Listener %s has read its stores again; its certificate is that of %s",
                *(self._listener, subject),
            )

    def _read_again(self) -> str:
        """Out: the subject of the certificate. Raises StoreError."""
        loaded = self._load()
        _check_change(self._settings, self._loaded.store, loaded.store)
        self._loaded = loaded
        return _subject(loaded.store.chain[0])

    def _load(self) -> _Loaded:
        store = read_key_store(self._settings, self._files)
        trusted = read_truststore(self._settings, self._files)
        context = make_context(self._settings, store, trusted)
        client = (
            between_brokers(self._settings, store, trusted, context) if self._is_between_brokers else None
        )
        for name, certificates in ((store.name, store.chain), ("ssl.truststore", trusted)):
            for line in (*_expired(certificates), *_weak(certificates)):
                _LOG.warning("Listener %s, %s: %s", self._listener, name, line)
        return _Loaded(context, store, client)


def _expired(certificates: Sequence[x509.Certificate]) -> Iterator[str]:
    now_s = clock.wall_ms() / 1000
    for each in certificates:
        subject = each.subject.rfc4514_string()
        if each.not_valid_after_utc.timestamp() < now_s:
            yield f"the certificate of {subject} has expired, at {each.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        elif each.not_valid_before_utc.timestamp() > now_s:
            yield f"the certificate of {subject} is valid from {each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on"


def _weak(certificates: Sequence[x509.Certificate]) -> Iterator[str]:
    for each in certificates:
        if reason := weakness(each):
            yield (
                f"the certificate of {each.subject.rfc4514_string()} {reason}, which many clients refuse; "
                "clients' certificates may be as weak here"
            )


def _check_change(settings: TlsSettings, old: KeyStore, new: KeyStore) -> None:
    """Raises StoreError where clients that know the old certificate would not know the new one."""
    before, after = old.chain[0], new.chain[0]
    if not settings.ssl_allow_dn_changes and _subject(before) != _subject(after):
        raise StoreError(
            f"{new.name}: the subject is {_subject(after)} and was {_subject(before)} "
            "(ssl.allow.dn.changes=true takes it)"
        )
    missing = _alternative_names(before) - _alternative_names(after)
    if missing and not settings.ssl_allow_san_changes:
        raise StoreError(
            f"{new.name}: alternative names are missing that were there: {', '.join(sorted(missing))} "
            "(ssl.allow.san.changes=true takes it)"
        )


def _subject(certificate: x509.Certificate) -> str:
    return subject_of(certificate.public_bytes(Encoding.DER))


def _alternative_names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in found.value}
