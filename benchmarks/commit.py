"""How many commits does a second of server CPU make durable, and how long does one take?

Every connection is the only member of a group of its own and commits one partition. With one offsets
partition all commits of an event-loop turn share a write and a flush; with 50 (the default) they spread
over as many files, each with its own flush.
"""

from contextlib import ExitStack
from typing import Final

from benchmarks.connection import Connection, encode_frame
from benchmarks.flood import Measured, Repeated, flood
from benchmarks.member import TOPIC, Member
from benchmarks.process import Server, groupd, peer
from benchmarks.report import Report, spread
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

CONNECTIONS: Final = 50
DEPTHS: Final = (1, 32)
ROUNDS: Final = 5
SECONDS: Final = 2.0
COMMIT_VERSION: Final = 8
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=0", "--topic", f"{TOPIC}:6")
TARGETS: Final = {1: 0.22, 32: 0.06}
# What is measured: flush policy of the offsets log, number of its partitions.
SETTINGS: Final = {
    "always, 1 partition": ("always", 1),
    "always, 50 partitions": ("always", 50),
    "os, 1 partition": ("os", 1),
}


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


async def _committing(server: Server) -> list[Repeated]:
    connections = []
    for number in range(CONNECTIONS):
        member = Member(await Connection.open(server), f"group-{number}")
        await member.join()
        connections.append(await Repeated.prepare(member.connection, _commit(member)))
        assert connections[-1].answer.endswith(b"\0\0\0\0\0"), "the commit was refused"
    return connections


async def measure(rounds: int = ROUNDS, seconds: float = SECONDS) -> Report:
    """Rounds of all settings and the echo in turn, at each depth."""
    seen: dict[tuple[str, int], list[Measured]] = {}
    with ExitStack() as stack:
        sides = {}
        for name, (flush, partitions) in SETTINGS.items():
            log = ("-o", f"log.flush={flush}", "-o", f"offsets.topic.num.partitions={partitions}")
            server = stack.enter_context(groupd(*OPTIONS, *log))
            sides[name] = (server, await _committing(server))
        echo = stack.enter_context(peer("echo_server"))
        frames = [connection.request for connection in sides["always, 1 partition"][1]]
        connections = [await Repeated.prepare(await Connection.open(echo), frame) for frame in frames]
        sides["echo"] = (echo, connections)
        for _ in range(rounds):
            for depth in DEPTHS:
                for name, (server, connections) in sides.items():
                    measured = await flood(server, connections, depth, seconds)
                    seen.setdefault((name, depth), []).append(measured)
    return _report(seen, rounds, seconds)


def _report(seen: dict[tuple[str, int], list[Measured]], rounds: int, seconds: float) -> Report:
    report = Report(
        "Offset commits per server CPU-second",
        f"{CONNECTIONS} connections with 1 or 32 OffsetCommit v{COMMIT_VERSION} of one topic partition in flight "
        f"each, {rounds} rounds of {seconds:g} s, in turn with a bare uvloop echo of the same frames. `always`: "
        "the answer waits for fdatasync; `os`: it waits for the write. Latency is seen by the client, with one "
        "commit in flight. Busy: the server's share of one core.",
        [
            "in flight",
            "log.flush",
            "commits per CPU-second",
            "busy",
            "ratio to echo",
            "target",
            "p50 ms",
            "p99 ms",
        ],
    )
    for depth in DEPTHS:
        floor = [run.per_cpu_second for run in seen["echo", depth]]
        for name in (*SETTINGS, "echo"):
            runs = seen[name, depth]
            per_second = [run.per_cpu_second for run in runs]
            ratio = target = ""
            if name != "echo":
                ratio = spread([its / bare for its, bare in zip(per_second, floor, strict=True)], ".3f")
                target = f"{TARGETS[depth]:.2f}" if name == "always, 1 partition" else ""
            busy = f"{max(run.cpu_share for run in runs):.0%}"
            latencies = sorted(latency for run in runs for latency in run.latencies)
            waits = [
                f"{latencies[int(len(latencies) * q)] * 1000:.2f}" if latencies else "" for q in (0.5, 0.99)
            ]
            report.rows.append([f"50 x {depth}", name, spread(per_second, "k"), busy, ratio, target, *waits])
    return report
