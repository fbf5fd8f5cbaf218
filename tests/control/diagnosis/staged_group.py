"""A server whose groups have their own clock, and consumers that send the requests of a test one by one.

async with staged() as stage:
    alice, bob = await stage.stable("alice", "bob")
    stage.held.advance(2000)
    problem = await stage.unmet(members=3)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import pytest

from coordinator.broker.group_event_log import EventRank
from coordinator.broker.server import Server
from coordinator.control.diagnosis.group_diagnosis import Explanation, WaitResult, format_explanation
from coordinator.control.diagnosis.group_snapshot import RebalanceSource
from coordinator.control.diagnosis.group_waits import GroupWaits
from coordinator.control.diagnosis.wait_conditions import GroupConditions
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.group_removals import GroupRemovals
from coordinator.control.member_connections import MemberConnections
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.group.group_view import GroupView, MemberView
from protocol.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions, encode_assignment
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.harness import Client, heartbeat_request, serving
from tests.group.subscriptions import subscription
from tests.runtime.held_clock import HeldClock
from tests.storage.faulty_files import FaultyFiles

TIMEOUT_S = 60
GROUP = "billing"
SESSION_MS = 45_000
REBALANCE_MS = 300_000
INITIAL_DELAY_MS = 3_000
Partitions = Mapping[str, Sequence[int]]


def assignment(partitions: Partitions) -> bytes:
    """The bytes of a member's part."""
    topics = [TopicPartitions(topic=topic, partitions=list(numbers)) for topic, numbers in partitions.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics), 1)


class Consumer:
    """One member over a connection of its own, which does nothing by itself."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        topics: Sequence[str] = ("orders",),
        group: str = GROUP,
        instance_id: str | None = None,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        assignors: Sequence[str] = ("range",),
    ) -> None:
        self.client = client
        self.name = name
        self.topics = topics
        self.group = group
        self.instance_id = instance_id
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.assignors = assignors
        self.member_id = ""
        self.generation_id = -1
        self.joined: JoinGroupResponse | None = None

    def send_join(self, version: int | None = None) -> None:
        """Send a JoinGroup. By default its version does not require a member id first."""
        if version is None:
            version = 3 if self.instance_id is None else 5
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=subscription(*self.topics))
            for name in self.assignors
        ]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=protocols,
        )
        self.client.send(request, version)

    async def receive_join(self) -> JoinGroupResponse:
        """The answer to it."""
        answer: JoinGroupResponse = await self.client.receive()
        if answer.error_code == ErrorCode.NONE:
            self.member_id, self.generation_id, self.joined = answer.member_id, answer.generation_id, answer
        return answer

    @property
    def leads(self) -> bool:
        """Whether it has to assign."""
        return self.joined is not None and self.joined.leader == self.member_id

    def send_sync(self, assignments: Mapping[str, bytes] | None = None) -> None:
        """Sends a SyncGroup."""
        given = [
            SyncGroupRequestAssignment(member_id=member_id, assignment=data)
            for member_id, data in (assignments or {}).items()
        ]
        self.client.send(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation_id,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                assignments=given,
            ),
            4,
        )

    async def receive_sync(self) -> SyncGroupResponse:
        """The answer to it."""
        answer: SyncGroupResponse = await self.client.receive()
        assert answer.error_code == ErrorCode.NONE, answer
        return answer

    async def heartbeat(self) -> ErrorCode:
        """Send a heartbeat and return its error code."""
        request = heartbeat_request(self.group, self.member_id, self.generation_id)
        request.group_instance_id = self.instance_id
        return ErrorCode((await self.client.call(request, 4)).error_code)

    async def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets and wait until they are durable."""
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=offset, committed_metadata=None
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ]
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=topics,
        )
        answer = await self.client.call(request, 7)
        codes = [part.error_code for topic in answer.topics for part in topic.partitions]
        assert not any(codes), codes

    def forget(self) -> None:
        """Forget the member id, like a client that counts its session as expired."""
        self.member_id, self.generation_id = "", -1

    async def die(self) -> None:
        """End the process."""
        self.client.writer.transport.abort()


