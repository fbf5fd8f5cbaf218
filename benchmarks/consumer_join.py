"""How long does it take until N members of a consumer group (KIP-848) that join at once have their assignments?

All connections are open before every member sends its first heartbeat; the next ones follow every 100 ms. A member
reports revoked and added partitions in its next heartbeat, so a partition has one owner at a time. A server
computes a target at most once a second (`consumer.assignment.interval.ms`, the default of all brokers). That is
most of the time, and it is the same for every server that honours the property.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from benchmarks.connection import Connection
from benchmarks.consumer_member import HEARTBEAT_MS, OPTIONS, PROPERTIES, ConsumerMember, is_settled
from benchmarks.groups import group_names
from benchmarks.member import TOPIC
from benchmarks.peers import KAFKA, KFAKE, start_peers
from benchmarks.process import Server, groupd
from benchmarks.report import Absolute, Report, spread
from benchmarks.warm_up import warm_up

SIZES: Final = (100, 1000)
PARTITIONS: Final = 1000
ROUNDS: Final = 3
WINDOWS: Final = 6
OURS: Final = "groupd"
PEERS: Final = (KFAKE, KAFKA)
LIMIT_SECONDS: Final = 60
GROWTH: Final = "CPU of a member, 1000 to 100"


def _figure(size: int) -> str:
    return f"{size} members, seconds to {KAFKA}"


FIGURES: Final = (*map(_figure, SIZES), GROWTH)


class Settled(NamedTuple):
    """The measurements of one group: wall seconds; server CPU seconds and heartbeats per member."""

    seconds: float
    cpu_seconds_a_member: float
    heartbeats_a_member: float


async def _settle(server: Server, group_id: str, size: int) -> Settled:
    """Let `size` members join at once and wait until each has its share."""
    members = [ConsumerMember(await Connection.open(server), group_id) for _ in range(size)]
    changed, settled = asyncio.Event(), asyncio.Event()

    async def live(member: ConsumerMember) -> None:
        await member.join()
        while not settled.is_set():
            await member.heartbeat()
            changed.set()

    async def watch() -> None:
        while not is_settled(members, PARTITIONS):
            await changed.wait()
            changed.clear()
        settled.set()

    cpu_before, began = server.cpu_seconds(), perf_counter()
    lives = asyncio.gather(*map(live, members))
    try:
        await asyncio.wait_for(watch(), LIMIT_SECONDS)
        wall, cpu = perf_counter() - began, server.cpu_seconds() - cpu_before
    finally:
        settled.set()
        await lives
        for member in members:
            member.connection.transport.abort()
    return Settled(wall, cpu / size, sum(member.heartbeats for member in members) / size)


async def measure(rounds: int = ROUNDS, windows: int = WINDOWS, others: Sequence[str] = PEERS) -> Report:
    """Measure rounds of each size with all servers in turn, each with a new group."""
    number = count()
    names = group_names()

    def group_id() -> str:
        return names[next(number) % len(names)] + f"-{next(number)}"

    with ExitStack() as stack:
        servers = {OURS: stack.enter_context(groupd(*OPTIONS, "--topic", f"{TOPIC}:{PARTITIONS}"))}
        peers = await start_peers(stack, others, TOPIC, names, PARTITIONS, PROPERTIES)
        servers |= peers.servers
        report = _report(peers.left_out, rounds, windows)
        for name, server in servers.items():

            async def window(server: Server = server) -> float:
                return (await _settle(server, group_id(), SIZES[0])).cpu_seconds_a_member

            warmed = await warm_up(window, windows)
            if not warmed.is_settled:
                report.unsettled.append(f"{name} ({warmed})")
        seen: dict[tuple[str, int], list[Settled]] = {}
        for size in SIZES:
            for _ in range(rounds):
                for name, server in servers.items():
                    seen.setdefault((name, size), []).append(await _settle(server, group_id(), size))
    for (name, size), each in seen.items():
        report.rows.append(_row(name, size, each, seen[OURS, size]))
    for size in SIZES:
        if (KAFKA, size) in seen:
            pairs = zip(seen[OURS, size], seen[KAFKA, size], strict=True)
            report.figures[_figure(size)] = median(mine.seconds / its.seconds for mine, its in pairs)
    small, large = (median(each.cpu_seconds_a_member for each in seen[OURS, size]) for size in SIZES)
    report.figures[GROWTH] = large / small
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


def _row(name: str, size: int, each: Sequence[Settled], ours: Sequence[Settled]) -> list[str]:
    to_it = ["", ""]
    if name != OURS:
        pairs = list(zip(ours, each, strict=True))
        to_it = [
            spread([mine.seconds / its.seconds for mine, its in pairs], ".2f"),
            spread([mine.cpu_seconds_a_member / its.cpu_seconds_a_member for mine, its in pairs], ".2f"),
        ]
    return [
        str(size),
        name,
        Absolute(spread([one.seconds for one in each], ".2f")),
        Absolute(spread([one.cpu_seconds_a_member * 1000 for one in each], ".2f")),
        spread([one.heartbeats_a_member for one in each], ".0f"),
        *to_it,
    ]


def _report(left_out: str, rounds: int, windows: int) -> Report:
    return Report(
        "Time for N members of a consumer group to have their share",
        f"N open connections, then N first heartbeats at once into a group of its own that reads a topic of "
        f"{PARTITIONS:,} partitions, {rounds} rounds, the servers in turn; a heartbeat every {HEARTBEAT_MS} ms, "
        "which says what was given up and taken since the last one. Until the last member is in the epoch of "
        "all others and has as many partitions as they. A target is computed once a second at most, as brokers "
        "have it by default."
        f"{left_out} Each server was warmed up with {windows} groups of {SIZES[0]} at most.",
        [
            "members",
            "server",
            "seconds",
            "server CPU ms per member",
            "heartbeats a member",
            "groupd to it: seconds",
            "CPU",
        ],
    )
