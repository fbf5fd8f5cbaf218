"""Deadlines of groups: list, extend and shift them. A group with a clock of its own needs this."""

from collections.abc import Iterator

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.classic import classic_heartbeat
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_session import cancel_session, heartbeat_key
from coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    join_key,
    rebalance_key,
    session_key,
    sync_key,
)
from coordinator.group.consumer.member_removal import fence_member
from coordinator.group.group_event_types import FenceCause
from coordinator.group.group_requests import (
    CommandResult,
    ExpireMember,
    ExtendSessions,
    GroupTimerKey,
    GroupTimerKind,
    ShiftDeadlines,
)
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode


def list_deadlines(groups: ShardGroups, group_id: str) -> Iterator[tuple[GroupTimerKey, int]]:
    """What time alone will bring about in a group, with its monotonic time; nothing when there is no such group."""
    classic, consumer = groups.find_classic_group(group_id), groups.consumers.get(group_id)
    if classic is not None:
        yield from list_classic_deadlines(classic)
    elif consumer is not None:
        yield from list_consumer_deadlines(consumer)


def expire_member(
    groups: ShardGroups, request: ExpireMember, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer an ExpireMember with CommandResult: UNKNOWN_MEMBER_ID when it is neither a member nor pending."""
    group = groups.consumers.get(request.group_id)
    if group is None:
        classic_heartbeat.expire_classic_member(groups, request, context, builder)
        return
    is_member = expire_consumer_member(groups, group, request.member_id, builder)
    builder.reply(context.waiter, CommandResult(ErrorCode.NONE if is_member else ErrorCode.UNKNOWN_MEMBER_ID))


def extend_sessions(
    groups: ShardGroups, request: ExtendSessions, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer an ExtendSessions with CommandResult."""
    classic, consumer = groups.find_classic_group(request.group_id), groups.consumers.get(request.group_id)
    if classic is not None:
        extend_classic_sessions(classic, request, builder)
    elif consumer is not None:
        extend_consumer_sessions(consumer, request, builder)
    builder.reply(context.waiter, CommandResult())


def shift_deadlines(
    groups: ShardGroups, request: ShiftDeadlines, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a ShiftDeadlines with CommandResult."""
    for group_id in request.group_ids:
        classic, consumer = groups.find_classic_group(group_id), groups.consumers.get(group_id)
        if classic is not None:
            shift_classic_deadlines(classic, request.by_ms, builder)
        elif consumer is not None:
            shift_consumer_deadlines(consumer, request.by_ms, builder)
    builder.reply(context.waiter, CommandResult())


def list_classic_deadlines(group: ClassicGroup) -> Iterator[tuple[GroupTimerKey, int]]:
    """What time alone will bring about, with its monotonic time. The timer outside of a member that was heard since
    it was armed fires earlier, and in vain; that of one that is owed an answer does, too."""
    for member in group.members.values():
        if not member.is_exempt_from_session:
            yield heartbeat_key(group, member.member_id), member.session_deadline_ms
    for member_id, pending in group.pending_members.items():
        yield heartbeat_key(group, member_id), pending.deadline_ms
    if group.join_deadline_ms is not None:
        yield GroupTimerKey(GroupTimerKind.JOIN, group.group_id), group.join_deadline_ms
    if group.sync_deadline_ms is not None:
        yield GroupTimerKey(GroupTimerKind.SYNC, group.group_id), group.sync_deadline_ms
    if group.rebalance is not None:
        yield GroupTimerKey(GroupTimerKind.REPORT, group.group_id), group.rebalance.report_deadline_ms


def extend_classic_sessions(group: ClassicGroup, request: ExtendSessions, builder: OutcomeBuilder) -> None:
    """The sessions of these members last longer, but of those who owe no sign of life."""
    for member_id in request.member_ids:
        member = group.members.get(member_id)
        if (
            member is not None
            and not member.is_exempt_from_session
            and member.session_deadline_ms < request.until_ms
        ):
            member.session_deadline_ms = member.timer_deadline_ms = request.until_ms
            builder.arm_timer(heartbeat_key(group, member_id), request.until_ms)


def shift_classic_deadlines(group: ClassicGroup, by_ms: int, builder: OutcomeBuilder) -> None:
    """All that it waits for comes in as much time as was left."""
    for member in group.members.values():
        member.session_deadline_ms += by_ms
        if member.is_exempt_from_session:
            cancel_session(group, member, builder)
        else:
            member.timer_deadline_ms = member.session_deadline_ms
    for member_id, pending in group.pending_members.items():
        group.pending_members[member_id] = pending._replace(
            since_ms=pending.since_ms + by_ms, deadline_ms=pending.deadline_ms + by_ms
        )
    if group.join_deadline_ms is not None:
        group.join_deadline_ms += by_ms
    if group.sync_deadline_ms is not None:
        group.sync_deadline_ms += by_ms
    if group.rebalance is not None:
        group.rebalance.shift_times(by_ms)
    for key, deadline_ms in list_classic_deadlines(group):
        builder.arm_timer(key, deadline_ms)


def list_consumer_deadlines(group: ConsumerGroup) -> Iterator[tuple[GroupTimerKey, int]]:
    """What time alone will bring about, with its monotonic time. The timer outside of a member that was heard since
    it was armed fires earlier, and in vain."""
    for member_id, session in group.sessions.items():
        yield session_key(group, member_id), session.deadline_ms
        if session.rebalance_ms is not None:
            yield rebalance_key(group, member_id), session.rebalance_ms
        if session.join_ms is not None:
            yield join_key(group, member_id), session.join_ms
        if session.sync_ms is not None:
            yield sync_key(group, member_id), session.sync_ms


def expire_consumer_member(
    groups: ShardGroups, group: ConsumerGroup, member_id: str, builder: OutcomeBuilder
) -> bool:
    """The session of a member is over now; whether there is such a member."""
    if member_id not in group.sessions:
        return False
    fence_member(groups, group, member_id, FenceCause.ASKED, builder)
    return True


def extend_consumer_sessions(group: ConsumerGroup, request: ExtendSessions, builder: OutcomeBuilder) -> None:
    """The sessions of these members last longer."""
    for member_id in request.member_ids:
        session = group.sessions.get(member_id)
        if session is not None and session.deadline_ms < request.until_ms:
            session.deadline_ms = session.timer_ms = request.until_ms
            builder.arm_timer(session_key(group, member_id), request.until_ms)


def shift_consumer_deadlines(group: ConsumerGroup, by_ms: int, builder: OutcomeBuilder) -> None:
    """All that it waits for comes in as much time as was left."""
    group.metadata_deadline_ms += by_ms
    for session in group.sessions.values():
        session.heard_ms += by_ms
        session.deadline_ms += by_ms
        session.timer_ms = session.deadline_ms
        if session.rebalance_ms is not None:
            session.rebalance_ms += by_ms
        if session.join_ms is not None:
            session.join_ms += by_ms
        if session.sync_ms is not None:
            session.sync_ms += by_ms
    for key, deadline_ms in list_consumer_deadlines(group):
        builder.arm_timer(key, deadline_ms)
