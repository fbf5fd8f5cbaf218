"""A consumer group: its durable state, and its soft state such as deadlines and work in progress.

A member has two timers: one for its session, one for the revocation of partitions. A member of the classic protocol
has two others, for its next JoinGroup and SyncGroup. A heartbeat moves only the deadline of the session. The timer
itself stays unchanged and is armed again when it fires too early.

Source: Kafka's `ConsumerGroup`; GroupMetadataManager, scheduleConsumerGroupSessionTimeout,
scheduleConsumerGroupRebalanceTimeout, scheduleConsumerGroupJoinTimeoutIfAbsent, scheduleConsumerGroupSyncTimeout.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from coordinator.core.outcome import Fact, OutcomeBuilder
from coordinator.group.consumer.consumer_group_store import ConsumerGroupStore
from coordinator.group.consumer.consumer_member import ConsumerMember, MemberState
from coordinator.group.consumer.durable_consumer_group import (
    ConsumerGroupState,
    DurableConsumerGroup,
    compute_group_state,
)
from coordinator.group.consumer.target_assignment import find_subscribed_names
from coordinator.group.group_event_types import TopicChange
from coordinator.group.group_interface import ACCEPTED, CommitRequest, CommitValidation, Group
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import ConsumerMemberView, GroupView, MemberView
from coordinator.group.topics_image import TopicsImage
from protocol.consumer_protocol import PROTOCOL_TYPE
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest

NONE: Final = ErrorCode.NONE
NO_EPOCH: Final = -1
MEMBER_EPOCH_VERSION: Final = 9
"""The first version of OffsetCommit with a member epoch."""
NEW_ERRORS_VERSION: Final = 6
"""The first version of TxnOffsetCommit with the error STALE_MEMBER_EPOCH."""

NEVER: Final = -(2**63)
METADATA_REFRESH_MS: Final = 2**31 - 1
"""The time from one check of the topics to the next without a change."""


class MemberSession(Struct):
    """The session of one member, in monotonic time.

    `deadline_ms` is the time of its expiry without a further heartbeat. `timer_ms` is the time of its timer, which
    may be earlier, because a heartbeat moves only the deadline. `heard_ms` is the time of its last heartbeat, which
    extended the session by `timeout_ms`; an operator may have extended it further. `rebalance_ms` is the deadline
    for the revocation of partitions, None without one, and `rebalance_epoch` is the epoch of the member at its
    start. `join_ms` and `sync_ms` are the deadlines for the JoinGroup and SyncGroup of a member of the classic
    protocol, None without one. `connection_id` is the connection of its last heartbeat, 0 before the first one
    after a load.
    """

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


SOFT_FIELDS: Final = (
    "metadata_deadline_ms",
    "resolved_version",
    "resolving",
    "sessions",
    "topic_changes",
    "unresolved_ms",
    "is_dead",
)


class ConsumerGroup(Group):
    """The soft state of a group; the store has its durable state.

    `metadata_deadline_ms` (monotonic) is the time from which on a heartbeat checks the topics again. `sessions` has
    every member. `resolving` is the resolution of regular expressions in progress, `resolved_version` the topics
    version of the last one, 0 before the first one after a load, and `unresolved_ms` (wall) the time of the last
    failure. `topic_changes` has the changes of its topics since the last check.
    """

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

    type = GroupType.CONSUMER
    protocol_type: Final = PROTOCOL_TYPE
    offsets_may_expire: Final = True
    idle_since_ms: Final = None
    is_dead: bool

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

    def export_soft_state(self) -> dict[str, object]:
        """Return the soft state by field, in the order of recordings."""
        return {name: getattr(self, name) for name in SOFT_FIELDS}

    def import_soft_state(self, fields: Mapping[str, object]) -> None:
        """Set the soft state that `export_soft_state` has returned elsewhere. Raises KeyError."""
        for name in SOFT_FIELDS:
            setattr(self, name, fields[name])

    @property
    def durable(self) -> DurableConsumerGroup:
        """Return the durable state, which can be empty between two records of one call."""
        durable = self._store.by_group.get(self.group_id)
        return DurableConsumerGroup(self.group_id) if durable is None else durable

    @property
    def state(self) -> ConsumerGroupState:
        """Return the state of the group."""
        return ConsumerGroupState.DEAD if self.is_dead else compute_group_state(self.durable)

    def mark_topics_checked(self, now_ms: int) -> None:
        """Record a check of its topics at a monotonic time."""
        self.metadata_deadline_ms = now_ms + METADATA_REFRESH_MS
        self.topic_changes.clear()

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.durable.members

    # The interface of groups of every type

    @property
    def generation_id(self) -> int:
        """Return the epoch of the group."""
        return self.durable.epoch

    @property
    def member_count(self) -> int:
        """Return the number of members in the log."""
        return len(self.durable.members)

    def find_static_member_id(self, group_instance_id: str) -> str | None:
        """Return the id of the static member that has this instance id; None without one."""
        return self.durable.static_members.get(group_instance_id)

    def view(self, now_ms: int, topics: TopicsImage) -> GroupView:
        """Return the view of the group, without deleted topics."""
        durable = self.durable
        return GroupView(
            group_id=self.group_id,
            type=self.type,
            state=self.state_name,
            state_since_ms=None,
            generation_id=durable.epoch,
            protocol_type=self.protocol_type,
            protocol_name=None,
            leader_id=None,
            members=tuple(
                [self._view_member(durable, member, now_ms, topics) for member in durable.members.values()]
            ),
            pending=(),
            rebalance=None,
            assignment_epoch=durable.assignment_epoch,
        )

    def _view_member(
        self, durable: DurableConsumerGroup, member: ConsumerMember, now_ms: int, topics: TopicsImage
    ) -> MemberView:
        session = self.sessions[member.member_id]
        return MemberView(
            name=member.name,
            connection_id=session.connection_id,
            session_timeout_ms=session.timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            silent_ms=max(0, now_ms - session.heard_ms),
            session_left_ms=max(0, session.deadline_ms - now_ms),
            is_new=False,
            is_awaiting_join=False,
            is_awaiting_sync=False,
            protocols=(),
            metadata=b"",
            assignment=b"",
            consumer=ConsumerMemberView(
                member_epoch=member.member_epoch,
                state=member.state.name,
                uses_classic_protocol=member.uses_classic_protocol,
                subscribed_topic_names=member.subscribed_topic_names,
                subscribed_topic_regex=member.subscribed_topic_regex,
                topics=find_subscribed_names(durable, member),
                assigned=_group_by_topic_name(member.assigned, topics),
                pending=_group_by_topic_name(member.pending, topics),
                target=_group_by_topic_name(durable.find_target(member.member_id), topics),
                revokes_left_ms=None
                if session.rebalance_ms is None
                else max(0, session.rebalance_ms - now_ms),
            ),
        )

    def validate_commit(self, request: CommitRequest, api_version: int) -> CommitValidation:
        """Validate the sender of a commit, and its epoch for each partition.

        A member commits in its epoch, or in an older one for partitions that it has owned since then. A consumer
        without group management commits with epoch -1, while the group is empty. In a transaction a sender without
        a member id may commit to any group: producers before KIP-447 name no member.

        Source: Kafka's ConsumerGroup, validateOffsetCommit.
        """
        epoch = request.generation_id_or_member_epoch
        if self.is_dead:
            return CommitValidation(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        members = self.durable.members
        if epoch < 0 and not members:
            return ACCEPTED
        is_plain = type(request) is OffsetCommitRequest
        member_id = request.member_id
        if not is_plain and epoch == NO_EPOCH and not member_id and request.group_instance_id is None:
            return ACCEPTED
        member = members.get(member_id)
        if member is None:
            return CommitValidation(ErrorCode.UNKNOWN_MEMBER_ID)
        if is_plain and not member.uses_classic_protocol and api_version < MEMBER_EPOCH_VERSION:
            return CommitValidation(ErrorCode.UNSUPPORTED_VERSION)
        if epoch == member.member_epoch:
            return ACCEPTED
        error = find_epoch_error(member)
        if not is_plain and api_version < NEW_ERRORS_VERSION:
            error = ErrorCode.ILLEGAL_GENERATION
        if epoch > member.member_epoch:
            return CommitValidation(error)
        return CommitValidation(NONE, validate_partition=partial(_validate_partition, member, epoch, error))

    def validate_fetch(self, member_id: str | None, epoch: int) -> ErrorCode:
        """Return NONE for a member in its epoch, and for a sender without a member id."""
        if member_id is None and epoch < 0:
            return NONE
        if member_id is None:
            # Kafka looks up a member with an empty id, and fails.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        member = self.durable.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return NONE if epoch == member.member_epoch else find_epoch_error(member)

    def on_commit_accepted(self, member_id: str, builder: OutcomeBuilder) -> None:
        """Do nothing: only heartbeats extend the session of a consumer."""

    def validate_offset_delete(self) -> ErrorCode:
        """Return NONE: the coordinator knows the subscriptions of the members."""
        return ErrorCode.GROUP_ID_NOT_FOUND if self.is_dead else NONE

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic by its name or by a regular expression."""
        return self.durable.is_subscribed_to(topic)

    def list_deadlines(self) -> Iterator[tuple[GroupTimerKey, int]]:
        """Iterate over the armed timers of all members, each with its time."""
        for member_id, session in self.sessions.items():
            yield session_key(self, member_id), session.deadline_ms
            if session.rebalance_ms is not None:
                yield rebalance_key(self, member_id), session.rebalance_ms
            if session.join_ms is not None:
                yield join_key(self, member_id), session.join_ms
            if session.sync_ms is not None:
                yield sync_key(self, member_id), session.sync_ms

    def extend_sessions(self, member_ids: Sequence[str], until_ms: int, builder: OutcomeBuilder) -> None:
        """Keep the sessions of members alive at least until a monotonic time."""
        for member_id in member_ids:
            session = self.sessions.get(member_id)
            if session is not None and session.deadline_ms < until_ms:
                session.deadline_ms = session.timer_ms = until_ms
                builder.arm_timer(session_key(self, member_id), until_ms)

    def shift_deadlines(self, by_ms: int, builder: OutcomeBuilder) -> None:
        """Add `by_ms` to all deadlines."""
        self.metadata_deadline_ms += by_ms
        for session in self.sessions.values():
            session.heard_ms += by_ms
            session.deadline_ms += by_ms
            session.timer_ms = session.deadline_ms
            if session.rebalance_ms is not None:
                session.rebalance_ms += by_ms
            if session.join_ms is not None:
                session.join_ms += by_ms
            if session.sync_ms is not None:
                session.sync_ms += by_ms

    def session_margin(self, now_ms: int) -> float | None:
        """Return the smallest remaining share of a member's session; None without members."""
        shares = [
            (session.deadline_ms - now_ms) / max(1, session.timeout_ms) for session in self.sessions.values()
        ]
        return max(0.0, min(shares)) if shares else None

    def validate_delete(self) -> ErrorCode:
        """Return NON_EMPTY_GROUP while there are members."""
        if self.is_dead:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    @property
    def is_abandoned(self) -> bool:
        """Return whether the group has no members."""
        return self.is_empty

    def tombstones(self) -> list[Fact]:
        """Return the tombstones of all its records."""
        return list(self.durable.tombstones())

    def retire(self, builder: OutcomeBuilder) -> None:
        """Mark the group as dead. Without members no timer is armed."""
        assert self.is_empty, self.group_id
        assert not self.sessions, list(self.sessions)
        self.is_dead = True

    def unload(self, builder: OutcomeBuilder) -> None:
        """End all sessions. Requests that wait for a target are parked in the shard."""
        self.is_dead = True
        for member_id in list(self.sessions):
            end_session(self, member_id, builder)


