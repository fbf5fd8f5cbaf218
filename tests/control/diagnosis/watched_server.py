"""A server with its oracles, and members that send the assignments of a test, over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.broker.composition_root import open_server
from coordinator.broker.group_event_log import EventRank
from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.diagnosis.violation import OracleName, Violation
from coordinator.core.outcome import Now
from coordinator.group.group_event_types import GroupEvent, MemberJoined, RebalanceStarted
from coordinator.runtime.timers import GroupClock
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import TIMEOUT_S, Client, heartbeat_request, settings, sync_request

GROUP = "billing"
Places = Sequence[tuple[str, int]]


@dataclass(frozen=True)
class Watched:
    """A server and its oracles."""

    server: Server
    control: ControlPlane

    @property
    def violations(self) -> list[Violation]:
        """All that were found."""
        return self.control.oracles.violations.list_after(limit=1000)

    def of(self, oracle: OracleName, group: str = GROUP) -> list[Violation]:
        """Those of one oracle in a group."""
        return self.control.oracles.violations.list_after(limit=1000, group_id=group, oracle=oracle)

    def in_group(self, group: str = GROUP) -> list[str]:
        """What was found in a group."""
        return [violation.detail for violation in self.violations if violation.group_id == group]

    async def found(self, oracle: OracleName, group: str = GROUP) -> Violation:
        """Waits until an oracle has found something in a group: the first of it."""
        arrived = asyncio.Event()
        self.control.oracles.listeners.append(lambda _: arrived.set())
        async with asyncio.timeout(TIMEOUT_S):
            while not self.of(oracle, group):
                await arrived.wait()
                arrived.clear()
        return self.of(oracle, group)[0]


@asynccontextmanager
async def watched(
    data_dir: Path,
    properties: Mapping[str, str] | None = None,
    *,
    topics: Sequence[tuple[str, int]] = (("orders", 4),),
    group_clock: GroupClock | None = None,
) -> AsyncIterator[Watched]:
    """A server that is ready, closed at the end."""
    server = open_server(settings(data_dir, properties, topics=topics), group_clock=group_clock)
    control = ControlPlane(server)
    await server.listen()
    await asyncio.wait_for(server.ready.wait(), TIMEOUT_S)
    try:
        yield Watched(server, control)
    finally:
        control.close()
        await server.close()


def partitions(places: Places) -> list[TopicPartitions]:
    """By topic, as the protocol has them."""
    topics = dict.fromkeys(topic for topic, _ in places)
    return [
        TopicPartitions(topic=topic, partitions=[number for of, number in places if of == topic])
        for topic in topics
    ]


def orders(*numbers: int) -> Places:
    """Partitions of the topic."""
    return [("orders", number) for number in numbers]


class Member(Client):
    """A consumer of orders that reports its owned partitions on request, and does nothing by itself."""

    def __init__(self, watch: Watched, client_id: str, group: str = GROUP) -> None:
        super().__init__(watch.server, client_id)
        self.watch = watch
        self.group = group
        self.protocol, self.protocol_type = "range", "consumer"
        self.topics: Sequence[str] = ("orders",)
        self.metadata: bytes | None = None  # its subscription and its owned partitions
        self.session_timeout_ms = 10_000
        self.owned: Places = ()
        self.member_id, self.generation_id, self.leader = "", -1, ""

    def ask_to_join(self) -> None:
        """Sends a JoinGroup."""
        subscription = ConsumerProtocolSubscription(
            topics=list(self.topics),
            owned_partitions=partitions(self.owned),
            generation_id=self.generation_id,
        )
        metadata = encode_subscription(subscription, 2) if self.metadata is None else self.metadata
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=self.protocol, metadata=metadata)],
        )
        self.send(request, 3)

    async def joined(self) -> None:
        """Waits for the answer."""
        answer: JoinGroupResponse = await self.receive()
        assert answer.error_code == 0, answer
        self.member_id, self.generation_id, self.leader = (
            answer.member_id,
            answer.generation_id,
            answer.leader,
        )

    def ask_to_sync(self, assignments: Mapping[str, Places] | None = None) -> None:
        """Sends a SyncGroup, with assignments by member id."""
        data = {
            member_id: encode_assignment(
                ConsumerProtocolAssignment(assigned_partitions=partitions(places)), 1
            )
            for member_id, places in (assignments or {}).items()
        }
        self.send(sync_request(self.group, self.member_id, self.generation_id, data), 3)

    async def beat(self) -> int:
        """A heartbeat; the error of its answer."""
        request = heartbeat_request(self.group, self.member_id, self.generation_id)
        return int((await self.call(request, 3)).error_code)

    async def commit(self, partition: int, offset: int, topic: str = "orders") -> int:
        """Commits one offset; the error of the answer."""
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
                    ],
                )
            ],
        )
        answer = await self.call(request, 7)
        return int(answer.topics[0].partitions[0].error_code)


async def until_happened(watch: Watched, what: type[GroupEvent], ask: Callable[[], None]) -> None:
    """Asks for something, and waits until it has happened."""
    has_happened = asyncio.Event()

    def hear(_: int, event: GroupEvent, __: int, ___: Now) -> None:
        if type(event) is what:
            has_happened.set()

    watch.server.group_events.subscribe(EventRank.COMMANDS, hear)
    ask()
    await asyncio.wait_for(has_happened.wait(), TIMEOUT_S)
    watch.server.group_events.unsubscribe(hear)


async def join(members: Sequence[Member]) -> None:
    """Let members join in one join phase, existing members first."""
    watch = members[0].watch
    old = [member for member in members if member.member_id]
    new = [member for member in members if not member.member_id]
    if not old:
        old = [new.pop(0)]
        old[0].ask_to_join()
        await old[0].joined()
        if not new:
            return
    if not new:
        old.sort(key=lambda member: member.member_id != member.leader)
        await until_happened(watch, RebalanceStarted, old[0].ask_to_join)
    for member in new:
        await until_happened(watch, MemberJoined, member.ask_to_join)
    for member in old if new else old[1:]:
        member.ask_to_join()
    for member in members:
        await member.joined()


async def sync(members: Mapping[Member, Places], strangers: Mapping[str, Places] | None = None) -> None:
    """Assign these partitions to all members. `strangers` has the partitions that the leader assigns to other
    ids."""
    assignments = {member.member_id: places for member, places in members.items()} | dict(strangers or {})
    for member in members:
        member.ask_to_sync(assignments if member.member_id == member.leader else None)
    for member in members:
        answer = await member.receive()
        assert answer.error_code == 0, answer


async def generation(members: Mapping[Member, Places], strangers: Mapping[str, Places] | None = None) -> None:
    """Run a rebalance of these members with an assignment."""
    await join(list(members))
    await sync(members, strangers)
