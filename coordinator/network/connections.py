"""All connections of all listeners: which are let in, and which have been silent for too long.

Source: KIP-402 and KIP-612 for the limits, Kafka's `ConnectionQuotas`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, Protocol

from coordinator import clock
from coordinator.names import Node
from coordinator.net.connection_limits import ConnectionLimits
from coordinator.net.handshakes import Handshakes
from coordinator.net.large_answers import LargeAnswers
from coordinator.net.large_requests import LargeRequests
from coordinator.net.lines_per_address import LinesPerAddress
from coordinator.net.request_memory import Receiver, RequestMemory
from coordinator.net.unread_answers import UnreadAnswers

_LOG = logging.getLogger("SocketServer")

CLOSED_REMEMBERED: Final = 10_000
"""Connections that are gone of which it is known since when."""


class OpenConnection(Receiver, Protocol):
    """A connection, as its endpoint sees it."""

    @property
    def peer(self) -> str:
        """Host and port, for a log line."""

    @property
    def client_host(self) -> str:
        """The address, with Java's leading slash."""

    @property
    def client_id(self) -> str:
        """What its client calls itself; "" before its first request."""

    @property
    def connection_id(self) -> int:
        """Its number."""

    def repeated_requests(self) -> Iterable[object]:
        """What it sends again and again."""

    @property
    def last_received_ns(self) -> int:
        """When bytes last came, or left, in monotonic nanoseconds."""

    @property
    def open_answers(self) -> int:
        """Requests that were processed and have no answer yet."""

    @property
    def answer_bytes(self) -> int:
        """The size of the answers that have not left yet."""

    @property
    def node(self) -> Node:
        """The broker that it came to."""

    def is_idle_since(self, oldest_ns: int) -> bool:
        """Whether nothing came or left since then, and nothing is being answered."""

    def close(self) -> None:
        """Sends what is ready, then closes."""

    def abort(self) -> None:
        """Closes at once."""


class Connections:
    """All connections of all listeners."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.open: dict[OpenConnection, str] = {}
        """With the address of the peer."""
        self.accepted = 0
        self.refused = 0
        """Turned away, or closed for what they sent."""
        self.closed_idle = 0
        self.failed_handshakes: Counter[str] = Counter()
        """By the kinds of `handshake_failure.py`."""
        self.emptied = asyncio.Event()
        """Set while there is no connection."""
        self.emptied.set()
        self.lines = LinesPerAddress()
        self.handshakes = Handshakes(loop)
        self.memory = RequestMemory(limits.queued_max_request_bytes)
        self.unread = UnreadAnswers()
        self.large_answers = LargeAnswers(loop)
        self.large_requests = LargeRequests(loop, self.memory)
        self.next_id: Callable[[], int] = count(1).__next__
        """Gives a number that no connection had before."""
        self._by_id: dict[int, OpenConnection] = {}
        self._closed: dict[int, tuple[int, int, int]] = {}
        """By number: when bytes last came, or left, when it was closed, and the number of the newest one then."""
        self._newest_id = 0
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

    def await_place(self, there_is_place: Callable[[], None]) -> None:
        """Calls `there_is_place` when there is place for a new connection again."""
        if not self._awaiting_place:
            self._full_since_ns = clock.monotonic_ns()
            _LOG.warning("%d connections are open (max.connections): new ones have to wait", len(self.open))
        self._awaiting_place.append(there_is_place)

    def admit(self, connection: OpenConnection) -> str | None:
        """Takes a connection in; why not, when there are too many from its address."""
        address = connection.client_host[1:]
        most = self.limits.per_ip_overrides.get(address, self.limits.max_connections_per_ip)
        if self._per_address[address] >= most:
            return (
                f"address already has the configured maximum of {most} connections (max.connections.per.ip)"
            )
        self.open[connection] = address
        self._by_id[connection.connection_id] = connection
        self._newest_id = connection.connection_id
        self.emptied.clear()
        self._per_address[address] += 1
        self.accepted += 1
        return None

    def remove(self, connection: OpenConnection) -> None:
        """Forgets a connection that is closed; one that was never admitted is none."""
        address = self.open.pop(connection, None)
        if address is None:
            return
        connection_id = connection.connection_id
        self._by_id.pop(connection_id, None)
        self._closed[connection_id] = (connection.last_received_ns, clock.monotonic_ns(), self._newest_id)
        if len(self._closed) > CLOSED_REMEMBERED:
            del self._closed[next(iter(self._closed))]
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
        if not self.open:
            self.emptied.set()
        if self._awaiting_place and not self.is_full:
            waited_ns = clock.monotonic_ns() - self._full_since_ns
            self._full_ns += waited_ns
            _LOG.info("There is place for new connections again after %.1f s", waited_ns / 1e9)
            waiting, self._awaiting_place = self._awaiting_place, []
            for there_is_place in waiting:
                there_is_place()

    def closed_ms_ago(self, connection_id: int) -> int | None:
        """How long a connection has been closed; None where it is open, or that was too many connections ago."""
        closed = self._closed.get(connection_id)
        return None if closed is None else _ms_since(closed[1])

    def newest_at_close(self, connection_id: int) -> int:
        """The number of the newest connection that there was when one was closed: later ones have higher numbers.
        0 where that is not known."""
        closed = self._closed.get(connection_id)
        return 0 if closed is None else closed[2]

    def silent_ms(self, connection_id: int) -> int | None:
        """How long ago bytes last came over a connection, or left; None where that was too many connections ago."""
        connection = self._by_id.get(connection_id)
        if connection is not None:
            return _ms_since(connection.last_received_ns)
        closed = self._closed.get(connection_id)
        return None if closed is None else _ms_since(closed[0])

    def close_of(self, node_id: int) -> None:
        """Closes the connections of one broker when what they have to send is sent."""
        for connection in [each for each in self.open if each.node.node_id == node_id]:
            connection.close()

    async def close_all(self, timeout_s: float) -> None:
        """Closes them when what they have to send is sent, and after so long without that."""
        for connection in list(self.open):
            connection.close()
        try:
            await asyncio.wait_for(self.emptied.wait(), timeout_s)
        except TimeoutError:
            for connection in list(self.open):
                connection.abort()

    def close_idle(self) -> None:
        """Closes what has been silent for too long, save where an answer is being waited for."""
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
                idle[0].peer,
            )


def _ms_since(instant_ns: int) -> int:
    return (clock.monotonic_ns() - instant_ns) // 1_000_000
