"""How many commits with another offset each time does a second of server CPU take, and how long does one take?

Consumers commit rising offsets, mostly of the same partitions; `commit.py` sends the same bytes again and again,
which a server could recognize. Here each member commits another offset each time, either of one partition or of
another partition each time as well. A cache of commits cannot help the second kind.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.commit import ALWAYS, COMMIT_VERSION, FLUSH, PAGE_CACHE, commit_frame
from benchmarks.comparison import (
    FULL,
    QUANTILES,
    Pace,
    columns,
    compare_sides,
    figures,
    latency_ratios,
)
from benchmarks.connection import Connection
from benchmarks.flood import Load, Repeated, Side
from benchmarks.groups import CONNECTIONS, OFFSETS_PARTITIONS, SHARES, group_names, join_all
from benchmarks.member import TOPIC, Member
from benchmarks.peers import KAFKA, KFAKE, Peers, start_peers
from benchmarks.process import Server, groupd
from benchmarks.report import Report
from benchmarks.warm_up import METHOD

LOADS: Final = (Load(CONNECTIONS, 1), Load(CONNECTIONS, 32))
SHARE: Final = max(SHARES)
CYCLE: Final = 100
"""Commits of a member until its first one is sent again. The topic has as many partitions."""
FIRST_OFFSET: Final = 1_000_000
PEERS: Final = (KFAKE, KAFKA)
SAME: Final = "same partition"
OTHER: Final = "other partitions"
_OURS: Final = {"always": ALWAYS, "os": PAGE_CACHE}
RATES: Final = {
    f"{load}, {pattern}, {flush} to Kafka": (pattern, load, ours)
    for pattern in (SAME, OTHER)
    for load in LOADS
    for flush, ours in _OURS.items()
}
LATENCIES: Final = {
    f"{LOADS[0]}, {SAME}, {label} of {flush} to Kafka": (ours, quantile)
    for flush, ours in _OURS.items()
    for quantile, label in QUANTILES.items()
}
FIGURES: Final = (*RATES, *LATENCIES)


def _frames(members: Sequence[Member], pattern: str) -> list[bytes]:
    """The commits of a connection in the order in which they are sent, the members in turn."""
    return [
        commit_frame(member, step if pattern == OTHER else 0, FIRST_OFFSET + step)
        for step in range(CYCLE)
        for member in members
    ]


async def _side(server: Server, members: Sequence[Member], pattern: str) -> Side:
    """Connections that speak for `SHARE` members each. All answers for one partition are the same."""
    probes = SHARE if pattern == SAME else None
    prepared = []
    for first in range(0, len(members), SHARE):
        frames = _frames(members[first : first + SHARE], pattern)
        prepared.append(Repeated.prepare(await Connection.open(server), frames, probes))
    return Side(server, await asyncio.gather(*prepared))


async def measure(pace: Pace = FULL, others: Sequence[str] = PEERS) -> Report:
    """All servers in turn, with each load, first with one partition and then with another one each time."""
    names = group_names()
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(
                groupd(
                    *("-o", "group.initial.rebalance.delay.ms=0", "--topic", f"{TOPIC}:{CYCLE}"),
                    *("-o", f"log.flush={flush}"),
                )
            )
            for name, flush in FLUSH.items()
        }
        peers = await start_peers(stack, others, TOPIC, names, CYCLE)
        servers |= peers.servers
        members = {name: await join_all(server, names) for name, server in servers.items()}
        report = _report(peers, pace)
        for pattern in (SAME, OTHER):
            sides = {name: await _side(server, members[name], pattern) for name, server in servers.items()}
            seen = await compare_sides(report, sides, list(FLUSH), LOADS, pace, pattern)
            wanted = {
                figure: (load, ours, KAFKA)
                for figure, (of_pattern, load, ours) in RATES.items()
                if of_pattern == pattern
            }
            report.figures |= figures(seen, wanted)
            if pattern == SAME and KAFKA in sides:
                for figure, (ours, quantile) in LATENCIES.items():
                    report.figures[figure] = median(latency_ratios(seen, ours, KAFKA, LOADS[0], quantile))
            for side in sides.values():
                for repeated in side.connections:
                    repeated.connection.transport.abort()
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


def _report(peers: Peers, pace: Pace) -> Report:
    return Report(
        "Offset commits that differ, per server CPU-second",
        f"{CONNECTIONS} connections that commit one partition at a time (OffsetCommit v{COMMIT_VERSION}), with "
        f"1 or 32 commits in flight each, for {SHARE} groups of one member in turn; the groups lie on all "
        f"{OFFSETS_PARTITIONS} offsets partitions. Each member commits {CYCLE} different offsets before one "
        f"comes again, of one partition, or each of another of {CYCLE} partitions. {pace.rounds} rounds of "
        f"{pace.seconds:g} s, the servers in turn. `always`: the answer waits for fdatasync; `os`: it waits for "
        "the write, as Kafka's does. kfake (franz-go's, Go) keeps commits in memory alone. Kafka: a real broker, "
        f"with the JVM options of its start script.{peers.left_out} {METHOD} Latency is seen by the client. "
        "Busy: the server's share of one core.",
        columns(list(FLUSH), "commits per CPU-second", "commits"),
    )
