"""Where connections come in: a listening socket, and when it is left alone.

While there are `max.connections`, nobody is let in: new connections wait in the system's backlog until one goes,
as they do in Kafka. One from an address that has its `max.connections.per.ip` is closed at once. When the process
runs out of descriptors, nobody is let in for a second; who is connected stays so.

Connections are taken from the socket here, not by the event loop's own server, which takes all that there are
before anybody can say that it is enough, and with uvloop gives the socket up over an error.

Source: KIP-402, Kafka's `Acceptor` and `ConnectionQuotas`.
"""

import asyncio
import logging
import socket
from typing import Final

from coordinator.net.connection import Connection
from coordinator.net.connections import Connections
from coordinator.net.endpoint import Endpoint
from coordinator.ongoing_failures import OngoingFailures
from storage.os_error import reason_of

_LOG: Final = logging.getLogger("SocketServer")

ACCEPTS_AT_ONCE: Final = 64
"""Connections that are taken before others get their turn."""
RETRY_S: Final = 1.0
"""How long nobody is let in when the system has no descriptor left."""


class Acceptor:
    """One listening socket of a listener. It is closed by `close`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        endpoint: Endpoint,
        connections: Connections,
    ) -> None:
        listening.setblocking(False)
        self._loop = loop
        self._socket = listening
        self._endpoint = endpoint
        self._connections = connections
        self._entering: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._failures = OngoingFailures("SocketServer")
        self._is_closed = False

    def open(self) -> None:
        """Lets connections in, from now on or again."""
        self._retry = None
        if not self._is_closed:
            self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Lets nobody in any more."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._socket)
            self._socket.close()
            if self._retry is not None:
                self._retry.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_AT_ONCE):
            if self._connections.is_full:
                self._loop.remove_reader(self._socket)
                self._connections.await_place(self.open)
                return
            try:
                accepted, peername = self._socket.accept()
            except BlockingIOError:
                self._failures.is_over("Accepting connections")
                return
            except (InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._shut(error)
                return
            self._admit(accepted, peername)

    def _shut(self, error: OSError) -> None:
        if self._failures.failed("Accepting connections", error):
            _LOG.error("Cannot accept connections on port %d: %s", self._endpoint.port, reason_of(error))
        self._loop.remove_reader(self._socket)
        self._retry = self._loop.call_later(RETRY_S, self.open)

    def _admit(self, accepted: socket.socket, peername: object) -> None:
        connection = Connection(self._endpoint, peername)
        refusal = self._connections.admit(connection)
        if refusal is not None:
            accepted.close()
            self._endpoint.turned_away(connection, refusal)
            return
        task = self._loop.create_task(self._enter(accepted, connection))
        self._entering.add(task)
        task.add_done_callback(self._entering.discard)

    async def _enter(self, accepted: socket.socket, connection: Connection) -> None:
        try:
            # Kafka's brokers do so: a peer that is gone without a word is noticed, sooner or later.
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await self._loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            accepted.close()
            self._connections.remove(connection)
            _LOG.info(
                "The connection from %s was lost while it was taken: %s", connection.peer, reason_of(error)
            )
