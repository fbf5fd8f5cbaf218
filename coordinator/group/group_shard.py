"""The groups of one `__consumer_offsets` partition: the interface of the core.

A shard has two halves. The durable half (`durable_groups.py`) equals the log; only `replay` writes it, for records
that handlers emit and for records that are read from the log. The handlers write the soft half (`shard_groups.py`:
members, parked requests, deadlines). After a restart `on_loaded` creates it from the durable half. Unwritten state,
such as a rebalance in progress, is lost, as in Kafka.

`handle` finds the handler by the class of a request. JoinGroup, SyncGroup, Heartbeat and LeaveGroup go to a classic
or a consumer group by the type of the group that exists. A request that waited for a target assignment is resumed
when the assignment is computed.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from coordinator.core.outcome import NO_PRODUCER_ID, Context, Fact, Now, Outcome, OutcomeBuilder, WorkDone
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_heartbeat import (
    expire_classic_member,
    fire_heartbeat,
    heartbeat_classic_group,
    try_classic_heartbeat,
)
from coordinator.group.classic.classic_join import join_classic_group
from coordinator.group.classic.classic_leave import leave_classic_group
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.classic.classic_sync import sync_classic_group
from coordinator.group.classic.rebalance import fire_join, fire_report, fire_sync
from coordinator.group.consumer.classic_member_requests import (
    heartbeat_classic_member,
    join_classic_member,
    remove_leaving_members,
    sync_classic_member,
)
from coordinator.group.consumer.consumer_group import ConsumerGroup
from coordinator.group.consumer.consumer_heartbeat import (
    answer_heartbeat,
    consumer_group_heartbeat,
    try_consumer_heartbeat,
)
from coordinator.group.consumer.durable_consumer_group import ConsumerGroupState
from coordinator.group.consumer.member_removal import (
    expire_consumer_member,
    fire_classic_join,
    fire_classic_sync,
    fire_rebalance,
    fire_session,
)
from coordinator.group.consumer.regex_resolution import REGEX_WORK, on_regexes_resolved
from coordinator.group.consumer.target_assignment import TARGET_WORK, ComputedTarget, TargetWork
from coordinator.group.durable_groups import DurableGroups, DurableGroupSnapshot, OffsetKey
from coordinator.group.group_admin_requests import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    extend_sessions,
    list_groups,
    shift_deadlines,
)
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_interface import Group, GroupTimeSource
from coordinator.group.group_invariants import check_invariants
from coordinator.group.group_loader import load_groups
from coordinator.group.group_request_rules import build_group_error_response
from coordinator.group.group_requests import (
    EndTransaction,
    ExpireMember,
    ExpireOffsets,
    ExtendSessions,
    FetchOffsets,
    GroupConfigsChanged,
    GroupTimerKey,
    GroupTimerKind,
    PreparedCommit,
    RepeatedCommit,
    Request,
    ShiftDeadlines,
    TopicsChanged,
)
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import ClassicMemberIds, GroupStatus, GroupView
from coordinator.group.offsets.group_offset_commit import (
    end_transaction,
    offset_commit,
    prepare_commit,
    repeat_commit,
    txn_offset_commit,
)
from coordinator.group.offsets.group_offset_fetch import fetch_offsets
from coordinator.group.offsets.offset_removal import (
    arm_expiry,
    expire_offsets,
    fire_delete_offsets,
    fire_expire_offsets,
    offset_delete,
    on_topics_changed,
)
from coordinator.group.shard_groups import ShardGroups, update_group_configs
from coordinator.group.topics_image import TopicsImage
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_delete import OffsetDeleteRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.group_record_schemas import OffsetCommitValue

MemberRequestHandler: TypeAlias = Callable[[ShardGroups, Any, Any, Context, OutcomeBuilder], None]
"""Takes the groups of the shard, the group of the request, the request and its context."""

CLASSIC_GROUP_HANDLERS: Final[Mapping[type[object], MemberRequestHandler]] = {
    JoinGroupRequest: join_classic_group,
    SyncGroupRequest: sync_classic_group,
    HeartbeatRequest: heartbeat_classic_group,
    LeaveGroupRequest: leave_classic_group,
    ExpireMember: expire_classic_member,
}
"""Handlers of requests about members, for classic groups. Without a group they get None."""

HANDLERS_BY_GROUP_TYPE: Final[Mapping[GroupType, Mapping[type[object], MemberRequestHandler]]] = {
    GroupType.CLASSIC: CLASSIC_GROUP_HANDLERS,
    GroupType.CONSUMER: {
        JoinGroupRequest: join_classic_member,
        SyncGroupRequest: sync_classic_member,
        HeartbeatRequest: heartbeat_classic_member,
        LeaveGroupRequest: remove_leaving_members,
        ExpireMember: expire_consumer_member,
    },
}
"""Handlers of requests about members, for the types of groups that have such members."""


def route_member_request(
    groups: ShardGroups, request: Any, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a request by the type of its group. A group of a type without classic members counts as missing, as in
    Kafka."""
    group = groups.by_id.get(request.group_id)
    handlers = None if group is None else HANDLERS_BY_GROUP_TYPE.get(group.type)
    if handlers is None:
        CLASSIC_GROUP_HANDLERS[type(request)](groups, None, request, context, builder)
    else:
        handlers[type(request)](groups, group, request, context, builder)


