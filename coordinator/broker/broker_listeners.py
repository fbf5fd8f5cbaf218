"""The brokers of a server, and the listeners of each: their sockets, endpoints and security."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence

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
from coordinator.topics.data_plane_answer import StoresSet, TopicChange


class BrokerListeners:
    """The listeners of one broker: their endpoints, sockets and security."""

    def __init__(self) -> None:
        self.endpoints: list[Endpoint] = []
        """The endpoints of the listeners, in the order of `listeners`."""
        self._acceptors: list[Acceptor] = []
        self._security_by_endpoint: list[ListenerSecurity | None] = []
        """The security of each endpoint; None for PLAINTEXT."""
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
        """Bind the sockets of all listeners, after their security is loaded.

        Args:
            settings: Settings of the server.
            listeners: The listeners.
            make_endpoint: Creates the endpoint of a listener.
            connections: Connections of the server.
            security: Users and ACLs.
            counts: Counters of authentications.
            bound: Sockets that are already bound, by listener name.

        Raises:
            StartFailed: An address or the security of a listener is not usable.
        """
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
        """Start accepting connections on all sockets."""
        for acceptor in self._acceptors:
            acceptor.open()

    def stop(self) -> None:
        """Stop accepting connections until `start`."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._acceptors.clear()

    def start(self) -> None:
        """Bind the same addresses as before `stop`, and accept connections. Raises StartFailed."""
        try:
            for endpoint, security in zip(self.endpoints, self._security_by_endpoint, strict=True):
                address = endpoint.listener.address._replace(port=endpoint.port)
                self._add_acceptors(bind_sockets(address, self._backlog, LISTEN_OPTION), endpoint, security)
        except StartFailed:
            self.stop()
            raise
        self.open()

    def set_advertised_address(self, name: str, address: Address) -> None:
        """Set the advertised address of a listener. Raises KeyError if there is no such listener."""
        {endpoint.listener.name: endpoint for endpoint in self.endpoints}[name].set_advertised_address(
            address
        )

    def find_client_context(self, name: str) -> ssl.SSLContext | None:
        """Return the TLS context for the next handshake with another broker's listener of this name; None without
        TLS. Raises KeyError if there is no such listener.
        """
        listener_security = {
            endpoint.listener.name: security
            for endpoint, security in zip(self.endpoints, self._security_by_endpoint, strict=True)
        }[name]
        return None if listener_security is None else listener_security.client_context

    async def reload(self) -> None:
        """Reload certificates and trust stores for new connections. Errors go to the log."""
        for security in self._securities:
            await security.reload()

    def request_reload(self) -> None:
        """Reload in the background. During a reload this schedules another one, because the first may have read old
        files.
        """
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
        """Stop accepting connections for good."""
        self._is_closed = True
        if self._reload_task is not None:
            self._reload_task.cancel()
        for acceptor in self._acceptors:
            acceptor.close()
        for security in self._securities:
            security.close()


class BrokerSet:
    """The brokers of one process, with the listeners of each."""

    def __init__(self, node_ids: Iterable[int]) -> None:
        self.listeners = {node_id: BrokerListeners() for node_id in node_ids}
        """The listeners of each broker by node id. The server's own are first."""

    @property
    def endpoints(self) -> list[Endpoint]:
        """Endpoints for clients, broker by broker."""
        return [endpoint for listeners in self.listeners.values() for endpoint in listeners.endpoints]

    def open(self) -> None:
        """Start accepting connections on all bound listeners."""
        for listeners in self.listeners.values():
            listeners.open()

    def reload_listeners(self) -> None:
        """Reload the certificates and trust stores of all listeners."""
        for listeners in self.listeners.values():
            listeners.request_reload()

    def on_topics_changed(self, changes: Sequence[TopicChange]) -> None:
        """Reload certificates and trust stores after a client has set their files."""
        if any(isinstance(change, StoresSet) for change in changes):
            self.reload_listeners()

    def close(self) -> None:
        """Stop accepting connections on all listeners."""
        for listeners in self.listeners.values():
            listeners.close()


def _create_listener_security(
    listener: Listener, settings: ServerSettings, security: LazySecurity, counts: AuthenticationCounts
) -> ListenerSecurity | None:
    """Return the security of a listener; None for PLAINTEXT."""
    if listener.protocol is SecurityProtocol.PLAINTEXT:
        return None
    from coordinator.security.server.secured_listener import SecuredListener  # and what TLS and SASL need

    return SecuredListener(settings.security[listener.name], settings.files, security, counts)
