"""A shard with a clock, timers and an in-memory log, for tests of the core.

After every call it checks the invariants. It also checks that a second shard that loaded the records so far has the
same durable state.
"""

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from coordinator.core.outcome import Context, Fact, Now, Outcome, TransactionMarker
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_state_machine import DEAD
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_event_types import GroupEvent
from coordinator.group.group_requests import (
    EndTransaction,
    FetchOffsets,
    GroupTimerKey,
    GroupTimerKind,
    Request,
)
from coordinator.group.group_shard import HEARTBEAT_FAST_PATHS, GroupShard
from coordinator.group.topics_image import NO_TOPICS, TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.group.ask import WHO, Ask
from tests.group.config import group_config
from tests.group.entries import Entry, entries_of, replay
from tests.group.new_shard import CONSUMER_CONFIG
from tests.group.subscriptions import subscription

E = TypeVar("E", bound=GroupEvent)
START = Now(1_000_000, 1_700_000_000_000)
GROUP = "orders"
RANGE = [("range", subscription("foo"))]


class Coordinator:
    """A shard with a clock. It fires timers, and records replies, events and the log."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        consumer_config: ConsumerGroupConfig | None = None,
        topics: TopicsImage = NO_TOPICS,
    ) -> None:
        self.config = group_config() if config is None else config
        self.consumer_config = CONSUMER_CONFIG if consumer_config is None else consumer_config
        self.topics = topics
        self.now = START
        self.log: list[Entry] = []
        self.events: list[GroupEvent] = []
        self.timers: dict[GroupTimerKey, int] = {}
        self._requests: dict[int, Ask] = {}
        self._uuids = 0
        self._start([])

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.config, self.topics, self.consumer_config)

    def _start(self, log: Sequence[Entry]) -> None:
        self.shard, self._replica = self._new_shard(), self._new_shard()
        replay(self.shard, log)
        replay(self._replica, log)
        self.timers.clear()
        self.take(self.shard.on_loaded(self.now))

    @property
    def records(self) -> list[Fact]:
        """The records in the log, in transactions and outside of them."""
        return [entry[0] for entry in self.log if not isinstance(entry, TransactionMarker)]

    def restart(self, config: GroupConfig | None = None) -> None:
        """Drop the soft state, and load the log into a new shard."""
        self.config = self.config if config is None else config
        self.events.clear()
        self._start(self.log)

    def send(self, request: Request, version: int, client_id: str = WHO[0], host: str = WHO[1]) -> Ask:
        """Send a request to the shard."""
        self._uuids += 1
        ask = Ask(len(self._requests) + 1)
        self._requests[ask.waiter] = ask
        context = Context(ask.waiter, version, client_id, host, str(UUID(int=self._uuids)))
        fast_response = (
            self.shard.try_heartbeat(request, context, self.now.monotonic_ms)
            if type(request) in HEARTBEAT_FAST_PATHS
            else None
        )
        outcome = self.shard.handle(request, context, self.now)
        if fast_response is not None:
            assert outcome == Outcome([], [(context.waiter, fast_response)], {}, []), outcome
        self.take(outcome)
        return ask

    def fire(self, key: GroupTimerKey) -> None:
        """Fire a timer now, due or not."""
        self.timers.pop(key, None)
        self.take(self.shard.fire_timer(key, self.now))

    def advance(self, duration_ms: int) -> None:
        """Advance the clock and fire due timers."""
        end_ms = self.now.monotonic_ms + duration_ms
        while self.timers:
            key, deadline_ms = min(self.timers.items(), key=lambda timer: timer[1])
            if deadline_ms > end_ms:
                break
            self._pass(max(deadline_ms - self.now.monotonic_ms, 0))
            self.fire(key)
        self._pass(end_ms - self.now.monotonic_ms)

    def _pass(self, duration_ms: int) -> None:
        self.now = Now(self.now.monotonic_ms + duration_ms, self.now.wall_ms + duration_ms)

    def unload(self) -> None:
        """Unload the groups."""
        self._deliver(self.shard.unload())
        self.shard.check_invariants()

    def take(self, outcome: Outcome) -> None:
        """Process the outcome of a call, and check the invariants and the replayed log."""
        written = entries_of(outcome)
        self.log.extend(written)
        self.events.extend(outcome.events)
        self._deliver(outcome.replies)
        for key, deadline_ms in outcome.timers.items():
            if deadline_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = deadline_ms
        self.shard.check_invariants()
        self._check_reports()
        replay(self._replica, written)
        if written:
            assert self.shard.snapshot_durable() == self._replica.snapshot_durable()

    def _check_reports(self) -> None:
        """Check that exactly the waiting groups have a report timer; timers of an unloaded shard do not count."""
        by_id = self.shard._groups.by_id
        groups = {name: group for name, group in by_id.items() if isinstance(group, ClassicGroup)}
        waiting = {
            group.group_id: group.rebalance.report_deadline_ms
            for group in groups.values()
            if group.rebalance is not None
        }
        assert waiting == {
            key.group_id: deadline_ms
            for key, deadline_ms in self.timers.items()
            if key.kind is GroupTimerKind.REPORT
            and not (key.group_id in groups and groups[key.group_id].state is DEAD)
        }

    def _deliver(self, replies: Sequence[tuple[int, object]]) -> None:
        for waiter, message in replies:
            assert self._requests[waiter].reply is None, f"waiter {waiter} is answered twice"
            self._requests[waiter].reply = message

    def find_events(self, kind: type[E]) -> list[E]:
        """Return the events of one class, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        session: int = 10_000,
        rebalance: int = 60_000,
        protocol_type: str = "consumer",
        reason: str | None = None,
        group: str = GROUP,
        client_id: str = "client",
    ) -> Ask:
        """Send a JoinGroup."""
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
            reason=reason,
        )
        return self.send(request, version, client_id)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 5,
        instance: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group: str = GROUP,
    ) -> Ask:
        """Send a SyncGroup."""
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
        )
        return self.send(request, version)

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP
    ) -> ErrorCode:
        """Send a Heartbeat and return its error."""
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return self.send(request, 4).error

    def leave(self, *identities: MemberIdentity, group: str = GROUP) -> Ask:
        """Send a LeaveGroup of several members."""
        return self.send(LeaveGroupRequest(group_id=group, members=list(identities)), 5)

    def leave_alone(self, member_id: str, *, group: str = GROUP) -> ErrorCode:
        """Send a LeaveGroup in the form for one member and return its error."""
        return self.send(LeaveGroupRequest(group_id=group, member_id=member_id), 2).error

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        *,
        version: int = 9,
        instance: str | None = None,
        topic: str = "foo",
        partition: int = 0,
        offset: int = 7,
        metadata: str | None = "",
        group: str = GROUP,
        retention_time_ms: int = -1,
        commit_timestamp: int = -1,
        leader_epoch: int = -1,
        topic_id: bytes = bytes(16),
    ) -> ErrorCode:
        """Commit the offset of one partition and return its error."""
        one = OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_metadata=metadata,
            commit_timestamp=commit_timestamp,
            committed_leader_epoch=leader_epoch,
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_time_ms,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[one])],
        )
        response = self.send(request, version).answer(OffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def txn_commit(
        self,
        producer_id: int,
        member_id: str = "",
        generation: int = -1,
        *,
        version: int = 6,
        epoch: int = 0,
        instance: str | None = None,
        topic: str = "foo",
        partition: int = 0,
        offset: int = 7,
        metadata: str | None = "",
        group: str = GROUP,
        leader_epoch: int = -1,
        topic_id: bytes = bytes(16),
    ) -> ErrorCode:
        """Commit the offset of one partition in a producer's transaction and return its error."""
        one = TxnOffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        )
        request = TxnOffsetCommitRequest(
            transactional_id=f"t{producer_id}",
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[TxnOffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[one])],
        )
        response = self.send(request, version).answer(TxnOffsetCommitResponse)
        return ErrorCode(response.topics[0].partitions[0].error_code)

    def end(self, producer_id: int, *, is_committed: bool = True) -> None:
        """End a producer's transaction."""
        request = EndTransaction(
            producer_id, producer_epoch=1, coordinator_epoch=3, is_committed=is_committed
        )
        assert self.send(request, 0).reply is ErrorCode.NONE

    def unstable(
        self, topics: dict[str, list[int]] | None = None, group: str = GROUP
    ) -> dict[tuple[str, int], bool]:
        """Return which partitions have unstable offsets in a fetch of stable offsets."""
        requested = None if topics is None else [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ]  # fmt: skip
        request = FetchOffsets(OffsetFetchRequestGroup(group_id=group, topics=requested), require_stable=True)
        response = self.send(request, 9).answer(OffsetFetchResponseGroup)
        unstable = OffsetFetchResponsePartitions(
            partition_index=0, committed_offset=-1, metadata="", error_code=88
        )
        answered = {}
        for topic in response.topics:
            for one in topic.partitions:
                answered[topic.name, one.partition_index] = one.error_code != ErrorCode.NONE
                unstable.partition_index = one.partition_index
                assert one.error_code == ErrorCode.NONE or one == unstable
        return answered

    def fetch(
        self, topics: dict[str, list[int]] | None = None, group: str = GROUP
    ) -> dict[tuple[str, int], tuple[int, int, str]]:
        """Return offset, leader epoch and metadata by topic and partition; None means all partitions."""
        requested = None if topics is None else [
            OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ]  # fmt: skip
        request = FetchOffsets(OffsetFetchRequestGroup(group_id=group, topics=requested))
        response = self.send(request, 9).answer(OffsetFetchResponseGroup)
        assert response.error_code == ErrorCode.NONE
        return {
            (topic.name, one.partition_index): (
                one.committed_offset,
                one.committed_leader_epoch,
                one.metadata or "",
            )
            for topic in response.topics
            for one in topic.partitions
        }

    def delete_offsets(self, *partitions: tuple[str, int], group: str = GROUP) -> Ask:
        """Send an OffsetDelete."""
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index)]
            )
            for name, index in partitions
        ]
        return self.send(OffsetDeleteRequest(group_id=group, topics=topics), 0)

    def delete_groups(self, *groups: str) -> Ask:
        """Send a DeleteGroups."""
        return self.send(DeleteGroupsRequest(groups_names=list(groups)), 3)

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> Ask:
        """Send a ListGroups."""
        return self.send(ListGroupsRequest(states_filter=list(states), types_filter=list(types)), 5)

    def describe(self, group: str = GROUP, version: int = 5, authorized: bool = False) -> DescribedGroup:
        """Describe one group."""
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=authorized)
        (described,) = self.send(request, version).answer(DescribeGroupsResponse).groups
        return described

    def state(self, group: str = GROUP) -> str:
        """Return the state of the group in DescribeGroups."""
        return self.describe(group).group_state
