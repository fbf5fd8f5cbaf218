"""How much memory does a member cost the daemon in total?

100,000 classic members in 1,000 groups join over sockets, and a fifth as many consumer protocol members. They share
few connections: a set of 100 connections holds member 0 to 99 of many groups, one group after the other, because a
delayed JoinGroup blocks later requests on its connection.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from benchmarks import consumer_member
from benchmarks.connection import Connection
from benchmarks.consumer_member import ConsumerMember, is_settled
from benchmarks.member import TOPIC, Member
from benchmarks.process import Server, groupd
from benchmarks.report import Absolute, Report

GROUPS: Final = 1000
CONSUMER_GROUPS: Final = 200
MEMBERS_PER_GROUP: Final = 100
SETS: Final = 8
CLASSIC: Final = "bytes a member"
CONSUMER: Final = "bytes a member of a consumer group"
FIGURES: Final = (CLASSIC, CONSUMER)
# A short initial delay collects the members of a group in its first generation.
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=25", "-o", "log.flush=os")
# Without a delay between targets the groups fill within a minute.
CONSUMER_OPTIONS: Final = (
    *consumer_member.OPTIONS,
    *("-o", "group.consumer.assignment.interval.ms=0", "-o", "log.flush=os"),
    *("--topic", f"{TOPIC}:{MEMBERS_PER_GROUP}"),
)
Join = Callable[[list[Connection], str], Awaitable[None]]


async def _fill(server: Server, join: Join, numbers: range) -> None:
    connections = [await Connection.open(server) for _ in range(MEMBERS_PER_GROUP)]
    for number in numbers:
        await join(connections, f"group-{number}")
    for connection in connections:
        connection.transport.abort()


async def _join_classic(connections: list[Connection], group_id: str) -> None:
    """Let all join at once and heartbeat until they share one generation, so that early members see late ones."""
    members = [Member(connection, group_id) for connection in connections]

    async def hold(member: Member) -> None:
        await member.join()
        while any(other.generation_id != members[0].generation_id for other in members):
            await member.heartbeat()

    await asyncio.gather(*map(hold, members))


async def _join_consumer(connections: list[Connection], group_id: str) -> None:
    """Let all join at once and heartbeat until each has its partition."""
    members = [ConsumerMember(connection, group_id) for connection in connections]

    async def hold(member: ConsumerMember) -> None:
        await member.join()
        while not is_settled(members, MEMBERS_PER_GROUP):
            await member.heartbeat()

    await asyncio.gather(*map(hold, members))


async def measure(groups: int = GROUPS, consumer_groups: int = CONSUMER_GROUPS) -> Report:
    """Fill daemons with members of either protocol, then read their memory from the kernel."""
    report = Report(
        "Memory of a member",
        f"Groups of {MEMBERS_PER_GROUP} members join over {SETS * MEMBERS_PER_GROUP} connections: classic ones "
        "with a subscription of one topic and an assignment of 32 bytes each, those of the consumer protocol "
        "(KIP-848) with a subscription of one topic and a partition each; growth of the daemon's resident set "
        "from ready to all groups Stable, divided by members. One run.",
        ["protocol", "members", "bytes a member", "resident in all, MB", "server CPU ms per member"],
    )
    kinds: list[tuple[str, str, int, Join, Sequence[str]]] = [
        (CLASSIC, "classic", groups, _join_classic, OPTIONS),
        (CONSUMER, "consumer", consumer_groups, _join_consumer, CONSUMER_OPTIONS),
    ]
    for figure, protocol, number, join, options in kinds:
        with groupd(*options) as server:
            before, cpu_before = server.resident_bytes(), server.cpu_seconds()
            fillings = (_fill(server, join, range(first, number, SETS)) for first in range(SETS))
            await asyncio.gather(*fillings)
            used = server.resident_bytes() - before
            cpu = server.cpu_seconds() - cpu_before
        members = number * MEMBERS_PER_GROUP
        report.figures[figure] = used / members
        each, total = f"{used / members:.0f}", f"{(before + used) / 1e6:.0f}"
        cpu_ms = Absolute(f"{cpu * 1000 / members:.2f}")
        report.rows.append([protocol, f"{members:,}", each, total, cpu_ms])
    return report
