"""How many commits does a second of server CPU make durable, and how long does one take?

200 groups of one member lie on all 50 partitions of the offsets topic, and each commit is of one partition: those
of an event-loop turn go to up to 50 files. A connection speaks for one group, or for four in turn. Apache Kafka
answers when the record is in the page cache, as `log.flush=os` does; the other peers keep everything in memory.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.comparison import FULL, QUANTILES, Pace, columns, compare, figures, latency_ratios
from benchmarks.connection import encode_frame
from benchmarks.flood import Load
from benchmarks.groups import CONNECTIONS, OFFSETS_PARTITIONS, SHARES, group_names, join_all
from benchmarks.member import TOPIC, Member
from benchmarks.peers import ECHO, KAFKA, KFAKE, MOCK, Peers, start_peers
from benchmarks.process import Server, groupd
from benchmarks.report import Report
from benchmarks.warm_up import METHOD
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

LOADS: Final = (Load(CONNECTIONS, 1), Load(CONNECTIONS, 32))
COMMIT_VERSION: Final = 8
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=0", "--topic", f"{TOPIC}:6")
ALWAYS: Final = "groupd always"
PAGE_CACHE: Final = "groupd os"
FLUSH: Final = {ALWAYS: "always", PAGE_CACHE: "os"}
"""`log.flush` of each."""
_BOUND: Final = {
    "always to echo": (ALWAYS, ECHO),
    "always to Kafka": (ALWAYS, KAFKA),
    "os to Kafka": (PAGE_CACHE, KAFKA),
}
_SHARE: Final = max(SHARES)
RATES: Final = {
    f"{load}, {_SHARE} a connection, {name}": (load, ours, peer)
    for load in LOADS
    for name, (ours, peer) in _BOUND.items()
}
LATENCIES: Final = {
    f"{LOADS[0]}, {_SHARE} a connection, {label} of always to os": quantile
    for quantile, label in QUANTILES.items()
}
FIGURES: Final = (*RATES, *LATENCIES)


def commit_request(member: Member, partitions: Sequence[int], offset: int) -> OffsetCommitRequest:
    """A commit of the same offset for some partitions."""
    committed = [
        OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=0,
            committed_metadata="",
        )
        for partition in partitions
    ]
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=committed)],
    )


def commit_frame(member: Member, partition: int = 0, offset: int = 1234567) -> bytes:
    """A commit of one partition."""
    return encode_frame(commit_request(member, [partition], offset), COMMIT_VERSION)


async def commit_frames(server: Server, groups: Sequence[str]) -> list[bytes]:
    """What the only member of each group commits with; the server has taken each once."""

    async def committed(member: Member) -> bytes:
        frame = commit_frame(member)
        answer = await member.connection.exchange(frame)
        assert answer.endswith(b"\0\0\0\0\0"), f"the commit was refused: {answer.hex()}"
        member.connection.transport.abort()
        return frame

    return await asyncio.gather(*(committed(member) for member in await join_all(server, groups)))


async def measure(pace: Pace = FULL) -> Report:
    """All servers in turn, with each load and with each number of groups a connection."""
    with ExitStack() as stack:
        frames, peers = await start_committing(stack, (ECHO, MOCK, KFAKE, KAFKA))
        report = _report(peers, pace)
        seen = (await compare(report, frames, list(FLUSH), LOADS, pace))[_SHARE]
    report.figures = figures(seen, RATES)
    for figure, quantile in LATENCIES.items():
        report.figures[figure] = median(latency_ratios(seen, ALWAYS, PAGE_CACHE, LOADS[0], quantile))
    report.absent = [figure for figure in RATES if figure not in report.figures]
    return report


async def start_committing(
    stack: ExitStack, others: Sequence[str]
) -> tuple[dict[str, tuple[Server, list[bytes]]], Peers]:
    """groupd with each flush policy and its peers, all with the same groups, and what these commit with."""
    names = group_names()
    frames = {}
    for name, flush in FLUSH.items():
        daemon = stack.enter_context(groupd(*OPTIONS, "-o", f"log.flush={flush}"))
        frames[name] = (daemon, await commit_frames(daemon, names))
    peers = await start_peers(stack, others, TOPIC, names)
    for name, server in peers.servers.items():
        echoed = frames[ALWAYS][1]
        frames[name] = (server, echoed if name == ECHO else await commit_frames(server, names))
    return frames, peers


def _report(peers: Peers, pace: Pace) -> Report:
    return Report(
        "Offset commits per server CPU-second",
        f"{CONNECTIONS} connections that commit one topic partition at a time (OffsetCommit "
        f"v{COMMIT_VERSION}), with 1 or 32 commits in flight each, for one group of one member or for four "
        f"in turn; the groups lie on all {OFFSETS_PARTITIONS} offsets partitions. {pace.rounds} rounds of "
        f"{pace.seconds:g} s, the servers in turn. `always`: the answer waits for fdatasync; `os`: it waits "
        "for the write, as Kafka's does. Echo: a bare uvloop server that returns the same frames. Mock "
        "(librdkafka's, C) and kfake (franz-go's, Go) keep commits in memory alone. Kafka: a real broker, "
        f"with the JVM options of its start script.{peers.left_out} {METHOD} Latency is seen by the client. "
        "Busy: the server's share of one core. Dropped since the last runs: 1 and 1,000 connections (for "
        'latency see "Commits at a fixed rate"), `log.flush=interval`, and one offsets partition.',
        columns(list(FLUSH), "commits per CPU-second"),
    )
