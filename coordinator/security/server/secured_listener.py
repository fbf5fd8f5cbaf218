"""What stands before the connections of a listener that is not PLAINTEXT: TLS, SASL, or one after the other."""

import asyncio
import ssl
from typing import TYPE_CHECKING, Protocol

from coordinator.config.listener_settings import ListenerSettings
from coordinator.net.connection import Connection
from coordinator.net.endpoint import Endpoint
from coordinator.server.authentication_counts import AuthenticationCounts
from coordinator.server.security import Security
from coordinator.server.start_failed import StartFailed
from storage.files import Files

if TYPE_CHECKING:
    from coordinator.server.authentication.sasl import Sasl
    from coordinator.server.tls.tls import ListenerTls


class _Clients(Protocol):
    """How the clients of a listener show who they are."""

    def connection(self, endpoint: Endpoint, peername: object) -> Connection: ...
    def entrance(self, connection: Connection) -> asyncio.BaseProtocol: ...


class SecuredListener:
    """A `ListenerSecurity`. What a listener does not need is not imported."""

    def __init__(
        self,
        settings: ListenerSettings,
        files: Files,
        security: Security,
        counts: AuthenticationCounts,
    ) -> None:
        """In: what is known of users; where is counted who was let in. Raises StartFailed."""
        self.handshake_timeout_s = settings.authentication_timeout_ms / 1000
        self._tls = None if settings.tls is None else _tls(settings, files)
        self._sasl = _sasl(settings, files, security, counts) if settings.protocol.has_sasl else None
        self._clients = _certificates(settings) if self._sasl is None else self._sasl

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """For the next handshake; None: there is no TLS."""
        return None if self._tls is None else self._tls.context

    @property
    def client_context(self) -> ssl.SSLContext | None:
        """For the next handshake with another broker, where the brokers of a cluster reach each other by this
        listener; None: there is no TLS."""
        return None if self._tls is None else self._tls.client_context

    def connection(self, endpoint: Endpoint, peername: object) -> Connection:
        """Makes the connection of a socket that was accepted."""
        return self._clients.connection(endpoint, peername)

    def entrance(self, connection: Connection) -> asyncio.BaseProtocol:
        """What its transport speaks to until the client is let in."""
        return self._clients.entrance(connection)

    async def start(self) -> None:
        """Fetches the keys of tokens. Raises StartFailed."""
        if self._sasl is not None:
            await self._sasl.start()

    async def read_again(self) -> None:
        """Reads the stores of TLS and the keys of tokens again, for new connections; lines say what went wrong."""
        if self._tls is not None:
            await self._tls.renew()
        if self._sasl is not None:
            await self._sasl.read_again()

    def close(self) -> None:
        """Fetches nothing any more."""
        if self._sasl is not None:
            self._sasl.close()


def _tls(settings: ListenerSettings, files: Files) -> "ListenerTls":
    from coordinator.server.tls.store_error import StoreError
    from coordinator.server.tls.tls import ListenerTls

    try:
        return ListenerTls(settings, files)
    except StoreError as error:
        raise StartFailed(f"the listener {settings.name}: {error}") from error


def _certificates(settings: ListenerSettings) -> _Clients:
    from coordinator.server.tls.certificates import Certificates

    return Certificates(settings)


def _sasl(
    settings: ListenerSettings, files: Files, security: Security, counts: AuthenticationCounts
) -> "Sasl":
    from coordinator.server.authentication.sasl import Sasl

    store = security.store
    return Sasl(asyncio.get_running_loop(), settings, lambda: store.state.scram, counts, files)
