"""The load: repeated identical frames with a fixed number in flight on each connection.

It must use less CPU than any measured server. Therefore it neither encodes nor decodes during a flood. Each
response must equal, byte for byte, the response to the same request before the flood, except for one varying field.
A read of several responses triggers one write with the same number of requests.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Final, NamedTuple

from benchmarks.connection import Connection
from benchmarks.process import Server

MAX_CACHED_TURN: Final = 16
"""The longest request cycle with cached writes. A longer cycle has too many combinations."""


def waited_ms(latencies: Sequence[float], quantile: float) -> float:
    """Return a quantile of sorted latencies in seconds, in milliseconds."""
    return latencies[min(int(len(latencies) * quantile), len(latencies) - 1)] * 1000


@dataclass(frozen=True)
class Measured:
    """The measurements of one flood."""

    requests: int
    wall_seconds: float
    cpu_seconds: float
    latencies: Sequence[float]

    @property
    def per_cpu_second(self) -> float:
        """Requests per second of the server's CPU time."""
        return self.requests / self.cpu_seconds

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return self.requests / self.wall_seconds

    def waited_ms(self, quantile: float) -> float:
        """Return a latency quantile in milliseconds. The flood must have measured latencies."""
        return waited_ms(self.latencies, quantile)

    @property
    def cpu_share(self) -> float:
        """Return the CPU load of the server: 1.0 is one core all the time."""
        return self.cpu_seconds / self.wall_seconds


@dataclass(frozen=True)
class Repeated:
    """A connection that is ready to flood, its cycle of requests, and the expected response to each."""

    connection: Connection
    requests: Sequence[bytes]
    answers: Sequence[bytes]
    """In the same order. Their number divides the number of requests."""
    varying: slice | None = None
    """The bytes of every response that are not compared, such as an increasing offset."""

    @classmethod
    async def prepare(
        cls,
        connection: Connection,
        requests: Sequence[bytes],
        probes: int | None = None,
        varying: slice | None = None,
    ) -> "Repeated":
        """Send the first `probes` requests once, or all, to record the responses, which must have equal lengths.

        `varying` are the bytes of every response that may differ.
        """
        answers = [await connection.exchange(request) for request in requests[:probes]]
        assert len({len(answer) for answer in answers}) == 1, "answers differ in their length"
        assert len(requests) % len(answers) == 0, "the answers do not repeat with the requests"
        return cls(connection, requests, answers, varying)


class _Flooding(asyncio.Protocol):
    """One connection during the flood."""

    def __init__(self, repeated: Repeated, depth: int) -> None:
        self.repeated = repeated
        self.depth = depth
        self.answered = 0
        self.in_flight = 0
        self.running = False
        self.latencies: list[float] = []
        self.drained = asyncio.get_running_loop().create_future()
        self._transport = repeated.connection.transport
        self._turn = len(repeated.requests)
        self._next = 0
        self._bursts: dict[tuple[int, int], bytes] = {}
        self._answer_size = len(repeated.answers[0])
        self._turn_size = len(repeated.answers) * self._answer_size
        # All response sequences that can arrive at once, by their start in the cycle.
        self._answers = b"".join(repeated.answers) * (2 + depth // len(repeated.answers))
        self._varying = repeated.varying
        if self._varying is not None:
            self._answers = self._without_varying(self._answers, 0)
        self._received = 0
        self._sent_at = 0.0

    def start(self) -> None:
        self.running = True
        self.in_flight = self.depth
        self._transport.set_protocol(self)
        self._sent_at = perf_counter()
        self._transport.write(self._burst(self.depth))

    def _burst(self, count: int) -> bytes:
        """Return the next `count` requests of the cycle."""
        first = self._next
        self._next = (first + count) % self._turn
        burst = self._bursts.get((first, count))
        if burst is None:
            requests = self.repeated.requests
            burst = b"".join([requests[(first + each) % self._turn] for each in range(count)])
            if self._turn <= MAX_CACHED_TURN:
                self._bursts[first, count] = burst
        return burst

    def _without_varying(self, data: bytes, start: int) -> bytes:
        """Return responses with zeroed varying bytes. `start` is their position in the cycle."""
        assert self._varying is not None
        zeroed = bytearray(data)
        size = self._answer_size
        for answer in range(-(start % size), len(data), size):
            first = max(answer + self._varying.start, 0)
            last = min(answer + self._varying.stop, len(data))
            if first < last:
                zeroed[first:last] = bytes(last - first)
        return bytes(zeroed)

    def data_received(self, data: bytes) -> None:
        start = self._received
        end = start + len(data)
        received = data if self._varying is None else self._without_varying(data, start)
        if received != self._answers[start:end]:
            self._fail(f"another answer than expected: {data[:64].hex()}")
            return
        count = end // self._answer_size - start // self._answer_size
        self._received = end % self._turn_size
        self.answered += count
        if self.depth == 1 and count:
            now = perf_counter()
            self.latencies.append(now - self._sent_at)
            self._sent_at = now
        if self.running:
            self._transport.write(self._burst(count))
        else:
            self.in_flight -= count
            if self.in_flight == 0 and not self.drained.done():
                self.drained.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(f"closed by the server: {error}")

    def _fail(self, reason: str) -> None:
        if not self.drained.done():
            self.drained.set_exception(ConnectionError(reason))
        self._transport.abort()


class Load(NamedTuple):
    """The numbers of connections and of requests in flight on each."""

    connections: int
    in_flight: int

    def __str__(self) -> str:
        return f"{self.connections} x {self.in_flight}"


async def flood(server: Server, connections: Sequence[Repeated], load: Load, seconds: float) -> Measured:
    """Flood a server over the first connections. Raise on a wrong response."""
    protocols = [_Flooding(repeated, load.in_flight) for repeated in connections[: load.connections]]
    cpu_before, began = server.cpu_seconds(), perf_counter()
    for protocol in protocols:
        protocol.start()
    await asyncio.wait([p.drained for p in protocols], timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for protocol in protocols:
        protocol.running = False
    await asyncio.wait_for(asyncio.gather(*(p.drained for p in protocols)), 30)
    cpu_seconds, wall_seconds = server.cpu_seconds() - cpu_before, perf_counter() - began
    for protocol in protocols:
        protocol.repeated.connection.transport.set_protocol(protocol.repeated.connection)
    return Measured(
        requests=sum(p.answered for p in protocols),
        wall_seconds=wall_seconds,
        cpu_seconds=cpu_seconds,
        latencies=sorted(latency for p in protocols for latency in p.latencies),
    )


class Side(NamedTuple):
    """A compared server, with connections that are ready to flood it."""

    server: Server
    connections: Sequence[Repeated]


async def in_turn(
    sides: Mapping[str, Side], loads: Sequence[Load], rounds: int, seconds: float
) -> dict[tuple[str, Load], list[Measured]]:
    """Flood all sides in turn with each load, `rounds` times for `seconds`. Return the measurements by side and
    load.
    """
    seen: dict[tuple[str, Load], list[Measured]] = {}
    for _ in range(rounds):
        for load in loads:
            for name, (server, connections) in sides.items():
                measured = await flood(server, connections, load, seconds)
                seen.setdefault((name, load), []).append(measured)
    return seen
