"""How many heartbeats does a second of server CPU answer?

Every member is alone in a group of its own, so the groups stay quiet. A connection speaks for one member, as a
client's does, or for four in turn, which is harder: no heartbeat repeats the one before it. The echo gets the very
same frames; librdkafka's mock cluster gets version 3, the newest it knows, and is compared with that.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks.comparison import FULL, Pace, columns, compare, figures
from benchmarks.connection import encode_frame
from benchmarks.flood import Load
from benchmarks.groups import CONNECTIONS, SHARES, group_names, join_all
from benchmarks.member import TOPIC, Member
from benchmarks.peers import ECHO, KAFKA, KFAKE, MOCK, Peers, start_peers
from benchmarks.process import groupd
from benchmarks.report import Report
from benchmarks.warm_up import METHOD

LOADS: Final = (Load(CONNECTIONS, 1), Load(CONNECTIONS, 32))
OPTIONS: Final = ("-o", "group.initial.rebalance.delay.ms=0")
NEWEST, OLDER = 4, 3
OURS: Final = {NEWEST: f"groupd v{NEWEST}", OLDER: f"groupd v{OLDER}"}
VERSION_OF: Final = {ECHO: NEWEST, MOCK: OLDER, KFAKE: NEWEST, KAFKA: NEWEST}
_BOUND: Final = (ECHO, MOCK)


def _figure(load: Load, share: int, peer: str) -> str:
    return f"{load}, {share} a connection, to {peer}"


FIGURES: Final = tuple(_figure(load, share, peer) for share in SHARES for load in LOADS for peer in _BOUND)


def _frames(members: Sequence[Member], version: int) -> list[bytes]:
    return [encode_frame(member.heartbeat_request(), version) for member in members]


async def measure(pace: Pace = FULL, others: Sequence[str] = tuple(VERSION_OF)) -> Report:
    """All servers in turn, with each load and with each number of members a connection."""
    names = group_names()
    with ExitStack() as stack:
        daemon = stack.enter_context(groupd(*OPTIONS))
        peers = await start_peers(stack, others, TOPIC, names)
        members = await join_all(daemon, names)
        frames = {name: (daemon, _frames(members, version)) for version, name in OURS.items()}
        for name, server in peers.servers.items():
            asked = members if name == ECHO else await join_all(server, names)
            frames[name] = (server, _frames(asked, VERSION_OF[name]))
        report = _report(peers, pace)
        seen = await compare(report, frames, list(OURS.values()), LOADS, pace)
    for share, of_share in seen.items():
        wanted = {
            _figure(load, share, peer): (load, OURS[VERSION_OF[peer]], peer)
            for load in LOADS
            for peer in _BOUND
        }
        report.figures |= figures(of_share, wanted)
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


def _report(peers: Peers, pace: Pace) -> Report:
    return Report(
        "Heartbeats per server CPU-second",
        f"{CONNECTIONS} connections with 1 or 32 heartbeats in flight each, each for one member or for four "
        f"in turn, {pace.rounds} rounds of {pace.seconds:g} s, the servers in turn. Echo: a bare uvloop "
        "server that returns the same v4 frames. Mock: librdkafka's mock cluster (C), which knows v3. "
        "kfake: franz-go's fake cluster (Go). Kafka: a real broker, with the JVM options of its start "
        f"script.{peers.left_out} {METHOD} Every member is a group of its own. Busy: the server's share of "
        "one core; well below 100 % the load generator or the machine, not the server, set the pace.",
        columns(list(OURS.values()), "heartbeats per CPU-second"),
    )
