"""The door: which connections are let in, what they are told to connect to, and what is said when one misbehaves.

Source: KIP-402 and KIP-612 for the limits, Kafka's `SocketServer`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from coordinator.config.listeners import Address, Listener
from coordinator.server import clock
from coordinator.server.connection import Connection
from coordinator.server.outbox import Outbox
from coordinator.server.peer import printable
from coordinator.server.route import Route
from coordinator.topics.answer import Node

_LOG = logging.getLogger("SocketServer")

MAX_REASON = 400
_WILDCARD_FALLBACK = "127.0.0.1"


@dataclass(slots=True)
class ConnectionLimits:
    """Kafka's bounds on connections. Times in milliseconds, sizes in bytes; a negative idle time is for ever."""

    max_request_bytes: int
    max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)


class Connections:
    """All connections of all listeners."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: dict[Connection, str] = {}
        """With the address of the peer."""
        self.accepted = 0
        self.refused = 0
        self.emptied = asyncio.Event()
        """Set while there is no connection."""
        self.emptied.set()
        self._per_address: Counter[str] = Counter()

    def admit(self, connection: Connection) -> str | None:
        """Takes a connection in; why not, when there are too many."""
        address = connection.client_host[1:]
        limits = self.limits
        if len(self.open) >= limits.max_connections:
            return f"there are {len(self.open)} connections already (max.connections)"
        most = limits.per_ip_overrides.get(address, limits.max_connections_per_ip)
        if self._per_address[address] >= most:
            return f"{address} has {most} connections already (max.connections.per.ip)"
        self.open[connection] = address
        self.emptied.clear()
        self._per_address[address] += 1
        self.accepted += 1
        return None

    def remove(self, connection: Connection) -> None:
        """Forgets a connection that is closed; one that was never admitted is none."""
        address = self.open.pop(connection, None)
        if address is None:
            return
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
        if not self.open:
            self.emptied.set()

    def close_idle(self) -> None:
        """Closes what has been silent for too long, save where an answer is being waited for."""
        if self.limits.max_idle_ms < 0:
            return
        oldest_ns = clock.monotonic_ns() - self.limits.max_idle_ms * 1_000_000
        idle = [
            connection
            for connection in self.open
            if connection.last_received_ns < oldest_ns and connection.is_idle
        ]
        for connection in idle:
            connection.abort()


class Acceptor:
    """One listener's side of its connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: Listener,
        connections: Connections,
        outbox: Outbox,
        turn: clock.Turn,
        node_id: int,
        routes: dict[int, Route],
        route: Callable[[int], Route | None],
        refuse_version: Callable[[int, int], bytes | bytearray],
    ) -> None:
        """In: the table of routes by api key and version as one number (key << 16 | version), and who fills it
        (None for a version that is not served) and who answers what is not served (or raises Malformed).
        """
        self.loop = loop
        self.listener = listener
        self.outbox = outbox
        self.turn = turn
        self.routes = routes
        self.route = route
        self.refuse_version = refuse_version
        self.max_request_bytes = connections.limits.max_request_bytes
        self.port = listener.address.port
        """Where the listener is bound; known once it is open."""
        self.fallback_node = Node(node_id, "", -1)
        self._connections = connections
        self._node_id = node_id
        self._nodes: dict[str, Node] = {}

    def bound(self, port: int) -> None:
        """Tells which port the listener got."""
        self.port = port
        address = self.listener.address
        host = _WILDCARD_FALLBACK if address.is_wildcard else address.host
        self.fallback_node = self._node(host)

    def _node(self, own_host: str) -> Node:
        advertised = self.listener.advertised
        if advertised is not None:
            return Node(self._node_id, advertised.host, advertised.port or self.port)
        return Node(self._node_id, own_host, self.port)

    @property
    def bound_address(self) -> Address:
        """What the listener is bound to."""
        return Address(self.listener.address.host, self.port)

    def node_for(self, sockname: object) -> Node:
        """This broker as a connection should know it; `sockname` is the local end of its socket."""
        if self.listener.advertised is not None or not self.listener.address.is_wildcard:
            return self.fallback_node
        host = str(sockname[0]).removeprefix("::ffff:") if isinstance(sockname, tuple) else ""
        if not host:
            return self.fallback_node
        node = self._nodes.get(host)
        if node is None:
            node = self._nodes[host] = self._node(host)
        return node

    # What a connection reports

    def opened(self, connection: Connection) -> str | None:
        """A connection was made; why it must go at once, or None."""
        refusal = self._connections.admit(connection)
        if refusal is not None:
            self._connections.refused += 1
            _LOG.warning("Turned away %s: %s", connection.peer, refusal)
        return refusal

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.remove(connection)

    def refused(self, connection: Connection, reason: str) -> None:
        """A connection sent something that is no request, and is being closed."""
        self._connections.refused += 1
        _LOG.warning("Closing connection from %s: %s", connection.peer, printable(reason, MAX_REASON))

    def handler_failed(self, connection: Connection, problem: Exception) -> None:
        """Answering a request failed for a reason that is ours; the connection is being closed."""
        _LOG.error(
            "Closing connection from %s: a request could not be answered", connection.peer, exc_info=problem
        )
