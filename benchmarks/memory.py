"""How many bytes does a member cost the daemon, all in?

100,000 members in 1,000 groups join over sockets. Few connections carry them: a set of 100 connections holds
member 0 to 99 of many groups, one group after the other, because a parked JoinGroup holds back what follows
it on its connection.
"""

import asyncio
from typing import Final

from benchmarks.connection import Connection
from benchmarks.member import Member
from benchmarks.process import Server, groupd
from benchmarks.report import Absolute, Report

GROUPS: Final = 1000
MEMBERS_PER_GROUP: Final = 100
SETS: Final = 8
FIGURES: Final = ("bytes a member",)
# A short delay gathers the members of a group into its first generation.
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=25", "-o", "log.flush=os")


async def _fill(server: Server, numbers: range) -> None:
    connections = [await Connection.open(server) for _ in range(MEMBERS_PER_GROUP)]
    for number in numbers:
        members = [Member(connection, f"group-{number}") for connection in connections]
        await _settle(members)
    for connection in connections:
        connection.transport.abort()


async def _settle(members: list[Member]) -> None:
    """All join at once, and heartbeat until they hold one generation, so that early ones hear of late ones."""

    async def hold(member: Member) -> None:
        await member.join()
        while any(other.generation_id != members[0].generation_id for other in members):
            await member.heartbeat()

    await asyncio.gather(*(hold(member) for member in members))


async def measure(groups: int = GROUPS) -> Report:
    """Fill a daemon with members, then ask the kernel what it holds."""
    with groupd(*OPTIONS) as server:
        before = server.resident_bytes()
        await asyncio.gather(*(_fill(server, range(first, groups, SETS)) for first in range(SETS)))
        used = server.resident_bytes() - before
        cpu = server.cpu_seconds()
    members = groups * MEMBERS_PER_GROUP
    report = Report(
        "Memory of a member",
        f"{members:,} members in {groups:,} groups join over {SETS * MEMBERS_PER_GROUP} connections, with a "
        "subscription of one topic and an assignment of 32 bytes each; growth of the daemon's resident set from "
        "ready to all groups Stable, divided by members. One run.",
        ["members", "bytes a member", "resident in all, MB", "server CPU ms per member"],
    )
    report.figures["bytes a member"] = used / members
    each, total = f"{used / members:.0f}", f"{(before + used) / 1e6:.0f}"
    report.rows.append([f"{members:,}", each, total, Absolute(f"{cpu * 1000 / members:.2f}")])
    return report
