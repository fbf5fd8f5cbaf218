"""Who the clients of a listener SSL are: its rules say it of their certificates."""

import asyncio

from coordinator.config.listener_settings import ListenerSettings
from coordinator.net.connection import Connection
from coordinator.net.endpoint import Endpoint
from coordinator.security.principal_mapping import PrincipalMapping
from coordinator.server.tls.connection import TlsConnection


class Certificates:
    """See the top of this file."""

    def __init__(self, settings: ListenerSettings) -> None:
        assert settings.tls is not None
        self._mapping = PrincipalMapping(settings.tls.ssl_principal_mapping_rules)

    def connection(self, endpoint: Endpoint, peername: object) -> Connection:
        """Makes the connection of a socket that was accepted."""
        return TlsConnection(endpoint, peername, self._mapping)

    def entrance(self, connection: Connection) -> asyncio.BaseProtocol:
        """The connection itself: it hears of its transport once the handshake is done."""
        return connection
