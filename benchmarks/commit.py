"""How many commits does a second of server CPU make durable, and how long does one take?

Every connection is the only member of a group of its own and commits one partition. With one offsets
partition all commits of an event-loop turn share a write and a flush; with 50 (the default) they spread
over as many files, each with its own flush. Apache Kafka, where it can be had, is asked the same; it answers
when the record is in the page cache, as `log.flush=os` does.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.connection import Connection, encode_frame
from benchmarks.flood import Load, Measured, Repeated, Side, in_turn
from benchmarks.kafka import kafka
from benchmarks.member import TOPIC, Member
from benchmarks.process import Server, groupd, peer
from benchmarks.report import Report, spread
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

LOADS: Final = (Load(1, 1), Load(50, 1), Load(1000, 1), Load(50, 32))
ROUNDS: Final = 5
SECONDS: Final = 2.0
WARM_UP_SECONDS: Final = 5.0
"""Of load before anything counts: a Java program has to compile itself first."""
COMMIT_VERSION: Final = 8
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=0", "--topic", f"{TOPIC}:6")
ALONE: Final = "always, 1 partition"
ALWAYS: Final = "always, 50 partitions"
PAGE_CACHE: Final = "os, 50 partitions"
# What is measured: flush policy of the offsets log, number of its partitions.
SETTINGS: Final = {
    ALONE: ("always", 1),
    ALWAYS: ("always", 50),
    "interval, 50 partitions": ("interval", 50),
    "os, 1 partition": ("os", 1),
    PAGE_CACHE: ("os", 50),
}
_BOUND: Final = (Load(50, 1), Load(50, 32))
TO_ECHO: Final = {f"{load}, {ALONE}, to echo": (load, ALONE, "echo") for load in _BOUND}
TO_KAFKA: Final = {
    f"{load}, {name}, to Kafka": (load, name, "Kafka") for load in _BOUND for name in (ALWAYS, PAGE_CACHE)
}
LATENCY: Final = f"{_BOUND[0]}, p50 of always to os"
FIGURES: Final = (*TO_ECHO, *TO_KAFKA, LATENCY)


def _commit(member: Member) -> bytes:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1234567, committed_leader_epoch=0, committed_metadata=""
    )
    return encode_frame(
        OffsetCommitRequest(
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        ),
        COMMIT_VERSION,
    )


async def committing(server: Server, count: int) -> Side:
    """Members of as many groups of their own, ready to commit."""
    connections = []
    for number in range(count):
        member = Member(await Connection.open(server), f"group-{number}")
        await member.join()
        connections.append(await Repeated.prepare(member.connection, _commit(member)))
        assert connections[-1].answer.endswith(b"\0\0\0\0\0"), "the commit was refused"
    return Side(server, connections)


async def measure(rounds: int = ROUNDS, seconds: float = SECONDS) -> Report:
    """Rounds of all settings, the echo and Kafka in turn, with each load."""
    count = max(load.connections for load in LOADS)
    with ExitStack() as stack:
        sides = {}
        for name, (flush, partitions) in SETTINGS.items():
            log = ("-o", f"log.flush={flush}", "-o", f"offsets.topic.num.partitions={partitions}")
            sides[name] = await committing(stack.enter_context(groupd(*OPTIONS, *log)), count)
        echo = stack.enter_context(peer("echo_server"))
        frames = [connection.request for connection in sides[ALONE].connections]
        echoed = [await Repeated.prepare(await Connection.open(echo), frame) for frame in frames]
        sides["echo"] = Side(echo, echoed)
        groups = [f"group-{number}" for number in range(count)]
        broker, missing = await kafka(stack, TOPIC, 6, groups)
        if broker is not None:
            sides["Kafka"] = await committing(broker, count)
            await in_turn({"Kafka": sides["Kafka"]}, LOADS, 1, WARM_UP_SECONDS)
        seen = await in_turn(sides, LOADS, rounds, seconds)
    return _report(seen, rounds, seconds, missing)


def _report(
    seen: dict[tuple[str, Load], list[Measured]], rounds: int, seconds: float, missing: str
) -> Report:
    report = Report(
        "Offset commits per server CPU-second",
        f"Connections that each commit one topic partition (OffsetCommit v{COMMIT_VERSION}) with 1 or 32 commits "
        f"in flight, {rounds} rounds of {seconds:g} s, in turn with a bare uvloop echo of the same frames and a "
        f"real Apache Kafka broker{missing}. `always`: the answer waits for fdatasync; `interval` and `os`: it "
        "waits for the write, as Kafka's does. Latency is seen by the client, with one commit in flight. Busy: the "
        "server's share of one core.",
        [
            "in flight",
            "log.flush",
            "commits per CPU-second",
            "busy",
            "ratio to echo",
            "ratio to Kafka",
            "p50 ms",
            "p99 ms",
        ],
    )
    for load in LOADS:
        for name in dict.fromkeys(side for side, _ in seen):
            runs = seen[name, load]
            busy = f"{max(run.cpu_share for run in runs):.0%}"
            latencies = sorted(latency for run in runs for latency in run.latencies)
            waits = [
                f"{latencies[int(len(latencies) * q)] * 1000:.2f}" if latencies else "" for q in (0.5, 0.99)
            ]
            rate = spread([run.per_cpu_second for run in runs], "k")
            to_echo, to_kafka = (_ratios(runs, seen.get((other, load), [])) for other in ("echo", "Kafka"))
            if name in ("echo", "Kafka"):
                to_kafka = []
            if name == "echo":
                to_echo = []
            shown = [spread(ratios, ".3f") if ratios else "" for ratios in (to_echo, to_kafka)]
            report.rows.append([str(load), name, rate, busy, *shown, *waits])
    report.figures = {
        figure: median(_ratios(seen[name, load], seen[other, load]))
        for figure, (load, name, other) in {**TO_ECHO, **TO_KAFKA}.items()
        if (other, load) in seen
    }
    always, page_cache = (_latency(seen[name, _BOUND[0]]) for name in (ALWAYS, PAGE_CACHE))
    report.figures[LATENCY] = always / page_cache
    report.absent = [figure for figure in TO_KAFKA if missing]
    return report


def _ratios(runs: Sequence[Measured], others: Sequence[Measured]) -> list[float]:
    """Of commits per CPU-second, round by round; none where there is nobody to compare with."""
    return [mine.per_cpu_second / its.per_cpu_second for mine, its in zip(runs, others, strict=False)]


def _latency(runs: Sequence[Measured]) -> float:
    """What a commit waits, in the middle, in seconds."""
    return median(latency for run in runs for latency in run.latencies)
