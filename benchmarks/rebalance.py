"""How long does it take until N members that join at once hold their assignments of one generation?

All connections are open before every member sends its first JoinGroup. Without an initial rebalance delay, the
group completes early generations with the first members. These learn by heartbeat (every 100 ms here) that they
must rejoin; the figure includes all of that.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from benchmarks.connection import Connection
from benchmarks.groups import group_names
from benchmarks.member import TOPIC, Member
from benchmarks.peers import KAFKA, KFAKE, start_peers
from benchmarks.process import Server, groupd
from benchmarks.report import Absolute, Report, spread
from benchmarks.warm_up import METHOD, MOST_WINDOWS, warm_up

SIZES: Final = (10, 100, 1000)
WARM_UP_SIZE: Final = 100
ROUNDS: Final = 5
OURS: Final = "groupd"
GROWTH: Final = "CPU of a member, 1000 to 100"
FIGURES: Final = ("100 members", "1000 members", GROWTH)
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=0")
LIMIT_SECONDS: Final = 120


class Storm(NamedTuple):
    """The measurements of one group: wall and server CPU seconds, also CPU seconds per member."""

    seconds: float
    cpu_seconds_a_member: float
    generations: int


async def _keep_joined(member: Member, joined: asyncio.Event) -> None:
    await member.join()
    joined.set()
    while True:
        await member.heartbeat()
        joined.set()


async def _until_one_generation(members: list[Member], changed: asyncio.Event) -> None:
    while True:
        await changed.wait()
        changed.clear()
        newest = members[0].generation_id
        if newest >= 0 and all(member.generation_id == newest for member in members):
            return


async def _storm(server: Server, group_id: str, size: int) -> Storm:
    """Let `size` members join at once and wait until they share one generation."""
    members = [Member(await Connection.open(server), group_id) for _ in range(size)]
    changed = asyncio.Event()
    cpu_before, began = server.cpu_seconds(), perf_counter()
    tasks = [asyncio.create_task(_keep_joined(member, changed)) for member in members]
    settled = asyncio.create_task(_until_one_generation(members, changed))
    await asyncio.wait([settled, *tasks], timeout=LIMIT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    wall, cpu = perf_counter() - began, server.cpu_seconds() - cpu_before
    for task in tasks:
        if task.done():
            task.result()
        task.cancel()
    assert settled.done(), f"{size} members held no common generation after {LIMIT_SECONDS} s"
    await asyncio.gather(*tasks, return_exceptions=True)
    for member in members:
        member.connection.transport.abort()
    return Storm(wall, cpu / size, members[0].generation_id)


async def measure(
    rounds: int = ROUNDS, windows: int = MOST_WINDOWS, others: Sequence[str] = (KFAKE, KAFKA)
) -> Report:
    """Measure rounds of each size with all servers in turn, each with a new group."""
    number = count()
    names = group_names()

    def group_id() -> str:
        return f"{names[next(number) % len(names)]}-{next(number)}"

    with ExitStack() as stack:
        servers = {OURS: stack.enter_context(groupd(*OPTIONS))}
        peers = await start_peers(stack, others, TOPIC, names)
        servers |= peers.servers
        report = _report(peers.left_out, rounds)
        for name, server in servers.items():

            async def window(server: Server = server) -> float:
                return (await _storm(server, group_id(), WARM_UP_SIZE)).cpu_seconds_a_member

            warmed = await warm_up(window, windows)
            if not warmed.is_settled:
                report.unsettled.append(f"{name} ({warmed})")
        seen: dict[tuple[str, int], list[Storm]] = {}
        for size in SIZES:
            for _ in range(rounds):
                for name, server in servers.items():
                    storm = await _storm(server, group_id(), size)
                    seen.setdefault((name, size), []).append(storm)
    for (name, size), storms in seen.items():
        report.rows.append(_row(name, size, storms, seen[OURS, size]))
    for size in SIZES[1:]:
        report.figures[f"{size} members"] = median(storm.seconds for storm in seen[OURS, size])
    small, large = (median(storm.cpu_seconds_a_member for storm in seen[OURS, size]) for size in SIZES[1:])
    report.figures[GROWTH] = large / small
    return report


def _row(name: str, size: int, storms: Sequence[Storm], ours: Sequence[Storm]) -> list[str]:
    seconds = Absolute(spread([storm.seconds for storm in storms], ".3f"))
    cpu_ms = Absolute(spread([storm.cpu_seconds_a_member * 1000 for storm in storms], ".2f"))
    generations = spread([storm.generations for storm in storms], ".0f")
    to_it = ["", ""]
    if name != OURS:
        pairs = list(zip(ours, storms, strict=True))
        to_it = [
            spread([mine.seconds / its.seconds for mine, its in pairs], ".2f"),
            spread([mine.cpu_seconds_a_member / its.cpu_seconds_a_member for mine, its in pairs], ".2f"),
        ]
    return [str(size), name, seconds, cpu_ms, generations, *to_it]


def _report(left_out: str, rounds: int) -> Report:
    return Report(
        "Time for N members to hold one generation",
        f"N open connections, then N first JoinGroups at once into a group of its own, {rounds} rounds, the "
        "servers in turn; JoinGroup v5 (so with the MEMBER_ID_REQUIRED round trip), heartbeats every 100 "
        "ms, no initial rebalance delay, which is why librdkafka's mock is not here: it waits three "
        "seconds. Until the last member has its assignment of the generation that all others "
        f"hold.{left_out} {METHOD} A window of the warm-up is a group of {WARM_UP_SIZE}, and its figure the "
        "CPU time of a member.",
        [
            "members",
            "server",
            "seconds",
            "server CPU ms per member",
            "generations",
            "groupd to it: seconds",
            "CPU",
        ],
    )
