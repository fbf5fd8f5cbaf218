"""How long is a group without a coordinator when the coordinator moves or is killed?

Wire clients commit and fetch offsets in turn, and find the coordinator again after each error. The figure is the
time between two acknowledged commits.
"""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median
from typing import Final, NamedTuple

from benchmarks.connection import Connection
from benchmarks.groups import OFFSETS_PARTITIONS
from benchmarks.kafka import create_topic
from benchmarks.process import Server
from benchmarks.report import Absolute, Report, spread
from benchmarks.three_brokers import HOST, Brokers, Groupds, Kafkas
from coordinator.core.shared_types import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.partitioner import partition_for
from tests.cluster.etcd.history import History
from tests.interop.build import CannotBuild
from tests.interop.leader import make_leader

MILLION: Final = 1_000_000
KEYS: Final = 10_000
SESSION_S: Final = 9
"""The default of both brokers, in seconds."""
WIDE: Final = "wide"
WIDTH: Final = 100
"""The number of partitions in the keys."""
NOT_YET: Final = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
GROUP: Final = "prober"
PLACE: Final = partition_for(GROUP, OFFSETS_PARTITIONS)
GROUPD, KAFKA = "groupd on etcd", "Kafka"
MOVE: Final = f"s without a commit, moved with {KEYS:,} keys"
TAKEOVER: Final = "s without a commit beyond the session, owner killed"
MOVE_TO_KAFKA: Final = f"without a commit, moved with {KEYS:,} keys, to Kafka"
TAKEOVER_TO_KAFKA: Final = "without a commit, owner killed, to Kafka"
FIGURES: Final = (MOVE, TAKEOVER, MOVE_TO_KAFKA, TAKEOVER_TO_KAFKA)


class Pauses(NamedTuple):
    """The seconds without a commit in each round, and the number of fetches below the last acknowledged offset."""

    moved: list[float]
    killed: list[float]
    stale: int


async def fill(history: History, ports: Sequence[int]) -> None:
    """Fill the partition of the prober's group with KEYS offsets of other groups."""
    names = (f"group-{number}" for number in range(MILLION))
    beside = (name for name in names if partition_for(name, OFFSETS_PARTITIONS) == PLACE)
    connection = await Connection.open(Server(0, HOST, ports[await history.owner()]))
    for name, _ in zip(beside, range(KEYS // WIDTH), strict=False):
        partitions = [
            OffsetCommitRequestPartition(partition_index=number, committed_offset=1)
            for number in range(WIDTH)
        ]
        topic = OffsetCommitRequestTopic(name=WIDE, partitions=partitions)
        request = OffsetCommitRequest(group_id=name, topics=[topic])
        while True:
            answer = await connection.request(request, 2, OffsetCommitResponse)
            errors = {each.error_code for each in answer.topics[0].partitions}
            if errors == {ErrorCode.NONE}:
                break
            # The leader of a new coordinator topic may not be known yet.
            assert errors <= NOT_YET, errors
            await asyncio.sleep(0.1)
    connection.transport.abort()


async def move(ports: Sequence[int], number: int) -> None:
    """Make a broker the leader of the prober's partition, as Kafka's tools do."""
    others = [each for each in range(len(ports)) if each != number]
    node_ids = [each + 1 for each in (number, *others)]
    await asyncio.to_thread(make_leader, f"{HOST}:{ports[0]}", CONSUMER_OFFSETS, PLACE, node_ids)


async def pauses(brokers: Brokers, moves: int, kills: int) -> Pauses:
    """Measure the pauses of one cluster."""
    for topic, partitions in (("orders", 1), (WIDE, WIDTH)):
        await create_topic(Server(0, HOST, brokers.ports[0]), topic, partitions)
    history = History(brokers.ports, GROUP)
    await fill(history, brokers.ports)
    history.start()
    moved: list[float] = []
    killed: list[float] = []
    try:
        await history.until_more()
        for _ in range(moves):
            # Exclude the first broker: not every cluster survives its loss.
            target = 3 - (await history.owner() or 1)
            history.longest_pause_s = 0
            await move(brokers.ports, target)
            await history.until_more(100)
            moved.append(history.longest_pause_s)
        for _ in range(kills):
            owner = 1 + len(killed) % 2
            await move(brokers.ports, owner)
            await history.until_more(100)
            history.longest_pause_s = 0
            await asyncio.to_thread(brokers.kill, owner)
            await history.until_more(100)
            killed.append(history.longest_pause_s)
            await asyncio.to_thread(brokers.start, owner)
            await history.until_more(500)
    finally:
        await history.stop()
    return Pauses(moved, killed, len(history.stale))


async def measure(moves: int = 20, kills: int = 5, *, with_kafka: bool = True) -> Report:
    """Measure one cluster after the other, because an idle cluster uses resources as well."""
    report = Report(
        "Coordinators that move and die",
        "Three daemons on three nodes of etcd, and three brokers of Kafka, on this machine, one cluster after the "
        f"other. One partition of {OFFSETS_PARTITIONS} holds {KEYS:,} offsets; one client commits there, and two "
        "read, over connections of their own. It is moved by AlterPartitionReassignments and ElectLeaders; then "
        f"its broker is killed, and started again. Sessions are of {SESSION_S} s. Seconds without a commit; and "
        "how many reads of all rounds told an older offset than one that was acknowledged before:",
        ["what", "of", "s", "rounds", "stale reads"],
    )
    with ExitStack() as stack:
        own = await pauses(Groupds(stack), moves, kills)
    assert not own.stale, f"{own.stale} reads of groupd were stale"
    report.figures |= {MOVE: median(own.moved), TAKEOVER: median(own.killed) - SESSION_S}
    seen = {GROUPD: own}
    report.absent = [MOVE_TO_KAFKA, TAKEOVER_TO_KAFKA]
    if with_kafka:
        try:
            with ExitStack() as stack:
                seen[KAFKA] = kafkas = await pauses(await asyncio.to_thread(Kafkas, stack), moves, kills)
        except CannotBuild as problem:
            report.method += f" Not there: Kafka ({' '.join(str(problem).split())})."
        else:
            report.absent = []
            report.figures[MOVE_TO_KAFKA] = median(own.moved) / median(kafkas.moved)
            report.figures[TAKEOVER_TO_KAFKA] = median(own.killed) / median(kafkas.killed)
    for name, each in seen.items():
        for what, seconds in (("moved", each.moved), ("its broker killed", each.killed)):
            cells = [Absolute(spread(seconds, ".2f")), str(len(seconds)), str(each.stale)]
            report.rows.append([what, name, *cells])
    return report
