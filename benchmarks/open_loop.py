"""Requests at a rate that somebody else decides: the open loop.

Who waits for each answer before asking again asks less while a server stalls: of a second's stall there is one slow
request to see, and not all those that a second would have brought (coordinated omission). Here the time of every
request is planned before the first goes out, and its latency counts from then, whenever it could really be sent.
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
"""Of silence after the last request was planned, from which on answers are not awaited any more."""
_READ_BYTES: Final = 65_536


class Plan(NamedTuple):
    """Requests at even distances, the connections in turn."""

    per_second: float
    seconds: float
    connections: int

    @property
    def requests(self) -> int:
        """How many there are."""
        return int(self.per_second * self.seconds)

    def at(self, request: int) -> float:
        """When a request is to go out, in seconds from the beginning."""
        return request / self.per_second


@dataclass(frozen=True)
class Offered:
    """What a client saw. All in seconds, sorted."""

    latencies: Sequence[float]
    """From when each request was planned to its answer."""
    late: Sequence[float]
    """How much after its plan each was sent: what of the latencies is the load generator's own."""


class Wire(Protocol):
    """The connections to a server. Answers come in the order of the requests of their connection."""

    def send(self, connection: int) -> None:
        """Sends the next request."""

    def receive(self, seconds: float) -> Iterable[tuple[int, int]]:
        """Waits for answers, so long at most; connections and how many answers came on each."""


@dataclass
class _Account:
    """Whose answers are awaited, since when."""

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
    """Sends all that is planned and waits for the answers. Raises TimeoutError when some never come."""
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
    """Connections of their own to a server, which send the requests of others in turn and expect their answers.

    They wait with select(), which knows fractions of a millisecond where the event loop does not.
    """

    def __init__(self, side: Side) -> None:
        """Connects. The answers to the requests of a connection have to be all one."""
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
        """Sends the request whose turn it is."""
        turn = self._next[connection]
        self._next[connection] = (turn + 1) % len(self._requests[connection])
        self._sockets[connection].sendall(self._requests[connection][turn])

    def receive(self, seconds: float) -> Iterable[tuple[int, int]]:
        """Waits for answers. Raises ConnectionError for one that is not as it was."""
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
        """Closes all connections."""
        for connected in self._sockets:
            connected.close()


def offer_to(side: Side, plan: Plan) -> Offered:
    """Offers a server the requests of its side, the garbage collector at rest meanwhile."""
    sockets = Sockets(side)
    gc.collect()
    gc.disable()
    try:
        return offer(plan, sockets)
    finally:
        gc.enable()
        sockets.close()
