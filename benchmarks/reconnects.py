"""What does a TLS and SASL login cost, and how do a thousand concurrent logins affect other clients?"""

import asyncio
import resource
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection as PipeConnection
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple, Self

from benchmarks.comparison import Pace
from benchmarks.connection import Connection, encode_frame
from benchmarks.flood import Measured, waited_ms
from benchmarks.groups import group_names, join_all
from benchmarks.heartbeat import NEWEST
from benchmarks.peers import KAFKA
from benchmarks.process import Server
from benchmarks.report import Absolute, Report, spread
from benchmarks.secured_servers import (
    LISTENERS,
    PLAINTEXT,
    SASL_PLAINTEXT,
    SSL,
    Listening,
    new_certificate,
    secured_groupd,
    secured_kafka,
)
from benchmarks.warm_up import method, warm_up
from tests.interop.build import CannotBuild

FULL: Final = Pace(5, 1.0, 8)
GROUPD: Final = "groupd"
AT_ONCE: Final = 16
"""The number of clients in sequence for the cost of one login."""
CONNECTIONS: Final = 1000
FIRST: Final = 20
HEARTBEAT_SECONDS: Final = 0.005
_READ_BYTES: Final = 4096


def _logins(listener: str) -> str:
    return f"{listener}, logins to Kafka"


def _memory(listener: str) -> str:
    return f"{listener}, bytes a connection"


def _pause(listener: str) -> str:
    return f"{listener}, longest wait of a neighbour"


BOUND: Final = (SASL_PLAINTEXT, SSL)
FIGURES: Final = (*map(_logins, BOUND), _memory(SSL), _pause(SSL))


class Neighbour:
    """A client in its own process that sends a heartbeat every few milliseconds until the block ends."""

    def __init__(self, server: Server, frame: bytes) -> None:
        """`server` is a listener without authentication; `frame` is the heartbeat."""
        start_anew = get_context("spawn")
        self._pipe, other = start_anew.Pipe()
        self._process = start_anew.Process(target=_heartbeats, args=(other, server.host, server.port, frame))
        self.waited: list[float] = []
        """The sorted latencies in seconds, available after the block."""

    def __enter__(self) -> Self:
        self._process.start()
        assert self._pipe.recv(), "it has begun"
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.send(True)
        self.waited = sorted(self._pipe.recv())
        self._process.join()


def _heartbeats(pipe: PipeConnection, host: str, port: int, frame: bytes) -> None:
    waited = []
    with socket.create_connection((host, port)) as connected:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pipe.send(True)
        is_over = False
        while not is_over:
            began = perf_counter()
            connected.sendall(frame)
            assert connected.recv(_READ_BYTES), "closed by the server"
            waited.append(perf_counter() - began)
            is_over = pipe.poll(HEARTBEAT_SECONDS)
    pipe.send(waited)


async def let_in(server: Server, seconds: float) -> Measured:
    """Let clients log in and disconnect in sequence on each of a few parallel connections."""
    latencies: list[float] = []
    cpu_before, began = server.cpu_seconds(), perf_counter()

    async def come_and_go() -> None:
        while (came := perf_counter()) - began < seconds:
            connection = await Connection.open(server)
            latencies.append(perf_counter() - came)
            connection.transport.abort()

    await asyncio.gather(*(come_and_go() for _ in range(AT_ONCE)))
    wall_seconds = perf_counter() - began
    return Measured(len(latencies), wall_seconds, server.cpu_seconds() - cpu_before, sorted(latencies))


async def _come(server: Server, number: int) -> list[Connection]:
    """Connect all clients at once and keep them connected."""
    return await asyncio.gather(*(Connection.open(server) for _ in range(number)))


def _go(connections: Sequence[Connection]) -> None:
    for connection in connections:
        connection.transport.abort()


class Storm(NamedTuple):
    """A simultaneous reconnect of all clients."""

    seconds: float
    """The seconds until the last client has logged in."""
    waited: Sequence[float]
    """The sorted latencies of a neighbour during the storm, in seconds."""


class Held(NamedTuple):
    """The cost of many connections for a server."""

    bytes_each: float
    storms: Sequence[Storm]


