"""The listeners of a server: their sockets, and what each asks of a client before it takes requests."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence

from coordinator.config.listeners import Address, Listener
from coordinator.names import SecurityProtocol
from coordinator.net.acceptor import Acceptor
from coordinator.net.connections import Connections
from coordinator.net.endpoint import Endpoint
from coordinator.net.listener_security import ListenerSecurity
from coordinator.server.authentication_counts import AuthenticationCounts
from coordinator.server.bind import LISTEN, bind
from coordinator.server.security import Security
from coordinator.server.settings import ServerSettings
from coordinator.server.start_failed import StartFailed


class Listeners:
    """See the top of this file."""

    def __init__(self) -> None:
        self.endpoints: list[Endpoint] = []
        """One a listener, in the order of `listeners`."""
        self._acceptors: list[Acceptor] = []
        self._asked: list[ListenerSecurity | None] = []
        """What each endpoint asks of clients."""
        self._backlog = 0
        self._connections: Connections
        self._security: list[ListenerSecurity] = []
        self._is_due = False
        self._is_closed = False
        self._renewal: asyncio.Task[None] | None = None

    async def bind(
        self,
        settings: ServerSettings,
        listeners: Sequence[Listener],
        make_endpoint: Callable[[Listener], Endpoint],
        connections: Connections,
        security: Security,
        counts: AuthenticationCounts,
        bound: Mapping[str, Sequence[socket.socket]],
    ) -> None:
        """Takes the addresses, once there is what listeners ask clients by. In: the listeners; what is known
        of users; where is counted who was let in; sockets that are bound already, by the listener's name. Raises
        StartFailed."""
        self._backlog = settings.config.socket_listen_backlog_size
        self._connections = connections
        for listener in listeners:
            endpoint = make_endpoint(listener)
            asks = _asks(listener, settings, security, counts)
            if asks is not None:
                self._security.append(asks)
                await asks.start()
            sockets = bound.get(listener.name) or bind(listener.address, self._backlog, LISTEN)
            endpoint.bound(sockets[0].getsockname()[1])
            self._accept(sockets, endpoint, asks)
            self._asked.append(asks)
            self.endpoints.append(endpoint)

    def _accept(
        self, sockets: Sequence[socket.socket], endpoint: Endpoint, asks: ListenerSecurity | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for each in sockets:
            self._acceptors.append(Acceptor(loop, each, endpoint, self._connections, asks))

    def open(self) -> None:
        """Lets clients in."""
        for acceptor in self._acceptors:
            acceptor.open()

    def stop(self) -> None:
        """Lets nobody in, until `start`."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()

    def start(self) -> None:
        """Takes the addresses again that it had before `stop`, and lets clients in. Raises StartFailed."""
        try:
            for endpoint, asks in zip(self.endpoints, self._asked, strict=True):
                address = endpoint.listener.address._replace(port=endpoint.port)
                self._accept(bind(address, self._backlog, LISTEN), endpoint, asks)
        except StartFailed:
            self.stop()
            raise
        self.open()

    def advertise(self, name: str, address: Address) -> None:
        """From now on clients that connect to a listener are told to come to this address. Raises KeyError where
        there is no such listener."""
        {endpoint.listener.name: endpoint for endpoint in self.endpoints}[name].advertise(address)

    def client_context(self, name: str) -> ssl.SSLContext | None:
        """For the next handshake with another broker's listener of this name; None: it has no TLS. Raises KeyError
        where there is no such listener."""
        asked = {
            endpoint.listener.name: asks for endpoint, asks in zip(self.endpoints, self._asked, strict=True)
        }[name]
        return None if asked is None else asked.client_context

    async def read_again(self) -> None:
        """Reads what listeners show and trust again, for new connections. What is wrong is told in the log."""
        for security in self._security:
            await security.read_again()

    def renew(self) -> None:
        """Has them read again, once more where that is under way: then something may have been read already."""
        self._is_due = not self._is_closed
        if self._is_due and self._renewal is None:
            self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        try:
            while self._is_due:
                self._is_due = False
                await self.read_again()
        finally:
            self._renewal = None

    def close(self) -> None:
        """Lets nobody in any more."""
        self._is_closed = True
        if self._renewal is not None:
            self._renewal.cancel()
        for acceptor in self._acceptors:
            acceptor.close()
        for security in self._security:
            security.close()


def _asks(
    listener: Listener, settings: ServerSettings, security: Security, counts: AuthenticationCounts
) -> ListenerSecurity | None:
    """None for PLAINTEXT."""
    if listener.protocol is SecurityProtocol.PLAINTEXT:
        return None
    from coordinator.server.listener_security import SecuredListener  # and what TLS and SASL need

    return SecuredListener(settings.security[listener.name], settings.files, security, counts)
