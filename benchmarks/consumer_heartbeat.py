"""How many heartbeats of consumer groups (KIP-848) can a second of server CPU answer?

Every member is alone in its group and has its whole assignment. As for most heartbeats in practice, the requests
report no change and the responses contain no assignment. A connection serves one member, as a client's does, or
four in turn.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks.comparison import FULL, Pace, columns, compare, figures
from benchmarks.connection import Connection, encode_frame
from benchmarks.consumer_member import OPTIONS, PROPERTIES, VERSION, ConsumerMember, is_settled
from benchmarks.flood import Load
from benchmarks.groups import CONNECTIONS, SHARES, group_names
from benchmarks.member import TOPIC
from benchmarks.peers import KAFKA, KFAKE, Peers, start_peers
from benchmarks.process import Server, groupd
from benchmarks.report import Report
from benchmarks.warm_up import METHOD

LOADS: Final = (Load(CONNECTIONS, 1), Load(CONNECTIONS, 32))
PARTITIONS: Final = 6
OURS: Final = "groupd"
PEERS: Final = (KFAKE, KAFKA)
LIMIT_SECONDS: Final = 60


def _figure(load: Load, share: int) -> str:
    return f"{load}, {share} a connection, to {KAFKA}"


FIGURES: Final = tuple(_figure(load, share) for share in SHARES for load in LOADS)


async def _settled(server: Server, group_id: str) -> ConsumerMember:
    """Return the only member of a group after it has acknowledged its whole assignment."""
    member = ConsumerMember(await Connection.open(server), group_id)
    await member.join()
    while not is_settled([member], PARTITIONS):
        await member.heartbeat()
    await member.heartbeat()
    return member


async def _frames(server: Server, names: Sequence[str]) -> list[bytes]:
    settling = asyncio.gather(*(_settled(server, name) for name in names))
    members = await asyncio.wait_for(settling, LIMIT_SECONDS)
    return [encode_frame(member.heartbeat_request(), VERSION) for member in members]


async def measure(pace: Pace = FULL, others: Sequence[str] = PEERS) -> Report:
    """Measure all servers in turn with each load and each number of members per connection."""
    names = group_names()
    with ExitStack() as stack:
        daemon = stack.enter_context(groupd(*OPTIONS, "--topic", f"{TOPIC}:{PARTITIONS}"))
        peers = await start_peers(stack, others, TOPIC, names, PARTITIONS, PROPERTIES)
        frames = {
            name: (server, await _frames(server, names))
            for name, server in {OURS: daemon, **peers.servers}.items()
        }
        report = _report(peers, pace)
        seen = await compare(report, frames, [OURS], LOADS, pace)
    for share, of_share in seen.items():
        wanted = {_figure(load, share): (load, OURS, KAFKA) for load in LOADS}
        report.figures |= figures(of_share, wanted)
    report.absent = [figure for figure in FIGURES if figure not in report.figures]
    return report


def _report(peers: Peers, pace: Pace) -> Report:
    return Report(
        "Heartbeats of consumer groups per server CPU-second",
        f"{CONNECTIONS} connections with 1 or 32 ConsumerGroupHeartbeats v{VERSION} in flight each, each for one "
        f"member or for four in turn, {pace.rounds} rounds of {pace.seconds:g} s, the servers in turn. A heartbeat "
        "names group, member and epoch and nothing else, which is what clients send while nothing changes; every "
        "member is a group of its own. kfake: franz-go's fake cluster (Go). Kafka: a real broker, with the JVM "
        f"options of its start script.{peers.left_out} {METHOD}",
        columns([OURS], "heartbeats per CPU-second"),
    )
