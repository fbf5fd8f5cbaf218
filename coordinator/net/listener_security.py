"""What a listener that is not PLAINTEXT asks of a client before it takes requests: TLS, SASL, or both."""

import asyncio
import ssl
from typing import Protocol

from coordinator.net.connection import Connection
from coordinator.net.endpoint import Endpoint


class ListenerSecurity(Protocol):
    """Of one listener."""

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """For the next handshake; None: there is no TLS."""

    @property
    def client_context(self) -> ssl.SSLContext | None:
        """For the next handshake with another broker, where the brokers of a cluster reach each other by this
        listener; None: there is no TLS."""

    @property
    def handshake_timeout_s(self) -> float:
        """How long a client may take for it."""

    async def start(self) -> None:
        """Fetches what it needs before clients may come. Raises what ends the start."""

    async def read_again(self) -> None:
        """Reads certificates and keys of tokens again, for new connections, and tells the log. What cannot be used
        changes nothing."""

    def close(self) -> None:
        """Nobody comes any more."""

    def connection(self, endpoint: Endpoint, peername: object) -> Connection:
        """Makes the connection of a socket that was accepted."""

    def entrance(self, connection: Connection) -> asyncio.BaseProtocol:
        """What the transport of this connection speaks to at first. It hands the transport over to the connection
        (`set_protocol`, then `connection_made`) once it knows who is there, with the bytes that came too early, and
        forgets a client that does not come so far."""
