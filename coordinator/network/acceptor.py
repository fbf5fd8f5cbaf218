"""Where connections come in: a listening socket, and who is let in.

While there are `max.connections`, nobody is let in: new connections wait in the system's backlog until one goes,
as they do in Kafka. One from an address that has its `max.connections.per.ip` is closed at once.

Source: KIP-402, Kafka's `Acceptor` and `ConnectionQuotas`.
"""

import asyncio
import logging
import socket
from functools import partial
from typing import Final

from coordinator.net.connection import Connection
from coordinator.net.connections import Connections
from coordinator.net.endpoint import Endpoint
from coordinator.net.handshakes import HandshakeFailed
from coordinator.net.listener_security import ListenerSecurity
from coordinator.net.listening_socket import ListeningSocket
from storage.os_error import reason_of

_LOGGER: Final = "SocketServer"
_LOG: Final = logging.getLogger(_LOGGER)

ACCEPTS_AT_ONCE: Final = 64
"""Connections that are taken before others get their turn."""


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
            loop, listening, _LOGGER, ACCEPTS_AT_ONCE, self._has_place, self._admit
        )
        self._endpoint = endpoint
        self._connections = connections
        self._security = security
        self._entering: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        """Lets connections in."""
        self._socket.open()

    def close(self) -> None:
        """Lets nobody in any more; handshakes that are under way end."""
        self._socket.close()
        if self._security is not None:
            for entering in self._entering:
                entering.cancel()

    def _has_place(self) -> bool:
        if self._connections.is_full:
            self._socket.pause()
            self._connections.await_place(self._socket.open)
            return False
        return True

    def _admit(self, accepted: socket.socket, peername: object) -> None:
        connect = Connection if self._security is None else self._security.connection
        connection = connect(self._endpoint, peername)
        refusal = self._connections.admit(connection)
        if refusal is not None:
            accepted.close()
            self._endpoint.turned_away(connection, refusal)
            return
        task = self._loop.create_task(self._enter(accepted, connection))
        self._entering.add(task)
        task.add_done_callback(partial(self._entered, accepted, connection))

    def _entered(self, accepted: socket.socket, connection: Connection, task: asyncio.Task[None]) -> None:
        self._entering.discard(task)
        if task.cancelled():  # perhaps before it has begun
            accepted.close()
            self._connections.remove(connection)

    async def _enter(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            # Kafka's brokers do so: a peer that is gone without a word is noticed, sooner or later.
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._security is None:
                await self._loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await self._secure(self._security, accepted, connection)
        except OSError as error:
            accepted.close()
            self._connections.remove(connection)
            _LOG.info(
                "The connection from %s was lost while it was taken: %s", connection.peer, reason_of(error)
            )

    async def _secure(
        self, security: ListenerSecurity, accepted: socket.socket, connection: Connection
    ) -> None:
        def entrance() -> asyncio.BaseProtocol:
            return security.entrance(connection)

        context = security.ssl_context
        if context is None:
            await self._loop.connect_accepted_socket(entrance, accepted)
            return
        try:
            await self._connections.handshakes.shake(
                accepted,
                context,
                security.handshake_timeout_s,
                entrance,
                partial(self._endpoint.handshake_failed, connection),
            )
        except HandshakeFailed:
            self._connections.remove(connection)
