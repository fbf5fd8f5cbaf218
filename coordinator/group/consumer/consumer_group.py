"""A consumer group in service: its durable state, and its soft state such as deadlines and work in progress.

A member has two timers: one for its session, one for giving up partitions. A member of the classic protocol
has two others, for its next JoinGroup and SyncGroup. A heartbeat only moves the deadline of the session. The
outer timer stays as it is and is set again when it fires too early.

Source: Kafka's `ConsumerGroup`; GroupMetadataManager, scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout, scheduleConsumerGroupJoinTimeoutIfAbsent,
scheduleConsumerGroupSyncTimeout.
"""

from typing import Final

from msgspec import Struct

from coordinator.core.outcome import OutcomeBuilder
from coordinator.group.consumer.consumer_group_store import ConsumerGroupStore
from coordinator.group.consumer.consumer_member import ConsumerMember, MemberState
from coordinator.group.consumer.durable_consumer_group import (
    ConsumerGroupState,
    DurableConsumerGroup,
    compute_group_state,
)
from coordinator.group.group_event_types import TopicChange
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind

NEVER: Final = -(2**63)
METADATA_REFRESH_MS: Final = 2**31 - 1
"""Until the topics are looked at again by themselves."""


class MemberSession(Struct):
    """The session of one member, in monotonic time. `deadline_ms` is when it counts as lost unless it is heard
    before; `timer_ms` is when the timer outside fires, which may be earlier: a heartbeat moves only the former.
    `heard_ms` is when it was heard last, which gave it `timeout_ms`; who keeps it alive may have moved its
    deadline further. `rebalance_ms` is until when it has to give its partitions up, None where it has none to
    give up, and `rebalance_epoch` its epoch when that began. `join_ms` and `sync_ms` are until when a member of
    the classic protocol has to join again, and to ask for its assignment, None where it has not to.
    `connection_id` is the one over which it was heard last, 0 when that was before a restart."""

    heard_ms: int
    deadline_ms: int
    timeout_ms: int = 0
    timer_ms: int | None = None
    rebalance_ms: int | None = None
    rebalance_epoch: int = 0
    rebalance_timeout_ms: int = 0
    join_ms: int | None = None
    sync_ms: int | None = None
    connection_id: int = 0


class ConsumerGroup:
    """The soft half, beside what the store has of it. `metadata_deadline_ms` (monotonic) is when the topics are to
    be looked at again; `sessions` has every member; `resolving` is the work, while its expressions are held against
    the topics somewhere else, `resolved_version` the version of the topics against which they were held last, 0
    where that was before a load, and `unresolved_ms` (wall) when that came to nothing last. `topic_changes` is what
    has happened to its topics since they were looked at."""

    __slots__ = (
        "_store",
        "group_id",
        "is_dead",
        "metadata_deadline_ms",
        "resolved_version",
        "resolving",
        "sessions",
        "topic_changes",
        "unresolved_ms",
    )

    def __init__(self, group_id: str, store: ConsumerGroupStore) -> None:
        self.group_id = group_id
        self._store = store
        self.metadata_deadline_ms = NEVER
        self.sessions: dict[str, MemberSession] = {}
        self.resolving: object | None = None
        self.resolved_version = 0
        self.unresolved_ms = NEVER
        self.topic_changes: dict[str, TopicChange] = {}
        self.is_dead = False

    @property
    def durable(self) -> DurableConsumerGroup:
        """What the log says of it. Between two records of a call that may be nothing: a member that subscribed to
        nothing can be all that there is."""
        durable = self._store.by_group.get(self.group_id)
        return DurableConsumerGroup(self.group_id) if durable is None else durable

    @property
    def state(self) -> ConsumerGroupState:
        """One of the five states of a consumer group."""
        return ConsumerGroupState.DEAD if self.is_dead else compute_group_state(self.durable)

    @property
    def state_name(self) -> str:
        """Its state, as ListGroups and ConsumerGroupDescribe call it."""
        return self.state.value

    @property
    def generation_id(self) -> int:
        """The epoch of the group."""
        return self.durable.epoch

    def mark_topics_checked(self, now_ms: int) -> None:
        """Its topics have just been looked at (monotonic)."""
        self.metadata_deadline_ms = now_ms + METADATA_REFRESH_MS
        self.topic_changes.clear()

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.durable.members

    def find_static_member_id(self, group_instance_id: str) -> str | None:
        """The id of the static member that has this instance id; None when there is none."""
        return self.durable.static_members.get(group_instance_id)


def session_key(group: ConsumerGroup, member_id: str) -> GroupTimerKey:
    """The timer of a member's session."""
    return GroupTimerKey(GroupTimerKind.CONSUMER_SESSION, group.group_id, member_id)


def rebalance_key(group: ConsumerGroup, member_id: str) -> GroupTimerKey:
    """The timer of a member that has to give partitions up."""
    return GroupTimerKey(GroupTimerKind.CONSUMER_REBALANCE, group.group_id, member_id)


