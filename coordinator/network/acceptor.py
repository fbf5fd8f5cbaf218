"""Accepts the connections of a listener within its limits, and the interface for the security of listeners
other than PLAINTEXT (TLS, SASL or both).

At `max.connections` the acceptor pauses: new connections wait in the backlog of the socket until one closes,
as in Kafka. A connection from an address that has reached its `max.connections.per.ip` is closed at once.
Source: KIP-402, Kafka's `Acceptor` and `ConnectionQuotas`.
"""

import asyncio
import logging
import socket
import ssl
from functools import partial
from typing import Final, Protocol

from coordinator.network.client_connection import Connection
from coordinator.network.connections import Connections
from coordinator.network.endpoint import Endpoint
from coordinator.network.listening_socket import ListeningSocket
from coordinator.network.tls_handshakes import HandshakeFailedError
from storage.storage_errors import format_error_reason

_LOGGER: Final = "SocketServer"
_LOG: Final = logging.getLogger(_LOGGER)
MAX_ACCEPTS_PER_TURN: Final = 64
"""Connections that are taken before others get their turn."""


class ListenerSecurity(Protocol):
    """The security of one listener."""

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

    async def reload(self) -> None:
        """Reads certificates and keys of tokens again, for new connections, and tells the log. What cannot be used
        changes nothing."""

    def close(self) -> None:
        """Nobody comes any more."""

    def create_connection(self, endpoint: Endpoint, peername: object) -> Connection:
        """Makes the connection of a socket that was accepted."""

    def create_protocol(self, connection: Connection) -> asyncio.BaseProtocol:
        """What the transport of this connection speaks to at first. It hands the transport over to the connection
        (`set_protocol`, then `connection_made`) once it knows who is there, with the bytes that came too early, and
        forgets a client that does not come so far."""


class Acceptor:
    """One listening socket of a listener. It is closed by `close`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        endpoint: Endpoint,
        connections: Connections,
        security: ListenerSecurity | None = None,
    ) -> None:
        """In: what is asked of clients first; None: nothing, as PLAINTEXT."""
        self._loop = loop
        self._socket = ListeningSocket(
            loop, listening, _LOGGER, MAX_ACCEPTS_PER_TURN, self._has_capacity, self._admit
        )
        self._endpoint = endpoint
        self._connections = connections
        self._security = security
        self._setup_tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Lets connections in."""
        self._socket.open()

    def close(self) -> None:
        """Lets nobody in any more; handshakes that are under way end."""
        self._socket.close()
        if self._security is not None:
            for setup_task in self._setup_tasks:
                setup_task.cancel()

    def _has_capacity(self) -> bool:
        if self._connections.is_full:
            self._socket.pause()
            self._connections.call_on_capacity(self._socket.open)
            return False
        return True

    def _admit(self, accepted: socket.socket, peername: object) -> None:
        connect = Connection if self._security is None else self._security.create_connection
        connection = connect(self._endpoint, peername)
        refusal = self._connections.admit(connection)
        if refusal is not None:
            accepted.close()
            self._endpoint.on_connection_rejected(connection, refusal)
            return
        task = self._loop.create_task(self._set_up_connection(accepted, connection))
        self._setup_tasks.add(task)
        task.add_done_callback(partial(self._on_setup_done, accepted, connection))

    def _on_setup_done(
        self, accepted: socket.socket, connection: Connection, task: asyncio.Task[None]
    ) -> None:
        self._setup_tasks.discard(task)
        if task.cancelled():  # perhaps before it has begun
            accepted.close()
            self._connections.remove(connection)

    async def _set_up_connection(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            # Kafka's brokers do so: a peer that is gone without a word is noticed, sooner or later.
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._security is None:
                await self._loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await self._set_up_secured_connection(self._security, accepted, connection)
        except OSError as error:
            accepted.close()
            self._connections.remove(connection)
            _LOG.info(
                "The connection from %s was lost while it was taken: %s",
                connection.client.peer,
                format_error_reason(error),
            )

    async def _set_up_secured_connection(
        self, security: ListenerSecurity, accepted: socket.socket, connection: Connection
    ) -> None:
        def create_protocol() -> asyncio.BaseProtocol:
            return security.create_protocol(connection)

        context = security.ssl_context
        if context is None:
            await self._loop.connect_accepted_socket(create_protocol, accepted)
            return
        try:
            await self._connections.handshakes.perform_handshake(
                accepted,
                context,
                security.handshake_timeout_s,
                create_protocol,
                partial(self._endpoint.on_handshake_failed, connection),
            )
        except HandshakeFailedError:
            self._connections.remove(connection)