def find_epoch_error(member: ConsumerMember) -> ErrorCode:
    """Return the error for a sender with another epoch than its member."""
    return ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH


def _validate_partition(
    member: ConsumerMember, epoch: int, error: ErrorCode, topic: str, topic_id: bytes, partition: int
) -> ErrorCode:
    since = member.assigned.get(topic_id, {}).get(partition)
    if since is None:
        since = member.pending.get(topic_id, {}).get(partition)
    return NONE if since is not None and since <= epoch else error


def _group_by_topic_name(
    partitions: Mapping[bytes, Iterable[int]], topics: TopicsImage
) -> dict[str, tuple[int, ...]]:
    return {
        topics.by_id[topic_id].name: tuple(sorted(of_topic))
        for topic_id, of_topic in partitions.items()
        if topic_id in topics.by_id
    }


def session_key(group: ConsumerGroup, member_id: str) -> GroupTimerKey:
    """Return the key of the timer of a member's session."""
    return GroupTimerKey(GroupTimerKind.CONSUMER_SESSION, group.group_id, member_id)


def rebalance_key(group: ConsumerGroup, member_id: str) -> GroupTimerKey:
    """Return the key of the timer of a member that must revoke partitions."""
    return GroupTimerKey(GroupTimerKind.CONSUMER_REBALANCE, group.group_id, member_id)