def join_key(group: ConsumerGroup, member_id: str) -> GroupTimerKey:
    """The timer of a member of the classic protocol that has to join again."""
    return GroupTimerKey(GroupTimerKind.CLASSIC_MEMBER_JOIN, group.group_id, member_id)


def sync_key(group: ConsumerGroup, member_id: str) -> GroupTimerKey:
    """The timer of a member of the classic protocol that has to ask for its assignment."""
    return GroupTimerKey(GroupTimerKind.CLASSIC_MEMBER_SYNC, group.group_id, member_id)


def restart_consumer_session(
    group: ConsumerGroup, member_id: str, timeout_ms: int, connection_id: int, builder: OutcomeBuilder
) -> None:
    """A member was heard: its session lasts so long from now on."""
    now_ms = builder.now.monotonic_ms
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = MemberSession(now_ms, now_ms)
    if not extend_session(session, timeout_ms, connection_id, now_ms):
        session.timer_ms = now_ms + timeout_ms
        builder.arm_timer(session_key(group, member_id), session.timer_ms)
        extend_session(session, timeout_ms, connection_id, now_ms)


def extend_session(session: MemberSession, timeout_ms: int, connection_id: int, monotonic_ms: int) -> bool:
    """Extend a session whose timer need not be armed again. Returns False, without a change, where it must be."""
    deadline_ms = monotonic_ms + timeout_ms
    if session.timer_ms is None or session.timer_ms > deadline_ms:
        return False
    session.heard_ms, session.deadline_ms, session.timeout_ms = monotonic_ms, deadline_ms, timeout_ms
    session.connection_id = connection_id or session.connection_id
    return True


def start_classic_sessions(group: ConsumerGroup, builder: OutcomeBuilder) -> None:
    """Members of the classic protocol came with their group: they have the sessions that they joined with."""
    for member in group.durable.members.values():
        if member.classic is not None and member.member_id not in group.sessions:
            restart_consumer_session(group, member.member_id, member.classic.session_timeout_ms, 0, builder)


def watch_revocation(group: ConsumerGroup, member: ConsumerMember, builder: OutcomeBuilder) -> None:
    """A member was told where it stands: one that has to give partitions up has its rebalance timeout for that,
    from now on."""
    session = group.sessions[member.member_id]
    if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
        await_revocation(group, member, builder)
    elif session.rebalance_ms is not None:
        session.rebalance_ms = None
        builder.cancel_timer(rebalance_key(group, member.member_id))


def await_revocation(group: ConsumerGroup, member: ConsumerMember, builder: OutcomeBuilder) -> None:
    """A member has its rebalance timeout to leave the epoch that it is in."""
    session = group.sessions[member.member_id]
    session.rebalance_epoch = member.member_epoch
    session.rebalance_timeout_ms = member.rebalance_timeout_ms
    session.rebalance_ms = builder.now.monotonic_ms + member.rebalance_timeout_ms
    builder.arm_timer(rebalance_key(group, member.member_id), session.rebalance_ms)


def await_join(group: ConsumerGroup, member: ConsumerMember, builder: OutcomeBuilder) -> None:
    """A member of the classic protocol was told to join again: it has its rebalance timeout for that, from the
    first time on."""
    session = group.sessions[member.member_id]
    if session.join_ms is None:
        session.join_ms = builder.now.monotonic_ms + member.rebalance_timeout_ms
        session.rebalance_timeout_ms = member.rebalance_timeout_ms
        builder.arm_timer(join_key(group, member.member_id), session.join_ms)


def await_sync(group: ConsumerGroup, member_id: str, timeout_ms: int, builder: OutcomeBuilder) -> None:
    """A member of the classic protocol joined: it has so long to ask for its assignment."""
    session = group.sessions[member_id]
    if session.join_ms is not None:
        session.join_ms = None
        builder.cancel_timer(join_key(group, member_id))
    session.sync_ms = builder.now.monotonic_ms + timeout_ms
    session.rebalance_timeout_ms = timeout_ms
    builder.arm_timer(sync_key(group, member_id), session.sync_ms)


def end_sync(group: ConsumerGroup, member_id: str, builder: OutcomeBuilder) -> None:
    """A member of the classic protocol has asked for its assignment."""
    session = group.sessions[member_id]
    if session.sync_ms is not None:
        session.sync_ms = None
        builder.cancel_timer(sync_key(group, member_id))


def end_session(group: ConsumerGroup, member_id: str, builder: OutcomeBuilder) -> None:
    """A member is none any more."""
    session = group.sessions.pop(member_id, None)
    if session is not None:
        if session.timer_ms is not None:
            builder.cancel_timer(session_key(group, member_id))
        if session.rebalance_ms is not None:
            builder.cancel_timer(rebalance_key(group, member_id))
        if session.join_ms is not None:
            builder.cancel_timer(join_key(group, member_id))
        if session.sync_ms is not None:
            builder.cancel_timer(sync_key(group, member_id))
