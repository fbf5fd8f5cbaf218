"""Which connections are let in, what they are told to connect to, and what is said when one misbehaves.

Source: KIP-402 and KIP-612 for the limits, Kafka's `SocketServer`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from coordinator import clock
from coordinator.config.listeners import Address, Listener
from coordinator.names import Node
from coordinator.net.complaints import Complaints
from coordinator.net.connection_limits import ConnectionLimits
from coordinator.net.outbox import Outbox
from coordinator.net.peer import printable
from coordinator.net.reception import Guest
from coordinator.net.request_memory import RequestMemory
from coordinator.net.routes import Routes
from coordinator.net.unread_answers import UnreadAnswers

_LOG = logging.getLogger("SocketServer")

MAX_REASON = 400
_WILDCARD_FALLBACK = "127.0.0.1"


class Connections:
    """All connections of all listeners."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: dict[Guest, str] = {}
        """With the address of the peer."""
        self.accepted = 0
        self.refused = 0
        """Turned away, or closed for what they sent."""
        self.closed_idle = 0
        self.emptied = asyncio.Event()
        """Set while there is no connection."""
        self.emptied.set()
        self.complaints = Complaints()
        self.memory = RequestMemory(limits.queued_max_request_bytes)
        self.unread = UnreadAnswers()
        self._per_address: Counter[str] = Counter()
        self._awaiting_place: list[Callable[[], None]] = []
        self._full_since_ns = 0
        self._full_ns = 0

    @property
    def is_full(self) -> bool:
        """Whether there are as many as there may be."""
        return len(self.open) >= self.limits.max_connections

    @property
    def full_seconds(self) -> float:
        """How long new connections have had to wait, since the start."""
        waiting_ns = clock.monotonic_ns() - self._full_since_ns if self._awaiting_place else 0
        return (self._full_ns + waiting_ns) / 1e9

    def await_place(self, door_opens: Callable[[], None]) -> None:
        """Calls `door_opens` when there is place for a new connection again."""
        if not self._awaiting_place:
            self._full_since_ns = clock.monotonic_ns()
            _LOG.warning("%d connections are open (max.connections): new ones have to wait", len(self.open))
        self._awaiting_place.append(door_opens)

    def admit(self, guest: Guest) -> str | None:
        """Takes a connection in; why not, when there are too many from its address."""
        address = guest.client_host[1:]
        most = self.limits.per_ip_overrides.get(address, self.limits.max_connections_per_ip)
        if self._per_address[address] >= most:
            return (
                f"address already has the configured maximum of {most} connections (max.connections.per.ip)"
            )
        self.open[guest] = address
        self.emptied.clear()
        self._per_address[address] += 1
        self.accepted += 1
        return None

    def remove(self, guest: Guest) -> None:
        """Forgets a connection that is closed; one that was never admitted is none."""
        address = self.open.pop(guest, None)
        if address is None:
            return
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
        if not self.open:
            self.emptied.set()
        if self._awaiting_place and not self.is_full:
            waited_ns = clock.monotonic_ns() - self._full_since_ns
            self._full_ns += waited_ns
            _LOG.info("There is place for new connections again after %.1f s", waited_ns / 1e9)
            doors, self._awaiting_place = self._awaiting_place, []
            for door_opens in doors:
                door_opens()

    def close_idle(self) -> None:
        """Closes what has been silent for too long, save where an answer is being waited for."""
        if self.limits.max_idle_ms < 0:
            return
        oldest_ns = clock.monotonic_ns() - self.limits.max_idle_ms * 1_000_000
        idle = [connection for connection in self.open if connection.is_idle_since(oldest_ns)]
        for connection in idle:
            connection.abort()
        self.closed_idle += len(idle)
        if idle:
            _LOG.info(
                "Closed %d connections that were silent for %d ms (connections.max.idle.ms), %s among them",
                len(idle),
                self.limits.max_idle_ms,
                idle[0].peer,
            )


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
        routes: Routes,
    ) -> None:
        """In: the table by which its connections are answered; another one may take its place."""
        self.loop = loop
        self.listener = listener
        self.outbox = outbox
        self.turn = turn
        self.routes = routes
        self.memory = connections.memory
        self.unread = connections.unread
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
        return self.listener.address.bound(self.port)

    @property
    def advertised_address(self) -> Address | None:
        """What clients are told to connect to; None: each the address that it connected to."""
        if self.listener.advertised is None and self.listener.address.is_wildcard:
            return None
        return Address(self.fallback_node.host, self.fallback_node.port)

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

    def turned_away(self, guest: Guest, reason: str) -> None:
        """A connection was not let in."""
        self._connections.refused += 1
        self._complain(guest, "Rejected connection from", reason)

    def closed(self, guest: Guest) -> None:
        """A connection is gone."""
        self._connections.remove(guest)

    def refused(self, guest: Guest, reason: str) -> None:
        """A connection sent something that is no request, and is being closed."""
        self._connections.refused += 1
        self._complain(guest, "Closing connection from", printable(reason, MAX_REASON))

    def _complain(self, guest: Guest, what: str, reason: str) -> None:
        if self._connections.complaints.is_to_be_told(guest.client_host):
            _LOG.warning("%s %s: %s", what, guest.peer, reason)

    def handler_failed(self, guest: Guest, problem: Exception) -> None:
        """Answering a request failed for a reason that is ours; the connection is being closed."""
        _LOG.error(
            "Closing connection from %s: a request could not be answered", guest.peer, exc_info=problem
        )
