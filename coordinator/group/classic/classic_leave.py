"""LeaveGroup: members leave by themselves, or an admin client removes them.

Source: Kafka's GroupMetadataManager, classicGroupLeave.
"""

from collections.abc import Sequence
from typing import Final

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import NOT_PROVIDED
from coordinator.group.classic.classic_state_machine import DEAD, EMPTY
from coordinator.group.classic.rebalance import rebalance_or_complete_join, remove_member
from coordinator.group.event_details import DepartureCause, MemberName, RebalanceCause, Trigger
from coordinator.group.group_event_types import MemberLeft
from coordinator.group.group_request_rules import add_fenced_event, build_group_error_response, check_group_id
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCH_VERSION: Final = 3


def leave_classic_group(
    groups: ShardGroups,
    group: ClassicGroup | None,
    request: LeaveGroupRequest,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer a LeaveGroup with a LeaveGroupResponse. From v3 on it has an error for each member, before that one
    error at the top level.
    """
    error = check_group_id(request)
    if error is ErrorCode.NONE and group is not None and group.state is DEAD:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is not ErrorCode.NONE:
        builder.reply(context.waiter, build_group_error_response(request, context.api_version, error))
        return
    identities = find_leaving_members(request, context.api_version)
    if group is None:
        errors = [(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in identities]
    else:
        left: list[MemberLeft] = []
        errors = [
            (identity, _remove_leaving_member(group, identity, context, left, builder))
            for identity in identities
        ]
        _rebalance_after_leave(groups, group, left, errors, builder)
    answer_leave(errors, context, builder)


def find_leaving_members(request: LeaveGroupRequest, api_version: int) -> Sequence[MemberIdentity]:
    """Return the leaving members: before v3 only the sender."""
    if api_version >= BATCH_VERSION:
        return request.members
    return [MemberIdentity(member_id=request.member_id)]


def answer_leave(
    errors: Sequence[tuple[MemberIdentity, ErrorCode]], context: Context, builder: OutcomeBuilder
) -> None:
    """Answer with the error of each member: before v3 as the error of the response itself."""
    members = [
        MemberResponse(
            member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
        )
        for identity, error in errors
    ]
    error = ErrorCode.NONE
    if context.api_version < BATCH_VERSION:
        ((_, error),) = errors
    builder.reply(context.waiter, LeaveGroupResponse(error_code=error, members=members))


def _remove_leaving_member(
    group: ClassicGroup,
    identity: MemberIdentity,
    context: Context,
    left: list[MemberLeft],
    builder: OutcomeBuilder,
) -> ErrorCode:
    """Remove one member and append it to `left`, or return the error. A request without a member id is an admin
    client's removal of a static member.
    """
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id in group.pending_members:
        pending = group.pending_members[member_id]
        group.forget_pending(member_id, builder)
        left.append(_add_left_event(group, pending.name, identity, context, builder, pending=True))
        return ErrorCode.NONE
    if not member_id:
        if instance_id is None or instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[instance_id]
    error = group.check_sender(member_id, instance_id)
    if error is ErrorCode.FENCED_INSTANCE_ID:
        sender = MemberName(member_id, instance_id, context.client_id, context.client_host)
        add_fenced_event(group, sender, LeaveGroupRequest, builder)
    if error is ErrorCode.NONE:
        member = group.members[member_id]
        left.append(_add_left_event(group, member.name, identity, context, builder, pending=False))
        remove_member(group, member, DepartureCause.LEFT, builder)
    return error


def _add_left_event(
    group: ClassicGroup,
    name: MemberName,
    identity: MemberIdentity,
    context: Context,
    builder: OutcomeBuilder,
    *,
    pending: bool,
) -> MemberLeft:
    reason = NOT_PROVIDED if identity.reason is None else identity.reason
    sender = (context.client_id, context.client_host)
    event = MemberLeft(group.group_id, group.generation_id, name, reason, pending, *sender)
    builder.add_event(event)
    return event


def _rebalance_after_leave(
    groups: ShardGroups,
    group: ClassicGroup,
    left: list[MemberLeft],
    errors: Sequence[tuple[MemberIdentity, ErrorCode]],
    builder: OutcomeBuilder,
) -> None:
    """Rebalance once after all departures."""
    if not left or group.state is EMPTY:
        return

    def trigger() -> Trigger:
        ids = [identity.member_id for identity, error in errors if error is ErrorCode.NONE]
        sentence = f"explicit `LeaveGroup` request for ({', '.join(ids)}) members."
        first = left[0]
        client_reason = "" if first.reason == NOT_PROVIDED else first.reason
        return Trigger(RebalanceCause.MEMBER_LEFT, sentence, first.member, client_reason)

    rebalance_or_complete_join(groups, group, trigger, builder)
