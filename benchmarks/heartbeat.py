"""How many heartbeats does a second of server CPU answer?

Every connection is the only member of a group of its own, so the groups stay quiet. The echo gets the very
same frames; librdkafka's mock cluster gets version 3, the newest it knows.
"""

import asyncio
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.connection import Connection, encode_frame
from benchmarks.flood import Load, Measured, Repeated, Side, in_turn
from benchmarks.member import Member
from benchmarks.process import Server, groupd, peer
from benchmarks.report import Report, spread

CONNECTIONS: Final = 50
LOADS: Final = (Load(CONNECTIONS, 1), Load(CONNECTIONS, 32))
ROUNDS: Final = 5
SECONDS: Final = 2.0
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=0")
FIGURES: Final = tuple(f"{load}, to {name}" for load in LOADS for name in ("echo", "mock"))


async def _members(server: Server) -> list[Member]:
    members = [Member(await Connection.open(server), f"group-{number}") for number in range(CONNECTIONS)]
    # All at once: the mock cluster lets every group wait for its initial rebalance delay.
    await asyncio.gather(*(member.join() for member in members))
    return members


async def _repeated(server: Server, frames: list[bytes]) -> list[Repeated]:
    return [await Repeated.prepare(await Connection.open(server), frame) for frame in frames]


async def measure(rounds: int = ROUNDS, seconds: float = SECONDS) -> Report:
    """Rounds of all servers in turn, with each load."""
    with ExitStack() as stack:
        daemon = stack.enter_context(groupd(*OPTIONS))
        echo = stack.enter_context(peer("echo_server"))
        mock = stack.enter_context(peer("mock_cluster"))
        members = await _members(daemon)
        of_mock = await _members(mock)
        newest = [encode_frame(member.heartbeat_request(), 4) for member in members]
        version_3 = [encode_frame(member.heartbeat_request(), 3) for member in members]
        mocked = [encode_frame(member.heartbeat_request(), 3) for member in of_mock]
        sides = {
            "groupd v4": Side(daemon, await _repeated(daemon, newest)),
            "groupd v3": Side(daemon, await _repeated(daemon, version_3)),
            "echo": Side(echo, await _repeated(echo, newest)),
            "mock": Side(mock, await _repeated(mock, mocked)),
        }
        seen = await in_turn(sides, LOADS, rounds, seconds)
    return _report(seen, rounds, seconds)


def _report(seen: dict[tuple[str, Load], list[Measured]], rounds: int, seconds: float) -> Report:
    report = Report(
        "Heartbeats per server CPU-second",
        f"{CONNECTIONS} connections with 1 or 32 heartbeats in flight each, {rounds} rounds of {seconds:g} s, the "
        "servers in turn. Echo: a bare uvloop server that returns the same v4 frames. Mock: librdkafka's mock "
        "cluster (C). Each connection is a group of one member. Busy: the server's share of one core; well "
        "below 100 % the load generator or the machine, not the server, set the pace.",
        ["in flight", "server", "heartbeats per CPU-second", "busy", "ratio to it: groupd"],
    )
    for load in LOADS:
        for name in ("groupd v4", "groupd v3", "echo", "mock"):
            runs = seen[name, load]
            per_second = [run.per_cpu_second for run in runs]
            busy = f"{max(run.cpu_share for run in runs):.0%}"
            ratio = ""
            if not name.startswith("groupd"):
                ours = seen["groupd v4" if name == "echo" else "groupd v3", load]
                ratios = [mine.per_cpu_second / its for mine, its in zip(ours, per_second, strict=True)]
                ratio = spread(ratios, ".2f")
                report.figures[f"{load}, to {name}"] = median(ratios)
            report.rows.append([str(load), name, spread(per_second, "k"), busy, ratio])
    return report