async def hold(listening: Listening, listener: str, number: int, storms: int) -> Held:
    """Connect many clients, then repeatedly reconnect them all. The server's listener must be unused before."""
    server = listening[listener]
    (member,) = await join_all(listening[PLAINTEXT], group_names(1))
    neighbour = listening[PLAINTEXT], encode_frame(member.heartbeat_request(), NEWEST)
    first = await _come(server, FIRST)  # warm up one-time initialisations
    before = server.resident_bytes()
    connections = await _come(server, number)
    bytes_each = (server.resident_bytes() - before) / number
    seen = []
    for _ in range(storms):
        with Neighbour(*neighbour) as waiting:
            _go(connections)
            began = perf_counter()
            connections = await _come(server, number)
            seconds = perf_counter() - began
        seen.append(Storm(seconds, waiting.waited))
    _go([*first, *connections])
    return Held(bytes_each, seen)


async def measure(pace: Pace = FULL, number: int = CONNECTIONS, *, with_kafka: bool = True) -> Report:
    """Measure logins at each listener of the servers in turn, then many connections that stay."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    groups = group_names(1)
    seen: dict[tuple[str, str], list[Measured]] = {}
    missing, unsettled = "", []
    with ExitStack() as stack:
        certificate = new_certificate(stack)
        reached = {GROUPD: await secured_groupd(stack, certificate, groups)}
        try:
            if with_kafka:
                reached[KAFKA] = await secured_kafka(stack, certificate, groups)
        except CannotBuild as problem:
            missing = f" {KAFKA} is not there ({' '.join(str(problem).split())})."
        for name, listening in reached.items():
            for listener in LISTENERS:

                async def window(server: Server = listening[listener]) -> float:
                    return (await let_in(server, pace.seconds)).per_cpu_second

                warmed = await warm_up(window, pace.windows)
                if not warmed.is_settled:
                    unsettled.append(f"{name}, {listener} ({warmed})")
        for _ in range(pace.rounds):
            for listener in LISTENERS:
                for name, listening in reached.items():
                    measured = await let_in(listening[listener], pace.seconds)
                    seen.setdefault((name, listener), []).append(measured)
    held = {}
    for listener in LISTENERS:
        with ExitStack() as stack:
            listening = await secured_groupd(stack, new_certificate(stack), groups)
            held[listener] = await hold(listening, listener, number, pace.rounds)
    report = _report(pace, number, missing)
    report.unsettled = unsettled
    for listener in LISTENERS:
        _add(report, listener, seen[GROUPD, listener], seen.get((KAFKA, listener)), held[listener])
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


def _add(
    report: Report, listener: str, ours: Sequence[Measured], its: Sequence[Measured] | None, held: Held
) -> None:
    """Add the row of a listener and its figures."""
    theirs, to_kafka = "", ""
    if its is not None:
        ratios = [mine.per_cpu_second / other.per_cpu_second for mine, other in zip(ours, its, strict=True)]
        report.figures[_logins(listener)] = median(ratios)
        theirs = Absolute(spread([run.per_cpu_second for run in its], ".0f"))
        to_kafka = spread(ratios, ".3g")
    longest = [waited_ms(storm.waited, 1.0) for storm in held.storms]
    report.figures[_memory(listener)] = held.bytes_each
    report.figures[_pause(listener)] = median(longest)
    report.rows.append(
        [
            listener,
            Absolute(spread([run.per_cpu_second for run in ours], ".0f")),
            theirs,
            to_kafka,
            f"{held.bytes_each:.0f}",
            Absolute(spread([storm.seconds for storm in held.storms], ".2f")),
            Absolute(spread([waited_ms(storm.waited, 0.99) for storm in held.storms], ".0f")),
            Absolute(spread(longest, ".0f")),
        ]
    )


def _report(pace: Pace, number: int, missing: str) -> Report:
    return Report(
        "Being let in by TLS and SASL",
        "groupd and Kafka with the same listeners (TLS 1.3, full handshakes, a key of RSA, 2,048 bits; SASL: "
        f"SCRAM-SHA-256, which is SaslHandshake and two tokens). Logins: {AT_ONCE} clients at a time come and "
        f"go, {pace.rounds} rounds of {pace.seconds:g} s, the servers in turn. Memory: how much the resident set "
        f"of groupd grows when {number:,} more clients are let in, which send nothing after that. All at once: "
        "these go, and come back at once; a neighbour, alone on its PLAINTEXT connection, sends a heartbeat "
        f"every {HEARTBEAT_SECONDS * 1000:g} ms meanwhile, and waits.{missing} {method(pace.windows)}",
        [
            "listener",
            "groupd, logins per CPU-second",
            "Kafka",
            "groupd to Kafka",
            "groupd, bytes a connection",
            f"{number:,} at once, s",
            "neighbour waits, p99 ms",
            "at most, ms",
        ],
    )
