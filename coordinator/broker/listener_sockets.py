"""The listeners of a server: their sockets, and what each asks of a client before it takes requests."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence

from coordinator.broker.server_settings import ServerSettings
from coordinator.config.listeners import Address, Listener
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import SecurityProtocol
from coordinator.network.acceptor import Acceptor, ListenerSecurity
from coordinator.network.connections import Connections
from coordinator.network.endpoint import Endpoint
from coordinator.network.listening_socket import LISTEN_OPTION, bind_sockets
from coordinator.network.request_routes import AuthenticationCounts
from coordinator.security.lazy_security import LazySecurity


class BrokerListeners:
    """The listeners of one broker: their endpoints, sockets and security."""

    def __init__(self) -> None:
        self.endpoints: list[Endpoint] = []
        """One a listener, in the order of `listeners`."""
        self._acceptors: list[Acceptor] = []
        self._security_by_endpoint: list[ListenerSecurity | None] = []
        """What each endpoint asks of clients."""
        self._backlog = 0
        self._connections: Connections
        self._securities: list[ListenerSecurity] = []
        self._is_reload_due = False
        self._is_closed = False
        self._reload_task: asyncio.Task[None] | None = None

    async def bind_listeners(
        self,
        settings: ServerSettings,
        listeners: Sequence[Listener],
        make_endpoint: Callable[[Listener], Endpoint],
        connections: Connections,
        security: LazySecurity,
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
            listener_security = _create_listener_security(listener, settings, security, counts)
            if listener_security is not None:
                self._securities.append(listener_security)
                await listener_security.start()
            sockets = bound.get(listener.name) or bind_sockets(listener.address, self._backlog, LISTEN_OPTION)
            endpoint.set_port(sockets[0].getsockname()[1])
            self._add_acceptors(sockets, endpoint, listener_security)
            self._security_by_endpoint.append(listener_security)
            self.endpoints.append(endpoint)

    def _add_acceptors(
        self, sockets: Sequence[socket.socket], endpoint: Endpoint, security: ListenerSecurity | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for each in sockets:
            self._acceptors.append(Acceptor(loop, each, endpoint, self._connections, security))

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
            for endpoint, security in zip(self.endpoints, self._security_by_endpoint, strict=True):
                address = endpoint.listener.address._replace(port=endpoint.port)
                self._add_acceptors(bind_sockets(address, self._backlog, LISTEN_OPTION), endpoint, security)
        except StartFailed:
            self.stop()
            raise
        self.open()

    def set_advertised_address(self, name: str, address: Address) -> None:
        """From now on clients that connect to a listener are told to come to this address. Raises KeyError where
        there is no such listener."""
        {endpoint.listener.name: endpoint for endpoint in self.endpoints}[name].set_advertised_address(
            address
        )

    def find_client_context(self, name: str) -> ssl.SSLContext | None:
        """For the next handshake with another broker's listener of this name; None: it has no TLS. Raises KeyError
        where there is no such listener."""
        listener_security = {
            endpoint.listener.name: security
            for endpoint, security in zip(self.endpoints, self._security_by_endpoint, strict=True)
        }[name]
        return None if listener_security is None else listener_security.client_context

    async def reload(self) -> None:
        """Reads what listeners show and trust again, for new connections. What is wrong is told in the log."""
        for security in self._securities:
            await security.reload()

    def request_reload(self) -> None:
        """Has them read again, once more where that is under way: then something may have been read already."""
        self._is_reload_due = not self._is_closed
        if self._is_reload_due and self._reload_task is None:
            self._reload_task = asyncio.get_running_loop().create_task(self._reload_while_due())

    async def _reload_while_due(self) -> None:
        try:
            while self._is_reload_due:
                self._is_reload_due = False
                await self.reload()
        finally:
            self._reload_task = None

    def close(self) -> None:
        """Lets nobody in any more."""
        self._is_closed = True
        if self._reload_task is not None:
            self._reload_task.cancel()
        for acceptor in self._acceptors:
            acceptor.close()
        for security in self._securities:
            security.close()


def _create_listener_security(
    listener: Listener, settings: ServerSettings, security: LazySecurity, counts: AuthenticationCounts
) -> ListenerSecurity | None:
    """None for PLAINTEXT."""
    if listener.protocol is SecurityProtocol.PLAINTEXT:
        return None
    from coordinator.security.server.secured_listener import SecuredListener  # and what TLS and SASL need

    return SecuredListener(settings.security[listener.name], settings.files, security, counts)
