"""A group at one moment as immutable values, and how classic and consumer groups produce them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from coordinator.group.classic.classic_group import ClassicGroup, ClassicMember, PendingMember
from coordinator.group.classic.classic_state_machine import PREPARING_REBALANCE
from coordinator.group.consumer.consumer_group import ConsumerGroup, MemberSession
from coordinator.group.consumer.consumer_member import ConsumerMember
from coordinator.group.consumer.target_assignment import find_subscribed_names
from coordinator.group.event_details import AwaitedMember, AwaitedRequest, MemberName, Trigger
from coordinator.group.group_types import GroupType
from coordinator.group.topics_image import TopicsImage


class ConsumerMemberView(Struct, frozen=True, kw_only=True):
    """What there is to say of a member of a consumer group besides: where it stands (`state` is that of a
    member), what it has, what it has yet to give up and in `revokes_left_ms`, what it is to have, by topic; those
    that are gone are left out. `topics` are those that it subscribes to, by name or by its expression."""

    member_epoch: int
    state: str
    uses_classic_protocol: bool
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str
    topics: frozenset[str]
    assigned: Mapping[str, tuple[int, ...]]
    pending: Mapping[str, tuple[int, ...]]
    target: Mapping[str, tuple[int, ...]]
    revokes_left_ms: int | None


class MemberView(Struct, frozen=True, kw_only=True):
    """A member. `connection_id` is that of its last JoinGroup or heartbeat; 0 when nothing was heard of it since
    the group was loaded. `session_left_ms` is when its session ends unless it is heard before; of a member that
    `is_awaiting_join` or `is_awaiting_sync` (its request is parked) it does not, unless it `is_new`. `metadata` is
    for the selected protocol, or, where none is selected, for its own first one."""

    name: MemberName
    connection_id: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    silent_ms: int
    session_left_ms: int
    is_new: bool
    is_awaiting_join: bool
    is_awaiting_sync: bool
    protocols: tuple[str, ...]
    metadata: bytes
    assignment: bytes
    consumer: ConsumerMemberView | None = None


class PendingMemberView(Struct, frozen=True, kw_only=True):
    """Who was given a member id `since_ms` ago, over that connection, and has not joined with it; in `left_ms` it
    is forgotten."""

    name: MemberName
    since_ms: int
    left_ms: int
    connection_id: int = 0


class RebalanceView(Struct, frozen=True, kw_only=True):
    """The rebalance that a group is in, or, where it is Stable, the one whose assignment not all have fetched.

    `trigger` began it, `latest` began the last of `attempts`; `open_ms` is since when. `left_ms` is how long the
    present phase lasts at most, 0 when nothing ends it by time; `awaited` are those whose doing it is, nobody in an
    `is_initial` one, which waits for members that may come."""

    trigger: Trigger
    latest: Trigger
    attempts: int
    from_state: str
    open_ms: int
    phase_ms: int
    left_ms: int
    is_initial: bool
    awaited: tuple[AwaitedMember, ...]


class GroupStatus(NamedTuple):
    """A group in few words: its type, its state, and how many members it has."""

    type: GroupType
    state: str
    members: int


class GroupView(Struct, frozen=True, kw_only=True):
    """A group of any type. `state_since_ms` is the wall time at which the state was entered, None when the log did
    not say; `members` are in the order in which they joined; `pending_offsets` is for how many partitions each
    producer has offsets in its transaction, by producer id. Of a consumer group `generation_id` is its epoch, and
    `assignment_epoch` that of its target."""

    group_id: str
    type: GroupType
    state: str
    state_since_ms: int | None
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    members: tuple[MemberView, ...]
    pending: tuple[PendingMemberView, ...]
    rebalance: RebalanceView | None
    pending_offsets: Mapping[int, int] = {}
    assignment_epoch: int | None = None


def view_classic_group(group: ClassicGroup, now_ms: int) -> GroupView:
    """The group at a monotonic time."""
    return GroupView(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        state=group.state.value,
        state_since_ms=group.state_timestamp_ms,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        members=tuple([_view_classic_member(group, member, now_ms) for member in group.members.values()]),
        pending=tuple([_view_pending_member(pending, now_ms) for pending in group.pending_members.values()]),
        rebalance=_view_rebalance(group, now_ms),
    )


def _view_classic_member(group: ClassicGroup, member: ClassicMember, now_ms: int) -> MemberView:
    protocols = tuple([name for name, _ in member.protocols])
    protocol_name = group.protocol_name if group.protocol_name in protocols else next(iter(protocols), None)
    return MemberView(
        name=member.name,
        connection_id=member.connection_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        silent_ms=member.silent_ms(now_ms),
        session_left_ms=max(0, member.session_deadline_ms - now_ms),
        is_new=member.is_new,
        is_awaiting_join=member.is_awaiting_join,
        is_awaiting_sync=member.is_awaiting_sync,
        protocols=protocols,
        metadata=b"" if protocol_name is None else member.metadata_for(protocol_name),
        assignment=member.assignment,
    )


def _view_pending_member(pending: PendingMember, now_ms: int) -> PendingMemberView:
    return PendingMemberView(
        name=pending.name,
        since_ms=max(0, now_ms - pending.since_ms),
        left_ms=max(0, pending.deadline_ms - now_ms),
        connection_id=pending.connection_id,
    )


def _view_rebalance(group: ClassicGroup, now_ms: int) -> RebalanceView | None:
    rebalance = group.rebalance
    if rebalance is None:
        return None
    return RebalanceView(
        trigger=rebalance.trigger,
        latest=rebalance.latest,
        attempts=rebalance.attempts,
        from_state=rebalance.from_state.value,
        open_ms=max(0, now_ms - rebalance.started_ms),
        phase_ms=max(0, now_ms - rebalance.phase_started_ms),
        left_ms=phase_left_ms(group, now_ms),
        is_initial=group.initial_join is not None,
        awaited=find_awaited_members(group, now_ms),
    )


def find_awaited_members(group: ClassicGroup, now_ms: int) -> tuple[AwaitedMember, ...]:
    """Everyone whose doing it is that a group waits at a monotonic time: those who have to join, or to ask for
    their assignment (the leader, who brings it, first). Nobody in a group that waits for nobody, nor in an
    initial rebalance: that one waits for time to pass."""
    if group.state is PREPARING_REBALANCE:
        return () if group.initial_join is not None else _find_awaited_joins(group, now_ms)
    members = [group.members[member_id] for member_id in group.pending_sync]
    assignment_is_missing = group.leader_id in group.pending_sync
    if assignment_is_missing:
        members.sort(key=lambda member: member.member_id != group.leader_id)
    first = AwaitedRequest.ASSIGNMENT if assignment_is_missing else AwaitedRequest.SYNC
    return tuple(
        [
            _describe_awaited(
                member, AwaitedRequest.SYNC if number else first, group.sync_deadline_ms, now_ms
            )
            for number, member in enumerate(members)
        ]
    )


def _find_awaited_joins(group: ClassicGroup, now_ms: int) -> tuple[AwaitedMember, ...]:
    deadline_ms = group.join_deadline_ms
    found = []
    for member in group.members.values():
        if not member.is_awaiting_join:
            # With nobody there to lead, only its session ends the wait for a static member.
            is_kept = member.is_static and group.awaiting_join == 0
            found.append(
                _describe_awaited(member, AwaitedRequest.JOIN, None if is_kept else deadline_ms, now_ms)
            )
    for pending in group.pending_members.values():
        left_ms = max(0, pending.deadline_ms - now_ms)
        most_ms = left_ms if deadline_ms is None else max(0, min(left_ms, deadline_ms - now_ms))
        silent_ms = now_ms - pending.since_ms
        found.append(AwaitedMember(pending.name, AwaitedRequest.FIRST_JOIN, silent_ms, left_ms, most_ms))
    return tuple(found)


def _describe_awaited(
    member: ClassicMember, request: AwaitedRequest, deadline_ms: int | None, now_ms: int
) -> AwaitedMember:
    session_left_ms = max(0, member.session_deadline_ms - now_ms)
    left_ms = session_left_ms if deadline_ms is None else max(0, min(session_left_ms, deadline_ms - now_ms))
    return AwaitedMember(member.name, request, member.silent_ms(now_ms), session_left_ms, left_ms)


def phase_left_ms(group: ClassicGroup, now_ms: int) -> int:
    """How long the group waits at most from a monotonic time on; 0 when it waits for nothing."""
    deadline_ms = group.join_deadline_ms if group.sync_deadline_ms is None else group.sync_deadline_ms
    return 0 if deadline_ms is None else max(0, deadline_ms - now_ms)


def view_consumer_group(group: ConsumerGroup, now_ms: int, topics: TopicsImage) -> GroupView:
    """The group at a monotonic time."""
    durable = group.durable
    return GroupView(
        group_id=group.group_id,
        type=GroupType.CONSUMER,
        state=group.state_name,
        state_since_ms=None,
        generation_id=durable.epoch,
        protocol_type="consumer",
        protocol_name=None,
        leader_id=None,
        members=tuple(
            [
                _view_consumer_member(group, member, group.sessions[member.member_id], now_ms, topics)
                for member in durable.members.values()
            ]
        ),
        pending=(),
        rebalance=None,
        assignment_epoch=durable.assignment_epoch,
    )


def _view_consumer_member(
    group: ConsumerGroup, member: ConsumerMember, session: MemberSession, now_ms: int, topics: TopicsImage
) -> MemberView:
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
            topics=find_subscribed_names(group.durable, member),
            assigned=_group_by_topic_name(member.assigned, topics),
            pending=_group_by_topic_name(member.pending, topics),
            target=_group_by_topic_name(group.durable.find_target(member.member_id), topics),
            revokes_left_ms=None if session.rebalance_ms is None else max(0, session.rebalance_ms - now_ms),
        ),
    )


def _group_by_topic_name(
    partitions: Mapping[bytes, Iterable[int]], topics: TopicsImage
) -> dict[str, tuple[int, ...]]:
    return {
        topics.by_id[topic_id].name: tuple(sorted(of_topic))
        for topic_id, of_topic in partitions.items()
        if topic_id in topics.by_id
    }
