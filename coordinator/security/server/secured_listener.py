"""TLS and SASL of a listener that is not PLAINTEXT, in front of its connections."""

import asyncio
import ssl
from typing import TYPE_CHECKING, Protocol

from coordinator.config.listener_settings import ListenerSettings
from coordinator.core.message_text import StartFailed
from coordinator.network.client_connection import Connection
from coordinator.network.endpoint import Endpoint
from coordinator.network.request_routes import AuthenticationCounts
from coordinator.security.lazy_security import LazySecurity
from storage.files import Files

if TYPE_CHECKING:
    from coordinator.security.server.sasl_listener import SaslListener
    from coordinator.security.server.tls_listener import ListenerTls


class _ClientAuthentication(Protocol):
    """The authentication of the clients of a listener."""

    def create_connection(self, endpoint: Endpoint, peername: object) -> Connection: ...
    def create_protocol(self, connection: Connection) -> asyncio.BaseProtocol: ...


class SecuredListener:
    """A `ListenerSecurity`. Imports only the modules that the listener needs."""

    def __init__(
        self,
        settings: ListenerSettings,
        files: Files,
        security: LazySecurity,
        counts: AuthenticationCounts,
    ) -> None:
        """Create the layers of a listener.

        Args:
            settings: the settings of the listener.
            files: the files that its stores may use.
            security: the ACLs and credentials.
            counts: the counters of authentications.

        Raises:
            StartFailed: the settings are unusable.
        """
        self.handshake_timeout_s = settings.authentication_timeout_ms / 1000
        self._tls = None if settings.tls is None else _create_tls(settings, files)
        self._sasl = _create_sasl(settings, files, security, counts) if settings.protocol.has_sasl else None
        self._client_authentication = (
            _create_certificate_authentication(settings)
            if self._sasl is None
            else _create_sasl_authentication(self._sasl)
        )

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the next handshake; None without TLS."""
        return None if self._tls is None else self._tls.context

    @property
    def client_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for the next handshake with another broker over this inter-broker listener; None
        without TLS.
        """
        return None if self._tls is None else self._tls.client_context

    def create_connection(self, endpoint: Endpoint, peername: object) -> Connection:
        """Create the connection of an accepted socket."""
        return self._client_authentication.create_connection(endpoint, peername)

    def create_protocol(self, connection: Connection) -> asyncio.BaseProtocol:
        """Create the protocol that handles the transport until the client has authenticated."""
        return self._client_authentication.create_protocol(connection)

    async def start(self) -> None:
        """Fetch the keys of tokens.

        Raises:
            StartFailed: the fetch failed.
        """
        if self._sasl is not None:
            await self._sasl.start()

    async def reload(self) -> None:
        """Reload the TLS stores and the token keys for new connections. Failures are logged."""
        if self._tls is not None:
            await self._tls.reload()
        if self._sasl is not None:
            await self._sasl.reload()

    def close(self) -> None:
        """Stop the fetches of keys."""
        if self._sasl is not None:
            self._sasl.close()


def _create_tls(settings: ListenerSettings, files: Files) -> "ListenerTls":
    from coordinator.security.server.tls_listener import ListenerTls
    from coordinator.security.server.tls_stores import KeyStoreError

    try:
        return ListenerTls(settings, files)
    except KeyStoreError as error:
        raise StartFailed(f"the listener {settings.name}: {error}") from error


def _create_certificate_authentication(settings: ListenerSettings) -> _ClientAuthentication:
    from coordinator.security.server.tls_listener import CertificateAuthentication

    return CertificateAuthentication(settings)


def _create_sasl_authentication(sasl: "SaslListener") -> _ClientAuthentication:
    from coordinator.security.server.sasl_gate import SaslAuthentication

    return SaslAuthentication(sasl)


def _create_sasl(
    settings: ListenerSettings, files: Files, security: LazySecurity, counts: AuthenticationCounts
) -> "SaslListener":
    from coordinator.security.server.sasl_listener import SaslListener

    store = security.store
    return SaslListener(asyncio.get_running_loop(), settings, lambda: store.state.scram, counts, files)
