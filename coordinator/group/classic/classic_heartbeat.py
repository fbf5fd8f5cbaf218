"""Heartbeat: it keeps the session of a member alive and reports a rebalance. A member without a heartbeat for its
session timeout expires.

Heartbeat is by far the most frequent request, so the common case has a fast path: a Stable group, the right
generation, and a timer that fires no later than the new deadline. The fast path assigns the new deadline and the
connection of the member, and creates no outcome.

ExpireMember, a command of an operator, ends a session at once, with the same consequences.

Source: Kafka's GroupMetadataManager, classicGroupHeartbeat and expireClassicGroupMemberHeartbeat.
"""

from typing import Any, Final

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import ClassicMember
from coordinator.group.classic.classic_state_machine import (
    COMPLETING_REBALANCE,
    DEAD,
    PREPARING_REBALANCE,
    STABLE,
)
from coordinator.group.classic.rebalance import complete_join_phase, prepare_rebalance, remove_member
from coordinator.group.event_details import DepartureCause, RebalanceCause, Trigger
from coordinator.group.group_event_types import MemberExpired, MemberToldToRejoin
from coordinator.group.group_request_rules import add_refused_event, check_group_id
from coordinator.group.group_requests import CommandResult, ExpireMember, GroupTimerKey
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

# Access to an enumeration member costs more than the rest of the check.
NONE: Final = ErrorCode.NONE

RESPONSES: Final = {error: HeartbeatResponse(error_code=error) for error in ErrorCode}
SUCCESS_RESPONSE: Final = RESPONSES[NONE]


def try_classic_heartbeat(
    groups: ShardGroups, request: HeartbeatRequest, context: Context, monotonic_ms: int
) -> HeartbeatResponse | None:
    """Answer a heartbeat that gets NONE and arms no timer.

    Returns None, without an effect, for any other heartbeat, which needs `heartbeat_classic_group`.
    """
    # No group of another type is STABLE: that is a state of classic groups.
    group: Any = groups.by_id.get(request.group_id)
    if group is None or group.state is not STABLE or request.generation_id != group.generation_id:
        return None
    member: ClassicMember | None = group.members.get(request.member_id)
    if member is None or request.group_instance_id != member.group_instance_id:
        return None
    deadline_ms = monotonic_ms + member.session_timeout_ms
    timer_deadline_ms = member.timer_deadline_ms
    if timer_deadline_ms is None or timer_deadline_ms > deadline_ms:
        return None
    member.session_deadline_ms = deadline_ms
    # The connection of its JoinGroup may be closed, or may have led to an earlier coordinator.
    if context.connection_id:
        member.connection_id = context.connection_id
    return SUCCESS_RESPONSE


def heartbeat_classic_group(
    groups: ShardGroups,
    group: ClassicGroup | None,
    request: HeartbeatRequest,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer a Heartbeat with a HeartbeatResponse, which all requests share: callers must not change it."""
    error = check_group_id(request)
    if error is NONE:
        error = (
            ErrorCode.UNKNOWN_MEMBER_ID
            if group is None
            else group.check_sender(request.member_id, request.group_instance_id, request.generation_id)
        )
    if group is None or error is not NONE:
        add_refused_event(group, request, context, error, builder)
    else:
        member = group.members[request.member_id]
        group.restart_session(member, builder)
        member.connection_id = context.connection_id or member.connection_id
        if group.state is PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
            builder.add_event(
                MemberToldToRejoin(group.group_id, group.generation_id, member.name, "heartbeat")
            )
    builder.reply(context.waiter, RESPONSES[error])


def expire_classic_member(
    groups: ShardGroups,
    group: ClassicGroup | None,
    request: ExpireMember,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer an ExpireMember with CommandResult: UNKNOWN_MEMBER_ID for an unknown id."""
    error = NONE
    if group is not None and request.member_id in group.pending_members:
        builder.cancel_timer(group.heartbeat_key(request.member_id))
        _expire_pending(groups, group, request.member_id, builder)
    elif group is not None and request.member_id in group.members:
        _expire_member(groups, group, group.members[request.member_id], builder)
    else:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    builder.reply(context.waiter, CommandResult(error))


def fire_heartbeat(
    groups: ShardGroups, group: ClassicGroup, key: GroupTimerKey, builder: OutcomeBuilder
) -> None:
    """Expire a member or a pending one when its timer fires, unless it has sent a heartbeat. A member with a parked
    request does not expire, unless it is new: its session restarts with the response.
    """
    if group.state is DEAD:
        return
    if key.member_id in group.pending_members:
        _fire_pending(groups, group, key, builder)
        return
    member = group.members.get(key.member_id)
    if member is None:
        return
    member.timer_deadline_ms = None
    if member.is_exempt_from_session:
        return
    if builder.now.monotonic_ms < member.session_deadline_ms:
        group.restart_session(member, builder, member.session_deadline_ms - builder.now.monotonic_ms)
    else:
        _expire_member(groups, group, member, builder)


def _fire_pending(
    groups: ShardGroups, group: ClassicGroup, key: GroupTimerKey, builder: OutcomeBuilder
) -> None:
    pending = group.pending_members[key.member_id]
    if builder.now.monotonic_ms < pending.deadline_ms:
        builder.arm_timer(key, pending.deadline_ms)
    else:
        _expire_pending(groups, group, key.member_id, builder)


def _expire_pending(
    groups: ShardGroups, group: ClassicGroup, member_id: str, builder: OutcomeBuilder
) -> None:
    pending = group.pending_members.pop(member_id)
    builder.add_event(
        MemberExpired(
            group.group_id,
            group.generation_id,
            pending.name,
            pending=True,
            is_new=False,
            silent_ms=builder.now.monotonic_ms - pending.since_ms,
            timeout_ms=pending.deadline_ms - pending.since_ms,
        )
    )
    if group.state is PREPARING_REBALANCE and group.has_all_members_joined:
        complete_join_phase(groups, group, builder)


def _expire_member(
    groups: ShardGroups, group: ClassicGroup, member: ClassicMember, builder: OutcomeBuilder
) -> None:
    builder.add_event(
        MemberExpired(
            group.group_id,
            group.generation_id,
            member.name,
            pending=False,
            is_new=member.is_new,
            silent_ms=member.silent_ms(builder.now.monotonic_ms),
            timeout_ms=member.expiry_timeout_ms,
            connection_id=member.connection_id,
        )
    )
    remove_member(group, member, DepartureCause.SESSION_EXPIRED, builder)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        reason = f"removing member {member.member_id} on heartbeat expiration."
        trigger = Trigger(RebalanceCause.SESSION_EXPIRED, reason, member.name)
        prepare_rebalance(groups, group, trigger, builder)
    elif group.state is PREPARING_REBALANCE and group.has_all_members_joined:
        # Unlike a leave, an expiry also ends the wait of an initial rebalance.
        complete_join_phase(groups, group, builder)