class Stage:
    def __init__(
        self, server: Server, held: HeldClock, stack: AsyncExitStack, ledger: RebalanceSource | None
    ) -> None:
        self.server = server
        self.held = held
        self.acts = ActionLog()
        self.connections = MemberConnections(server.connections)
        asker = InternalGroupClient(server.runtime, server.arrival, server.membership.ownership)
        removals = GroupRemovals()
        server.group_events.subscribe(EventRank.REMOVALS, removals.on_event)
        self.waits = GroupWaits(
            server, asker, self.connections, self.acts, lambda _: held.now(), removals, ledger
        )
        self._stack = stack

    async def consumer(self, name: str, **settings: Any) -> Consumer:
        """One that has not joined yet."""
        return Consumer(await self._stack.enter_async_context(Client(self.server, name)), name, **settings)

    def view(self, group: str = GROUP) -> GroupView | None:
        """The group now."""
        machine = self.server.runtime.find_partition(group).machine
        return None if machine is None else machine.view_group(group, self.held.now())

    def member(self, consumer: Consumer) -> MemberView:
        """What the group has of one that it knows."""
        view = self.view(consumer.group)
        assert view is not None
        return next(one for one in view.members if one.name.member_id == consumer.member_id)

    async def until(self, is_so: Callable[[GroupView], bool], group: str = GROUP) -> None:
        """Waits until the group is so."""
        async with asyncio.timeout(TIMEOUT_S):
            while (view := self.view(group)) is None or not is_so(view):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.001)

    async def joining(self, consumers: Sequence[Consumer], *, parked: int | None = None) -> None:
        """Has them send a JoinGroup, and waits until so many are parked in all."""
        view = self.view(consumers[0].group)
        held = 0 if view is None else sum(member.is_awaiting_join for member in view.members)
        for consumer in consumers:
            consumer.send_join()
        count = held + len(consumers) if parked is None else parked
        group = consumers[0].group
        await self.until(lambda view: sum(one.is_awaiting_join for one in view.members) >= count, group)

    async def joined(self, consumers: Sequence[Consumer]) -> Consumer:
        """Let consumers join an empty group up to the sync phase, and return the leader."""
        await self.joining(consumers)
        group = consumers[0].group
        while (view := self.view(group)) is not None and view.state == "PreparingRebalance":
            self.held.advance(INITIAL_DELAY_MS)
            await asyncio.sleep(0.005)
        for consumer in consumers:
            answer = await consumer.receive_join()
            assert answer.error_code == ErrorCode.NONE, answer
        return next(consumer for consumer in consumers if consumer.leads)

    def shared_out(self, consumers: Sequence[Consumer]) -> dict[str, bytes]:
        """Return an assignment that deals the subscribed partitions to the subscribers in turn."""
        parts: dict[str, dict[str, list[int]]] = {consumer.member_id: {} for consumer in consumers}
        for topic in sorted({topic for consumer in consumers for topic in consumer.topics}):
            readers = [consumer for consumer in consumers if topic in consumer.topics]
            found = self.server.data_plane.catalogue.find_topic(topic)
            for number in range(0 if found is None else len(found.partitions)):
                parts[readers[number % len(readers)].member_id].setdefault(topic, []).append(number)
        return {member_id: assignment(topics) for member_id, topics in parts.items()}

    async def synced(
        self, consumers: Sequence[Consumer], assignments: Mapping[str, bytes] | None = None
    ) -> None:
        """Has their leader hand in an assignment, and all fetch it."""
        given = self.shared_out(consumers) if assignments is None else assignments
        for consumer in consumers:
            consumer.send_sync(given if consumer.leads else None)
        for consumer in consumers:
            await consumer.receive_sync()

    async def stable(
        self, *names: str, assigned: Partitions | None = None, **settings: Any
    ) -> list[Consumer]:
        """A Stable group of these, all with the same settings."""
        consumers = [await self.consumer(name, **settings) for name in names]
        await self.joined(consumers)
        given = None if assigned is None else {one.member_id: assignment(assigned) for one in consumers}
        await self.synced(consumers, given)
        return consumers

    # Asking

    async def check(self, group: str = GROUP, **conditions: Any) -> WaitResult:
        """It is so."""
        return await self.waits.check_conditions(group, GroupConditions(**conditions))

    async def wait(self, group: str = GROUP, within_ms: int = 60_000, **conditions: Any) -> WaitResult:
        """It becomes so."""
        return await self.waits.wait_for_conditions(group, GroupConditions(**conditions), within_ms)

    async def unmet(self, group: str = GROUP, within_ms: int = 0, **conditions: Any) -> Problem:
        """Wait for a failure of the conditions and return it."""
        asked = self.wait(group, within_ms, **conditions) if within_ms else self.check(group, **conditions)
        with pytest.raises(Problem) as raised:
            await asked
        assert raised.value.kind is ProblemKind.NOT_MET, raised.value
        return raised.value

    def explain(self, group: str = GROUP) -> Explanation:
        """Return the explanation of a group, which must be printable."""
        explained = self.waits.explain_group(group)
        assert all(line.isprintable() for line in format_explanation(explained).splitlines())
        return explained

    def found(self, kind: str, group: str = GROUP) -> str:
        """The sentence of a finding."""
        return next(finding.sentence for finding in self.explain(group).findings if finding.kind == kind)

    async def __aenter__(self) -> Self:
        return self


@asynccontextmanager
async def staged(
    topics: Sequence[tuple[str, int]] = (("orders", 6),),
    properties: Mapping[str, str] | None = None,
    files: FaultyFiles | None = None,
    ledger: RebalanceSource | None = None,
) -> AsyncIterator[Stage]:
    """A server with a stopped clock of groups."""
    held = HeldClock(behind_ms=3_600_000)
    held.hold()
    texts = {"group.initial.rebalance.delay.ms": str(INITIAL_DELAY_MS), **(properties or {})}
    async with (
        serving("/data", texts, topics=topics, files=files or FaultyFiles(), group_clock=held) as server,
        AsyncExitStack() as stack,
    ):
        stage = Stage(server, held, stack, ledger)
        yield stage
        stage.waits.close()


async def begun(stage: Stage, count: int = 1) -> None:
    """So many wait by now."""
    async with asyncio.timeout(TIMEOUT_S):
        while len(stage.waits) < count:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)


async def ended(*waiting: "asyncio.Task[Any]") -> list[Any]:
    """Return the results of the waits."""
    return await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
