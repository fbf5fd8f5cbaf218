"""All connections of all listeners: enforces their limits, and closes idle ones.

Source: KIP-402 and KIP-612 for the limits, Kafka's `ConnectionQuotas`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, Protocol

from coordinator.core import clock
from coordinator.core.daemon_log import AddressLineLimit
from coordinator.network.connection_limits import ConnectionLimits, Receiver, RequestMemory, UnreadResponses
from coordinator.network.large_messages import LargeRequestDecoder, LargeResponseWriter
from coordinator.network.request_context import ClientInfo
from coordinator.network.tls_handshakes import TlsHandshakes

_LOG = logging.getLogger("SocketServer")

MAX_CLOSED_REMEMBERED: Final = 10_000
"""The maximum number of closed connections with remembered times."""


class OpenConnection(Receiver, Protocol):
    """The part of a connection that `Connections` uses."""

    @property
    def client(self) -> ClientInfo:
        """The client at the other end."""

    def repeated_requests(self) -> Iterable[object]:
        """Return the requests that the client repeats."""

    @property
    def last_received_ns(self) -> int:
        """The time of the last byte that arrived or was sent, monotonic nanoseconds."""

    @property
    def unanswered_requests(self) -> int:
        """The number of processed requests that have no response yet."""

    @property
    def answer_bytes(self) -> int:
        """Return the size in bytes of unsent responses."""

    def is_idle_since(self, oldest_ns: int) -> bool:
        """Return whether no byte arrived or left since `oldest_ns` and no request is pending."""

    def close(self) -> None:
        """Send the ready responses, then close."""

    def abort(self) -> None:
        """Close the connection at once."""


class Connections:
    """All connections of all listeners."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ConnectionLimits) -> None:
        self.loop = loop
        self.limits = limits
        self.open: dict[OpenConnection, str] = {}
        """Open connections with the address of the peer."""
        self.accepted = 0
        self.refused = 0
        """Connections that were refused, or closed because of an invalid request."""
        self.closed_idle = 0
        self.failed_handshakes: Counter[str] = Counter()
        """The number of failed handshakes by kind. `tls_handshakes.py` defines the kinds."""
        self.emptied = asyncio.Event()
        """Set while no connection is open."""
        self.emptied.set()
        self.line_limit = AddressLineLimit()
        self.handshakes = TlsHandshakes(loop)
        self.memory = RequestMemory(limits.queued_max_request_bytes)
        self.unread_responses = UnreadResponses()
        self.large_responses = LargeResponseWriter(loop)
        self.large_requests = LargeRequestDecoder(loop, self.memory)
        self.next_id: Callable[[], int] = count(1).__next__
        """Returns a new connection number. Later connections have higher numbers."""
        self._by_id: dict[int, OpenConnection] = {}
        self._closed: dict[int, tuple[int, int, int]] = {}
        """Closed connections by number: the time of the last byte, the time of the close (both in monotonic
        nanoseconds), and the number of the newest connection at the close."""
        self._newest_id = 0
        self._per_address: Counter[str] = Counter()
        self._capacity_callbacks: list[Callable[[], None]] = []
        self._full_since_ns = 0
        self._full_ns = 0

    @property
    def is_full(self) -> bool:
        """Whether `max.connections` connections are open."""
        return len(self.open) >= self.limits.max_connections

    @property
    def full_seconds(self) -> float:
        """The total time in seconds, since the start, in which new connections had to wait for capacity."""
        waiting_ns = clock.monotonic_ns() - self._full_since_ns if self._capacity_callbacks else 0
        return (self._full_ns + waiting_ns) / 1e9

    def call_on_capacity(self, on_capacity: Callable[[], None]) -> None:
        """Call `on_capacity` once when the number of connections falls below the limit."""
        if not self._capacity_callbacks:
            self._full_since_ns = clock.monotonic_ns()
            _LOG.warning(
                "The limit of %d connections (max.connections) is reached: new ones wait", len(self.open)
            )
        self._capacity_callbacks.append(on_capacity)

    def admit(self, connection: OpenConnection) -> str | None:
        """Add a connection. Return None, or the reason for a rejection if its address has too many connections."""
        address = connection.client.host[1:]
        limit = self.limits.per_ip_overrides.get(address, self.limits.max_connections_per_ip)
        if self._per_address[address] >= limit:
            return (
                f"address already has the configured maximum of {limit} connections (max.connections.per.ip)"
            )
        self.open[connection] = address
        self._by_id[connection.client.connection_id] = connection
        self._newest_id = connection.client.connection_id
        self.emptied.clear()
        self._per_address[address] += 1
        self.accepted += 1
        return None

    def remove(self, connection: OpenConnection) -> None:
        """Remove a closed connection. A connection that was never admitted is ignored."""
        address = self.open.pop(connection, None)
        if address is None:
            return
        connection_id = connection.client.connection_id
        self._by_id.pop(connection_id, None)
        self._closed[connection_id] = (connection.last_received_ns, clock.monotonic_ns(), self._newest_id)
        if len(self._closed) > MAX_CLOSED_REMEMBERED:
            del self._closed[next(iter(self._closed))]
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
        if not self.open:
            self.emptied.set()
        if self._capacity_callbacks and not self.is_full:
            waited_ns = clock.monotonic_ns() - self._full_since_ns
            self._full_ns += waited_ns
            _LOG.info("Accepting connections again after %.1f s", waited_ns / 1e9)
            waiting, self._capacity_callbacks = self._capacity_callbacks, []
            for there_is_place in waiting:
                there_is_place()

    def closed_ms_ago(self, connection_id: int) -> int | None:
        """Return the milliseconds since a connection closed, or None if it is open or no longer remembered."""
        closed = self._closed.get(connection_id)
        return None if closed is None else _elapsed_ms(closed[1])

    def newest_at_close(self, connection_id: int) -> int:
        """Return the number of the newest connection at the time when a connection closed, or 0 if unknown.

        Later connections have higher numbers.
        """
        closed = self._closed.get(connection_id)
        return 0 if closed is None else closed[2]

    def silent_ms(self, connection_id: int) -> int | None:
        """Return the milliseconds since the last byte of a connection, or None if it is no longer remembered."""
        connection = self._by_id.get(connection_id)
        if connection is not None:
            return _elapsed_ms(connection.last_received_ns)
        closed = self._closed.get(connection_id)
        return None if closed is None else _elapsed_ms(closed[0])

    def close_broker_connections(self, node_id: int) -> None:
        """Close the connections of one broker after sending their ready responses."""
        for connection in [each for each in self.open if each.client.node.node_id == node_id]:
            connection.close()

    async def close_all(self, timeout_s: float) -> None:
        """Close all connections after sending their ready responses. Abort the rest after `timeout_s` seconds."""
        for connection in list(self.open):
            connection.close()
        try:
            await asyncio.wait_for(self.emptied.wait(), timeout_s)
        except TimeoutError:
            self.abort_all()

    def abort_all(self) -> None:
        """Close all connections at once."""
        for connection in list(self.open):
            connection.abort()

    def close_idle(self) -> None:
        """Close the connections that were idle for too long and have no pending request."""
        if self.limits.connections_max_idle_ms < 0:
            return
        oldest_ns = clock.monotonic_ns() - self.limits.connections_max_idle_ms * 1_000_000
        idle = [connection for connection in self.open if connection.is_idle_since(oldest_ns)]
        for connection in idle:
            connection.abort()
        self.closed_idle += len(idle)
        if idle:
            _LOG.info(
                "Closed %d connections that were silent for %d ms (connections.max.idle.ms), %s among them",
                len(idle),
                self.limits.connections_max_idle_ms,
                idle[0].client.peer,
            )


def _elapsed_ms(instant_ns: int) -> int:
    return (clock.monotonic_ns() - instant_ns) // 1_000_000
