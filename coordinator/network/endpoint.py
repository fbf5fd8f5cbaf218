"""The shared state of the connections of one listener: addresses, routes, batched writes, and the log lines about
peers.

Source: Kafka's `SocketServer` and `Endpoint`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from coordinator.config.listeners import Address, Listener
from coordinator.core import clock
from coordinator.core.message_text import printable
from coordinator.core.shared_types import Node
from coordinator.core.time_budget import RunQueue
from coordinator.network.connections import Connections, OpenConnection
from coordinator.network.request_routes import Routes
from coordinator.network.tls_handshakes import HandshakeFailure

_LOG: Final = logging.getLogger("SocketServer")

MAX_REASON = 400
_WILDCARD_FALLBACK = "127.0.0.1"


class WriteBatcher:
    """Writes once to each connection in an iteration of the event loop.

    Responses become ready in groups: one sync releases the commits of many connections, one completed join phase
    answers every member.
    """

    __slots__ = ("_loop", "_scheduled")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._scheduled: list[Callable[[], None]] = []

    def schedule_flush(self, flush: Callable[[], None]) -> None:
        """Call `flush` at the end of the iteration. A connection schedules one call at a time."""
        if not self._scheduled:
            self._loop.call_soon(self._flush_all)
        self._scheduled.append(flush)

    def _flush_all(self) -> None:
        due, self._scheduled = self._scheduled, []
        for flush in due:
            try:
                flush()
            except Exception as problem:  # noqa: BLE001 - the other connections still get their responses
                _LOG.error("Failed to write to a connection", exc_info=problem)


class Endpoint:
    """The state that the connections of one listener share."""

    def __init__(
        self,
        listener: Listener,
        connections: Connections,
        write_batcher: WriteBatcher,
        run_queue: RunQueue,
        arrival: clock.Arrival,
        node_id: int,
        routes: Routes,
    ) -> None:
        """Create the state of a listener without a bound port."""
        self.loop = connections.loop
        self.listener = listener
        self.write_batcher = write_batcher
        self.run_queue = run_queue
        self.arrival = arrival
        self.routes = routes
        self.large_responses = connections.large_responses
        self.large_requests = connections.large_requests
        self.memory = connections.memory
        self.unread_responses = connections.unread_responses
        self.next_connection_id = connections.next_id
        self.max_request_bytes = connections.limits.socket_request_max_bytes
        self.port = listener.address.port
        """The bound port of the listener. It is the configured one, which may be 0, until the listener is open."""
        self.fallback_node = Node(node_id, "", -1, listener.name)
        self._connections = connections
        self.node_id = node_id
        self._nodes: dict[str, Node] = {}

    def set_port(self, port: int) -> None:
        """Set the bound port of the listener."""
        self.port = port
        address = self.listener.address
        host = _WILDCARD_FALLBACK if address.is_wildcard else address.host
        self.fallback_node = self._create_node(host)

    def set_advertised_address(self, address: Address) -> None:
        """Change the advertised address for new connections."""
        self.listener = replace(self.listener, advertised=address)
        self._nodes.clear()
        self.set_port(self.port)

    def _create_node(self, own_host: str) -> Node:
        advertised = self.listener.advertised
        if advertised is not None:
            return Node(self.node_id, advertised.host, advertised.port or self.port, self.listener.name)
        return Node(self.node_id, own_host, self.port, self.listener.name)

    @property
    def bound_address(self) -> Address:
        """Return the bound address with its port."""
        return self.listener.address.with_bound_port(self.port)

    @property
    def advertised_address(self) -> Address | None:
        """Return the advertised address. None means that each client gets the address that it connected to."""
        if self.listener.advertised is None and self.listener.address.is_wildcard:
            return None
        return Address(self.fallback_node.host, self.fallback_node.port)

    def find_node(self, sockname: object) -> Node:
        """Return this broker as a connection should know it. `sockname` is the local end of the socket."""
        if self.listener.advertised is not None or not self.listener.address.is_wildcard:
            return self.fallback_node
        host = str(sockname[0]).removeprefix("::ffff:") if isinstance(sockname, tuple) else ""
        if not host:
            return self.fallback_node
        node = self._nodes.get(host)
        if node is None:
            node = self._nodes[host] = self._create_node(host)
        return node

    # Reports of connections

    def on_connection_rejected(self, connection: OpenConnection, reason: str) -> None:
        """Count and log a rejected connection."""
        self._connections.refused += 1
        self._log_warning(connection, "Rejected connection from", reason)

    def on_connection_closed(self, connection: OpenConnection) -> None:
        """Remove a closed connection."""
        self._connections.remove(connection)

    def on_invalid_request(self, connection: OpenConnection, reason: str) -> None:
        """Count and log an invalid request. The connection closes itself."""
        self._connections.refused += 1
        self._log_warning(connection, "Closing connection from", printable(reason, MAX_REASON))

    def on_authentication_failed(self, connection: OpenConnection, mechanism: str, reason: str) -> None:
        """Log a failed authentication. `mechanism` is "" if it is unknown."""
        self._log_authentication_failure(connection, f", {mechanism}" if mechanism else "", reason)

    def on_handshake_failed(self, connection: OpenConnection, failure: HandshakeFailure) -> None:
        """Count and log a failed TLS handshake."""
        self._connections.failed_handshakes[failure.kind] += 1
        self._log_authentication_failure(connection, ", TLS handshake", failure.reason)

    def _log_authentication_failure(self, connection: OpenConnection, where: str, reason: str) -> None:
        if self._connections.line_limit.admit_line(connection.client.host):
            _LOG.info(
                "Failed authentication with %s (%s%s): %s",
                *(connection.client.peer, self.listener.name, where, printable(reason, MAX_REASON)),
            )

    def _log_warning(self, connection: OpenConnection, what: str, reason: str) -> None:
        if self._connections.line_limit.admit_line(connection.client.host):
            _LOG.warning("%s %s: %s", what, connection.client.peer, reason)

    def on_handler_failed(self, connection: OpenConnection, problem: Exception) -> None:
        """Log a request that failed because of a defect of groupd. The connection closes itself."""
        _LOG.error(
            "Closing connection from %s: a request could not be answered",
            connection.client.peer,
            exc_info=problem,
        )