def join_key(group: ConsumerGroup, member_id: str) -> GroupTimerKey:
    """Return the key of the timer for the JoinGroup of a member of the classic protocol."""
    return GroupTimerKey(GroupTimerKind.CLASSIC_MEMBER_JOIN, group.group_id, member_id)


def sync_key(group: ConsumerGroup, member_id: str) -> GroupTimerKey:
    """Return the key of the timer for the SyncGroup of a member of the classic protocol."""
    return GroupTimerKey(GroupTimerKind.CLASSIC_MEMBER_SYNC, group.group_id, member_id)


def restart_consumer_session(
    group: ConsumerGroup, member_id: str, timeout_ms: int, connection_id: int, builder: OutcomeBuilder
) -> None:
    """Restart the session of a member with `timeout_ms`."""
    now_ms = builder.now.monotonic_ms
    session = group.sessions.get(member_id)
    if session is None:
        session = group.sessions[member_id] = MemberSession(now_ms, now_ms)
    if not extend_session(session, timeout_ms, connection_id, now_ms):
        session.timer_ms = now_ms + timeout_ms
        builder.arm_timer(session_key(group, member_id), session.timer_ms)
        extend_session(session, timeout_ms, connection_id, now_ms)


def extend_session(session: MemberSession, timeout_ms: int, connection_id: int, monotonic_ms: int) -> bool:
    """Extend a session if its timer can stay armed. Otherwise change nothing and return False."""
    deadline_ms = monotonic_ms + timeout_ms
    if session.timer_ms is None or session.timer_ms > deadline_ms:
        return False
    session.heard_ms, session.deadline_ms, session.timeout_ms = monotonic_ms, deadline_ms, timeout_ms
    session.connection_id = connection_id or session.connection_id
    return True


