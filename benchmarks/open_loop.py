"""An open-loop load: requests at an externally given rate.

A client that waits for each response sends less while a server stalls. A stall of a second then shows as one slow
request, not as all requests of that second (coordinated omission). Here the send time of every request is planned
in advance, and its latency counts from the planned time, even if it is sent later.
"""

import gc
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, NamedTuple, Protocol

from benchmarks.flood import Side

ANSWER_SECONDS: Final = 30.0
"""The seconds without a response, after the last planned request, that end the measurement."""
_READ_BYTES: Final = 65_536


class Plan(NamedTuple):
    """Evenly spaced requests, round-robin over the connections."""

    per_second: float
    seconds: float
    connections: int

    @property
    def requests(self) -> int:
        """Return the number of requests."""
        return int(self.per_second * self.seconds)

    def at(self, request: int) -> float:
        """Return the planned time of a request in seconds from the start."""
        return request / self.per_second


@dataclass(frozen=True)
class Offered:
    """The measurements of a client, in seconds, sorted."""

    latencies: Sequence[float]
    """From the planned time of each request to its response."""
    late: Sequence[float]
    """The delay of each send after its planned time: the load generator's share of the latencies."""


class Wire(Protocol):
    """The connections to a server. Each connection returns responses in request order."""

    def send(self, connection: int) -> None:
        """Send the next request."""

    def receive(self, seconds: float) -> Iterable[tuple[int, int]]:
        """Wait at most `seconds` for responses. Return the connections with their numbers of responses."""


@dataclass
class _Account:
    """The planned times of the outstanding requests."""

    connections: int
    latencies: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._planned: list[deque[float]] = [deque() for _ in range(self.connections)]
        self.in_flight = 0

    def sent(self, connection: int, planned: float, now: float) -> None:
        self._planned[connection].append(planned)
        self.late.append(now - planned)
        self.in_flight += 1

    def answered(self, connection: int, answers: int, now: float) -> None:
        for _ in range(answers):
            self.latencies.append(now - self._planned[connection].popleft())
            self.in_flight -= 1


def offer(plan: Plan, wire: Wire, clock: Callable[[], float] = perf_counter) -> Offered:
    """Send all planned requests and wait for the responses.

    Raises:
        TimeoutError: responses are missing.
    """
    account, sent = _Account(plan.connections), 0
    began = heard = clock()
    while sent < plan.requests or account.in_flight:
        now = clock()
        while sent < plan.requests and began + plan.at(sent) <= now:
            connection = sent % plan.connections
            wire.send(connection)
            account.sent(connection, began + plan.at(sent), now)
            sent += 1
            heard = now
        wait = max(0.0, began + plan.at(sent) - clock()) if sent < plan.requests else ANSWER_SECONDS
        for connection, answers in wire.receive(wait):
            heard = clock()
            account.answered(connection, answers, heard)
        if account.in_flight and clock() - heard >= ANSWER_SECONDS:
            raise TimeoutError(f"{account.in_flight} requests were never answered")
    return Offered(sorted(account.latencies), sorted(account.late))


class Sockets:
    """Connections to a server that cycle through the requests of a side and verify the responses.

    They wait with select(), which has a finer resolution than the event loop's milliseconds.
    """

    def __init__(self, side: Side) -> None:
        """Connect. All responses on a connection must be identical."""
        self._requests = [repeated.requests for repeated in side.connections]
        self._answers = [repeated.answers[0] for repeated in side.connections]
        assert all(len(set(repeated.answers)) == 1 for repeated in side.connections), "the answers differ"
        address = side.server.host, side.server.port
        self._sockets = [socket.create_connection(address) for _ in side.connections]
        for connected in self._sockets:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number = {connected: number for number, connected in enumerate(self._sockets)}
        self._next = [0] * len(self._sockets)
        self._partial = [0] * len(self._sockets)

    def send(self, connection: int) -> None:
        """Send the next request of the cycle."""
        turn = self._next[connection]
        self._next[connection] = (turn + 1) % len(self._requests[connection])
        self._sockets[connection].sendall(self._requests[connection][turn])

    def receive(self, seconds: float) -> Iterable[tuple[int, int]]:
        """Wait for responses.

        Raises:
            ConnectionError: a response differs from the expected one.
        """
        readable, _, _ = select.select(self._sockets, [], [], seconds)
        for connected in readable:
            number = self._number[connected]
            data, answer, start = connected.recv(_READ_BYTES), self._answers[number], self._partial[number]
            end = start + len(data)
            if not data or data != (answer * (end // len(answer) + 1))[start:end]:
                raise ConnectionError(f"closed, or another answer than expected: {data[:64].hex()}")
            answers, self._partial[number] = divmod(end, len(answer))
            yield number, answers

    def close(self) -> None:
        """Close all connections."""
        for connected in self._sockets:
            connected.close()


def offer_to(side: Side, plan: Plan) -> Offered:
    """Run a plan with the requests of a side while the garbage collector is disabled."""
    sockets = Sockets(side)
    gc.collect()
    gc.disable()
    try:
        return offer(plan, sockets)
    finally:
        gc.enable()
        sockets.close()