def route_classic_request(
    groups: ShardGroups, request: Any, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a JoinGroup, SyncGroup, Heartbeat or LeaveGroup, or park it until a target is computed."""
    awaited = groups.pending_targets.get(request.group_id)
    if awaited is None:
        route_member_request(groups, request, context, builder)
    else:
        awaited.parked.append((request, context))


def on_target_computed(groups: ShardGroups, done: WorkDone, builder: OutcomeBuilder) -> None:
    """Answer the requests that waited for a target, or park them again. No reply of its own."""
    work: TargetWork = done.work.argument  # type: ignore[assignment]
    awaited = groups.pending_targets.get(work.group_id)
    if awaited is None or awaited.work is not work:
        return
    del groups.pending_targets[work.group_id]
    computed = ComputedTarget(work, done.result, done.error)  # type: ignore[arg-type]
    (first, context), *behind = awaited.parked
    group = groups.find_typed_group(ConsumerGroup, work.group_id)
    if type(first) is ConsumerGroupHeartbeatRequest:
        answer_heartbeat(groups, first, context, builder, computed)
    elif group is not None and not group.is_empty:
        join_classic_member(groups, group, first, context, builder, computed)
    else:
        route_classic_request(groups, first, context, builder)
    for request, its_context in behind:
        is_heartbeat = type(request) is ConsumerGroupHeartbeatRequest
        (consumer_group_heartbeat if is_heartbeat else route_classic_request)(
            groups, request, its_context, builder
        )


def fail_pending_targets(groups: ShardGroups, builder: OutcomeBuilder) -> None:
    """Answer all requests that wait for a target with NOT_COORDINATOR."""
    for awaited in groups.pending_targets.values():
        for request, context in awaited.parked:
            builder.reply(
                context.waiter,
                build_group_error_response(request, context.api_version, ErrorCode.NOT_COORDINATOR),
            )
    groups.pending_targets.clear()


Handler: TypeAlias = Callable[[ShardGroups, Any, Context, OutcomeBuilder], None]

REQUEST_HANDLERS: Final[dict[type[object], Handler]] = {
    JoinGroupRequest: route_classic_request,
    SyncGroupRequest: route_classic_request,
    HeartbeatRequest: route_classic_request,
    LeaveGroupRequest: route_classic_request,
    ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
    ConsumerGroupDescribeRequest: consumer_group_describe,
    OffsetCommitRequest: offset_commit,
    RepeatedCommit: repeat_commit,
    TxnOffsetCommitRequest: txn_offset_commit,
    EndTransaction: end_transaction,
    FetchOffsets: fetch_offsets,
    OffsetDeleteRequest: offset_delete,
    DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
    ExpireMember: route_member_request,
    ExtendSessions: extend_sessions,
    ShiftDeadlines: shift_deadlines,
    ExpireOffsets: expire_offsets,
}

HEARTBEAT_FAST_PATHS: Final[dict[type[object], Callable[[ShardGroups, Any, Context, int], object | None]]] = {
    HeartbeatRequest: try_classic_heartbeat,
    ConsumerGroupHeartbeatRequest: try_consumer_heartbeat,
}
"""Fast paths of heartbeats, by the class of the request; the last argument is the monotonic time in milliseconds.
"""

TimerHandler: TypeAlias = Callable[[ShardGroups, Any, GroupTimerKey, OutcomeBuilder], None]
"""Takes the groups of the shard, the group of the timer, and the key of the timer."""

TIMER_HANDLERS: Final[Mapping[GroupTimerKind, tuple[type[Group], TimerHandler]]] = {
    GroupTimerKind.HEARTBEAT: (ClassicGroup, fire_heartbeat),
    GroupTimerKind.JOIN: (ClassicGroup, fire_join),
    GroupTimerKind.SYNC: (ClassicGroup, fire_sync),
    GroupTimerKind.REPORT: (ClassicGroup, fire_report),
    GroupTimerKind.CONSUMER_SESSION: (ConsumerGroup, fire_session),
    GroupTimerKind.CONSUMER_REBALANCE: (ConsumerGroup, fire_rebalance),
    GroupTimerKind.CLASSIC_MEMBER_JOIN: (ConsumerGroup, fire_classic_join),
    GroupTimerKind.CLASSIC_MEMBER_SYNC: (ConsumerGroup, fire_classic_sync),
}
"""The type of group that arms a timer, and the handler of the timer."""

NOTIFICATION_HANDLERS: Final[dict[type[object], Callable[[ShardGroups, Any, OutcomeBuilder], None]]] = {
    TopicsChanged: on_topics_changed,
    GroupConfigsChanged: update_group_configs,
    WorkDone: lambda groups, done, builder: WORK_RESULT_HANDLERS[done.work.name](groups, done, builder),
}
"""Handlers of requests without a reply."""

WORK_RESULT_HANDLERS: Final[dict[str, Callable[[ShardGroups, WorkDone, OutcomeBuilder], None]]] = {
    TARGET_WORK: on_target_computed,
    REGEX_WORK: on_regexes_resolved,
}
"""Handlers of the results of work, by the name of the work."""


class GroupShard:
    """All groups of one partition. Not thread-safe; every call returns without waiting."""

    __slots__ = ("_groups", "try_heartbeat")

    def __init__(
        self, config: GroupConfig, topics: TopicsImage, consumer_config: ConsumerGroupConfig
    ) -> None:
        """Create an empty shard with the current topics. TopicsChanged replaces them later."""
        self._groups = ShardGroups(config, topics, consumer_config)
        self.try_heartbeat: Callable[[Any, Context, int], object | None] = partial(
            _try_heartbeat, self._groups
        )
        """Answer a request of `HEARTBEAT_FAST_PATHS` that has no effect but its response, at a monotonic time in
        milliseconds. Returns None, without an effect, for a request that needs `handle`."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """Handle a request. Its response is among the replies of the outcome, or of a later one if it is parked.
        Every waiter gets exactly one response; TopicsChanged, GroupConfigsChanged and WorkDone get none."""
        builder = OutcomeBuilder(now, self._groups.durable.replay)
        handler = REQUEST_HANDLERS.get(type(request))
        if handler is not None:
            handler(self._groups, request, context, builder)
        else:
            NOTIFICATION_HANDLERS[type(request)](self._groups, request, builder)
        return builder.build()

    def prepare_commit(self, request: OffsetCommitRequest, api_version: int) -> PreparedCommit | None:
        """Prepare the repetitions of an answered commit, without an effect. Return None if a `RepeatedCommit`
        cannot represent such a request: the client's next commits are then handled as whole requests.
        """
        return prepare_commit(self._groups, request, api_version)

    def fire_timer(self, key: GroupTimerKey, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        """Handle a timer that fired. A cancelled or moved timer may still fire: it has no effect, or is armed
        again. `time_source` gives the time of each group if groups have clocks of their own.
        """
        builder = OutcomeBuilder(now, self._groups.durable.replay)
        if key.kind is GroupTimerKind.EXPIRE_OFFSETS:
            fire_expire_offsets(self._groups, builder, time_source)
        elif key.kind is GroupTimerKind.DELETE_OFFSETS:
            fire_delete_offsets(self._groups, builder)
        else:
            group_type, fire = TIMER_HANDLERS[key.kind]
            group = self._groups.by_id.get(key.group_id)
            # A converted group has no armed timers left, but one may have fired already.
            if isinstance(group, group_type):
                fire(self._groups, group, key, builder)
        return builder.build()

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log to the durable state, during a load; a record of a transaction is pending until
        its end. Live records are applied when they are written.
        """
        self._groups.durable.replay(record, producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Apply the marker at the end of a producer's transaction, during a load."""
        self._groups.durable.end_transaction(producer_id, is_committed=is_committed)

    @property
    def has_open_transactions(self) -> bool:
        """Return whether any transaction is open."""
        return self._groups.durable.has_open_transactions

    def on_loaded(self, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        """Create the groups from the durable state after the last record was replayed. Every member gets a full
        session. `time_source` gives the time of each group where groups have clocks of their own.

        Raises:
            ValueError: no group can have such a record.
        """
        builder = OutcomeBuilder(now, self._groups.durable.replay)
        load_groups(self._groups, builder, time_source)
        arm_expiry(self._groups, builder)
        return builder.build()

    def unload(self) -> list[tuple[int, object]]:
        """Unload all groups and return the responses to parked requests, NOT_COORDINATOR. The shard must not be
        used afterwards.
        """
        builder = OutcomeBuilder(Now(0, 0), self._groups.durable.replay)
        for group in self._groups.by_id.values():
            group.unload(builder)
            assert group.is_dead, group.group_id
        fail_pending_targets(self._groups, builder)
        assert not builder.records, builder.records
        return builder.replies

    def list_group_ids(self) -> list[str]:
        """Return the ids of all groups, oldest first."""
        return list(self._groups.by_id)

    def knows_group(self, group_id: str) -> bool:
        """Return whether a group exists, or the log has records of it."""
        return group_id in self._groups.by_id or group_id in self._groups.durable

    def view_group(self, group_id: str, now: Now) -> GroupView | None:
        """Return the view of a group; None for a missing group."""
        group = self._groups.by_id.get(group_id)
        if group is None:
            return None
        view = group.view(now.monotonic_ms, self._groups.topics)
        assert len(view.members) == group.member_count, group_id
        pending = self._groups.durable.offsets.count_pending_by_producer(group_id)
        return replace(view, pending_offsets=pending) if pending else view

    def summarize_group(self, group_id: str) -> GroupStatus | None:
        """Return type, state and size of a group; None for a missing group."""
        group = self._groups.by_id.get(group_id)
        return None if group is None else GroupStatus(group.type, group.state_name, group.member_count)

    def list_classic_members(self, group_id: str) -> ClassicMemberIds | None:
        """Return the member ids of a classic group; None for a missing group and for another type."""
        group = self._groups.find_typed_group(ClassicGroup, group_id)
        return None if group is None else ClassicMemberIds(group.members.keys(), group.pending_members.keys())

    def compute_session_margin(self, group_id: str, now: Now) -> float | None:
        """Return the smallest remaining share of a session, from 0 to 1; None without a session, and for a missing
        group.
        """
        group = self._groups.by_id.get(group_id)
        return None if group is None else group.session_margin(now.monotonic_ms)

    def list_deadlines(self, group_id: str) -> dict[GroupTimerKey, int]:
        """Return the armed timers of a group with their monotonic times; none for a missing group."""
        group = self._groups.by_id.get(group_id)
        if group is None:
            return {}
        deadlines = dict(group.list_deadlines())
        assert all(key.group_id == group_id for key in deadlines), group_id
        return deadlines

    def find_committed_offset(self, group_id: str, topic: str, partition: int) -> int | None:
        """Return the committed offset of a partition, None without one."""
        value = self._groups.durable.offsets.find_offset(group_id, topic, partition)
        return None if value is None else value.offset

    def find_committed_value(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """Return the record of the committed offset of a partition, None without one."""
        return self._groups.durable.offsets.find_offset(group_id, topic, partition)

    def list_pending_values(self, producer_id: int) -> dict[OffsetKey, OffsetCommitValue]:
        """Return the records of the pending offsets in a producer's transaction."""
        pending = self._groups.durable.offsets.pending.by_producer.get(producer_id, {})
        return {place: value for place, (_, value) in pending.items()}

    def list_committed_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """Return all committed offsets of a group, by topic and partition."""
        return {
            (topic, partition): value.offset
            for topic, partitions in self._groups.durable.offsets.find_group_offsets(group_id).items()
            for partition, value in partitions.items()
        }

    def list_committed_topic_ids(self) -> dict[str, set[bytes]]:
        """Return the ids of the topics with committed offsets, by name; zeros for an unknown id."""
        return self._groups.durable.offsets.topic_ids()

    def find_last_commit_ms(self, group_id: str) -> int | None:
        """Return the Unix time (ms) of a group's newest commit; None without offsets."""
        offsets = self._groups.durable.offsets.find_group_offsets(group_id)
        return max(
            (value.commit_timestamp for partitions in offsets.values() for value in partitions.values()),
            default=None,
        )

    @property
    def group_count(self) -> int:
        """Return the number of groups, including empty ones."""
        return len(self._groups.by_id)

    @property
    def classic_states(self) -> Mapping[ClassicGroupState, int]:
        """Return the number of classic groups by state."""
        return self._groups.classic_states

    @property
    def consumer_states(self) -> Mapping[ConsumerGroupState, int]:
        """Return the number of consumer groups by state."""
        found = map(self._groups.by_id.get, self._groups.durable.consumers.group_ids())
        return Counter(group.state for group in found if isinstance(group, ConsumerGroup))

    @property
    def config(self) -> GroupConfig:
        """Return the config of classic groups."""
        return self._groups.config

    @property
    def consumer_config(self) -> ConsumerGroupConfig:
        """Return the config of consumer groups."""
        return self._groups.consumer_config

    @property
    def topics(self) -> TopicsImage:
        """Return the current image of topics."""
        return self._groups.topics

    @property
    def new_topics_version(self) -> int:
        """Return the version of the last image with a new topic."""
        return self._groups.new_topics_version

    def restore_topics_version(self, version: int) -> None:
        """Set the version of the last image with a new topic, for a shard that continues another one."""
        self._groups.new_topics_version = version

    def find_overrides(self, group_id: str) -> Mapping[str, str] | None:
        """Return the configs of a single group, also of a missing one; None without any."""
        return self._groups.overrides.get(group_id)

    @property
    def durable_keys(self) -> int:
        """Return the number of keys that have a value in the log."""
        return len(self._groups.durable)

    def copy_durable(self) -> DurableGroups:
        """Return a copy of the durable state, to write while the shard continues. Requires that no transaction is
        open.
        """
        return self._groups.durable.copy()

    def snapshot_durable(self) -> dict[str, DurableGroupSnapshot]:
        """Return the durable state by group, for comparison with another shard that replayed the same records."""
        return self._groups.durable.snapshot()

    def check_invariants(self) -> None:
        """Check the invariants of all groups, which hold between calls: for tests and simulations."""
        check_invariants(self._groups)


def _try_heartbeat(groups: ShardGroups, request: Any, context: Context, monotonic_ms: int) -> object | None:
    return HEARTBEAT_FAST_PATHS[type(request)](groups, request, context, monotonic_ms)


class ShardDecorator(GroupShard):
    """An interceptor of the calls of a shard. It passes every call on; subclasses override some. Queries bypass it.
    It is created again with each shard and after each change of the chain: longer-lived state belongs elsewhere.
    """

    __slots__ = ("inner",)

    def __init__(self, inner: GroupShard) -> None:
        self._groups = inner._groups
        self.inner = inner
        self.try_heartbeat = inner.try_heartbeat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        return self.inner.handle(request, context, now)

    def fire_timer(self, key: GroupTimerKey, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        return self.inner.fire_timer(key, now, time_source)

    def on_loaded(self, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        return self.inner.on_loaded(now, time_source)

    def unload(self) -> list[tuple[int, object]]:
        return self.inner.unload()
