"""How long until N members that join at once hold their assignments of one generation?

All connections are open; then every member sends its first JoinGroup. There is no initial delay, so the
group completes early generations with the members that came first, and those learn by heartbeat (every
100 ms here) that they must rejoin: the figure includes all of that.
"""

import asyncio
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.connection import Connection
from benchmarks.member import Member
from benchmarks.process import Server, groupd
from benchmarks.report import Report, spread

SIZES: Final = (10, 100, 1000)
ROUNDS: Final = 5
GROWTH: Final = "CPU of a member, 1000 to 100"
FIGURES: Final = ("100 members", "1000 members", GROWTH)
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=0")
LIMIT_SECONDS: Final = 120


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


async def _rebalance(server: Server, group_id: str, size: int) -> tuple[float, float, int]:
    """Wall seconds, server CPU seconds and generations until `size` members hold one generation."""
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
    return wall, cpu, members[0].generation_id


async def measure(rounds: int = ROUNDS) -> Report:
    """Rounds of each size, every time with a group of its own."""
    report = Report(
        "Time for N members to hold one generation",
        f"N open connections, then N first JoinGroups at once into a group of its own, {rounds} rounds; JoinGroup "
        "v5 (so with the MEMBER_ID_REQUIRED round trip), heartbeats every 100 ms, no initial rebalance delay. "
        "Until the last member has its assignment of the generation that all others hold.",
        ["members", "seconds", "server CPU ms per member", "generations"],
    )
    each: dict[int, float] = {}
    with groupd(*OPTIONS) as server:
        await _rebalance(server, "warm-up", 10)
        for size in SIZES:
            runs = [await _rebalance(server, f"group-{size}-{number}", size) for number in range(rounds)]
            wall = spread([run[0] for run in runs], ".3f")
            cpu = spread([run[1] * 1000 / size for run in runs], ".2f")
            if size > SIZES[0]:
                report.figures[f"{size} members"] = median(run[0] for run in runs)
            each[size] = median(run[1] for run in runs) / size
            generations = spread([run[2] for run in runs], ".0f")
            report.rows.append([str(size), wall, cpu, generations])
    report.figures[GROWTH] = each[1000] / each[100]
    return report
