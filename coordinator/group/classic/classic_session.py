"""Sessions of classic members, and the JoinGroup and SyncGroup answers that they wait for."""

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup, ClassicMember
from coordinator.group.classic.classic_state_machine import DEAD, PREPARING_REBALANCE
from coordinator.group.event_details import Departure, DepartureCause
from coordinator.group.group_event_types import AssignmentFetched, MemberToldToRejoin
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from protocol.error_codes import ErrorCode
from protocol.error_response import build_bare_error_response
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.sync_group import SyncGroupResponse

# Session timers


def heartbeat_key(group: ClassicGroup, member_id: str) -> GroupTimerKey:
    """The timer of a member, or of a pending one."""
    return GroupTimerKey(GroupTimerKind.HEARTBEAT, group.group_id, member_id)


def restart_classic_session(
    group: ClassicGroup, member: ClassicMember, builder: OutcomeBuilder, timeout_ms: int | None = None
) -> None:
    """Give a member its session timeout (or `timeout_ms`) from now on. A timer that fires earlier stays:
    it will be set anew when it does."""
    timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    deadline_ms = builder.now.monotonic_ms + timeout_ms
    member.session_deadline_ms = deadline_ms
    if member.timer_deadline_ms is None or member.timer_deadline_ms > deadline_ms:
        member.timer_deadline_ms = deadline_ms
        builder.arm_timer(heartbeat_key(group, member.member_id), deadline_ms)


def cancel_session(group: ClassicGroup, member: ClassicMember, builder: OutcomeBuilder) -> None:
    """The member's session is over."""
    if member.timer_deadline_ms is not None:
        member.timer_deadline_ms = None
        builder.cancel_timer(heartbeat_key(group, member.member_id))


def forget_pending(group: ClassicGroup, member_id: str, builder: OutcomeBuilder) -> None:
    """A pending member will not join."""
    del group.pending_members[member_id]
    builder.cancel_timer(heartbeat_key(group, member_id))


# Parked requests


def park_join(group: ClassicGroup, member: ClassicMember, context: Context, builder: OutcomeBuilder) -> None:
    """Withhold the answer to a member's JoinGroup until the join phase ends."""
    old_version = member.join_version
    superseded = group.park_join(member, context.waiter, context.api_version)
    if group.rebalance is not None:
        group.rebalance.record_join(member, builder.now.monotonic_ms)
    if superseded is not None:
        # Kafka never answers it, which keeps its connection waiting; this tells whoever listens to rejoin.
        builder.reply(
            superseded,
            join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, old_version),
        )


def park_sync(member: ClassicMember, context: Context, builder: OutcomeBuilder) -> None:
    """Withhold the answer to a member's SyncGroup until the leader has handed in the assignment."""
    if member.sync_waiter is not None:
        # Kafka never answers the earlier one, as with JoinGroup.
        builder.reply(member.sync_waiter, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_waiter = context.waiter


def answer_syncs(group: ClassicGroup, error: ErrorCode, builder: OutcomeBuilder) -> None:
    """Answer every parked SyncGroup: NONE with the member's assignment. Sessions start anew with the answer."""
    for member in group.members.values():
        if member.sync_waiter is not None:
            is_given = error is ErrorCode.NONE
            builder.reply(member.sync_waiter, sync_success(group, member) if is_given else sync_error(error))
            member.sync_waiter = None
            if is_given:
                builder.add_event(AssignmentFetched(group.group_id, group.generation_id, member.name))
            elif error is ErrorCode.REBALANCE_IN_PROGRESS:
                builder.add_event(
                    MemberToldToRejoin(group.group_id, group.generation_id, member.name, "sync-group")
                )
            restart_classic_session(group, member, builder)


def answer_parked(
    group: ClassicGroup, member: ClassicMember, error: ErrorCode, member_id: str, builder: OutcomeBuilder
) -> None:
    """Answer what a member waits for with an error; `member_id` is what a JoinGroup's answer says."""
    waiter = group.unpark_join(member)
    if waiter is not None:
        builder.reply(waiter, join_error(error, member_id, member.join_version))
    if member.sync_waiter is not None:
        builder.reply(member.sync_waiter, sync_error(error))
        member.sync_waiter = None


# Removal


def remove_member(
    group: ClassicGroup, member: ClassicMember, cause: DepartureCause, builder: OutcomeBuilder
) -> None:
    """Remove a member. What it waits for is answered UNKNOWN_MEMBER_ID without a member id, so that a client
    that lives after all joins as a new member."""
    answer_parked(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", builder)
    cancel_session(group, member, builder)
    group.remove_member(member)
    if member.settled_assignment is not None:
        group.departed.append(Departure(member.name, cause, member.settled_assignment))
    assert member.member_id not in group.members, member.member_id


# Responses


def join_error(error: ErrorCode, member_id: str, api_version: int) -> JoinGroupResponse:
    """A refused JoinGroup; the protocol name is null where the version allows it (KIP-559)."""
    assert error is not ErrorCode.NONE
    response: JoinGroupResponse = build_bare_error_response(JoinGroupRequest, api_version, error)
    response.member_id = member_id
    return response


def join_success(
    group: ClassicGroup, member_id: str, *, with_members: bool, leader: str, skip_assignment: bool = False
) -> JoinGroupResponse:
    """A member's part in the current generation. `with_members` lists all members, for the leader;
    `skip_assignment` tells a leader not to assign (KIP-814)."""
    assert group.protocol_name is not None, group.group_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_members_for_leader(group) if with_members else [],
    )


def _members_for_leader(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    assert group.state not in (PREPARING_REBALANCE, DEAD), group.state
    assert group.protocol_name is not None, group.group_id
    name = group.protocol_name
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata_for(name),
        )
        for member in group.members.values()
    ]


def sync_error(error: ErrorCode) -> SyncGroupResponse:
    """A refused SyncGroup: no protocol, no assignment."""
    assert error is not ErrorCode.NONE
    return SyncGroupResponse(error_code=error, assignment=b"")


def sync_success(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """The assignment of a member."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