def start_classic_sessions(group: ConsumerGroup, builder: OutcomeBuilder) -> None:
    """Start the sessions of the classic members of a converted group, with their own timeouts."""
    for member in group.durable.members.values():
        if member.classic is not None and member.member_id not in group.sessions:
            restart_consumer_session(group, member.member_id, member.classic.session_timeout_ms, 0, builder)


def watch_revocation(group: ConsumerGroup, member: ConsumerMember, builder: OutcomeBuilder) -> None:
    """Start the rebalance timeout of a member of the consumer protocol that must revoke partitions. If it need not,
    or uses the classic protocol, cancel the timeout.
    """
    session = group.sessions[member.member_id]
    if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
        await_revocation(group, member, builder)
    elif session.rebalance_ms is not None:
        session.rebalance_ms = None
        builder.cancel_timer(rebalance_key(group, member.member_id))


def await_revocation(group: ConsumerGroup, member: ConsumerMember, builder: OutcomeBuilder) -> None:
    """Start the rebalance timeout of a member: until then it must leave its present epoch."""
    session = group.sessions[member.member_id]
    session.rebalance_epoch = member.member_epoch
    session.rebalance_timeout_ms = member.rebalance_timeout_ms
    session.rebalance_ms = builder.now.monotonic_ms + member.rebalance_timeout_ms
    builder.arm_timer(rebalance_key(group, member.member_id), session.rebalance_ms)


def await_join(group: ConsumerGroup, member: ConsumerMember, builder: OutcomeBuilder) -> None:
    """Give a member of the classic protocol its rebalance timeout to join again, from the first call on."""
    session = group.sessions[member.member_id]
    if session.join_ms is None:
        session.join_ms = builder.now.monotonic_ms + member.rebalance_timeout_ms
        session.rebalance_timeout_ms = member.rebalance_timeout_ms
        builder.arm_timer(join_key(group, member.member_id), session.join_ms)


def await_sync(group: ConsumerGroup, member_id: str, timeout_ms: int, builder: OutcomeBuilder) -> None:
    """Start the timeout for the SyncGroup of a member of the classic protocol, after its JoinGroup."""
    session = group.sessions[member_id]
    if session.join_ms is not None:
        session.join_ms = None
        builder.cancel_timer(join_key(group, member_id))
    session.sync_ms = builder.now.monotonic_ms + timeout_ms
    session.rebalance_timeout_ms = timeout_ms
    builder.arm_timer(sync_key(group, member_id), session.sync_ms)


def end_sync(group: ConsumerGroup, member_id: str, builder: OutcomeBuilder) -> None:
    """Record the SyncGroup of a member of the classic protocol."""
    session = group.sessions[member_id]
    if session.sync_ms is not None:
        session.sync_ms = None
        builder.cancel_timer(sync_key(group, member_id))


def end_session(group: ConsumerGroup, member_id: str, builder: OutcomeBuilder) -> None:
    """Remove the session of a member, and cancel its timers."""
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
