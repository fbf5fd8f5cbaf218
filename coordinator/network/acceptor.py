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
"""The number of connections that are accepted before other callbacks of the event loop run."""


class ListenerSecurity(Protocol):
    """The security of one listener."""

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context of the next handshake, or None without TLS."""

    @property
    def client_context(self) -> ssl.SSLContext | None:
        """The TLS context of the next handshake with another broker of the cluster, or None without TLS."""

    @property
    def handshake_timeout_s(self) -> float:
        """The time in which a client must complete the handshake, in seconds."""

    async def start(self) -> None:
        """Load the data that authentication needs before clients connect. An exception fails the start of the
        daemon."""

    async def reload(self) -> None:
        """Reload certificates and token keys for new connections, and log the result. If a file is unusable, the
        current settings stay in use."""

    def close(self) -> None:
        """Stop background work. No client connects after this call."""

    def create_connection(self, endpoint: Endpoint, peername: object) -> Connection:
        """Create the connection of an accepted socket."""

    def create_protocol(self, connection: Connection) -> asyncio.BaseProtocol:
        """Create the first protocol of a transport.

        It authenticates the client. Then it hands the transport over to the connection (`set_protocol`, then
        `connection_made`), with the bytes that arrived early. It drops a client that does not complete the
        authentication.
        """


class Acceptor:
    """The acceptor of one listening socket of a listener. `close` closes the socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        endpoint: Endpoint,
        connections: Connections,
        security: ListenerSecurity | None = None,
    ) -> None:
        """Create the acceptor of a bound socket. `security` authenticates clients; None means PLAINTEXT."""
        self._loop = loop
        self._socket = ListeningSocket(
            loop, listening, _LOGGER, MAX_ACCEPTS_PER_TURN, self._has_capacity, self._admit
        )
        self._endpoint = endpoint
        self._connections = connections
        self._security = security
        self._setup_tasks: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Accept connections from now on."""
        self._socket.open()

    def close(self) -> None:
        """Stop accepting connections and end pending handshakes."""
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
        if task.cancelled():  # possibly before its first step
            accepted.close()
            self._connections.remove(connection)

    async def _set_up_connection(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            # As in Kafka's brokers: the system detects a peer that disappeared without closing its connection.
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._security is None:
                await self._loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await self._set_up_secured_connection(self._security, accepted, connection)
        except OSError as error:
            accepted.close()
            self._connections.remove(connection)
            _LOG.info(
                "The connection from %s was lost while it was accepted: %s",
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
