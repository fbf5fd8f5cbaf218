"""LeaveGroup: members go, one or many, on their own or sent away by an operator.

Source: Kafka's GroupMetadataManager, classicGroupLeave.
"""

from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import NOT_PROVIDED
from coordinator.group.classic.rebalance import rebalance_or_complete_join
from coordinator.group.classic.removal import remove_member
from coordinator.group.classic.session_timer import forget_pending
from coordinator.group.classic.validation import validate_member
from coordinator.group.events import MemberLeft, RebalanceCause
from coordinator.group.groups import Groups
from coordinator.group.state import DEAD, EMPTY
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

BATCH_VERSION: Final = 3


def leave_group(groups: Groups, request: LeaveGroupRequest, context: Context, turn: Turn) -> None:
    """Answer a LeaveGroup with a LeaveGroupResponse: from v3 on an error for each member, before that the
    one member's error at the top."""
    identities = request.members
    if context.api_version < BATCH_VERSION:
        identities = [MemberIdentity(member_id=request.member_id)]
    group = groups.find_classic(request.group_id)
    top_error, members = ErrorCode.NONE, list[MemberResponse]()
    if not request.group_id:
        top_error = ErrorCode.INVALID_GROUP_ID
    elif group is None:
        members = [_response(identity, ErrorCode.UNKNOWN_MEMBER_ID) for identity in identities]
    elif group.state is DEAD:
        top_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    else:
        members = [_response(identity, _leave(group, identity, turn)) for identity in identities]
        _rebalance_without(groups, group, members, turn)
    if context.api_version < BATCH_VERSION and top_error is ErrorCode.NONE:
        assert len(members) == 1, members
        top_error = ErrorCode(members[0].error_code)
    turn.reply(context.waiter, LeaveGroupResponse(error_code=top_error, members=members))


def _response(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
    )


def _leave(group: ClassicGroup, identity: MemberIdentity, turn: Turn) -> ErrorCode:
    """Let one member go, or say why not. One without a member id is an operator's removal of a static
    member."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    reason = NOT_PROVIDED if identity.reason is None else identity.reason
    if member_id in group.pending_members:
        forget_pending(group, member_id, turn)
        turn.tell(MemberLeft(group.group_id, member_id, None, reason, pending=True))
        return ErrorCode.NONE
    if not member_id:
        if instance_id is None or instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = group.static_members[instance_id]
    error = validate_member(group, member_id, instance_id, "leave-group", turn)
    if error is ErrorCode.NONE:
        member = group.members[member_id]
        turn.tell(MemberLeft(group.group_id, member_id, member.group_instance_id, reason, pending=False))
        remove_member(group, member, turn)
    return error


def _rebalance_without(
    groups: Groups, group: ClassicGroup, members: list[MemberResponse], turn: Turn
) -> None:
    """What the departures cause, once for all of them."""
    left = [member.member_id for member in members if member.error_code == ErrorCode.NONE]
    if not left or group.state is EMPTY:
        return
    reason = f"explicit `LeaveGroup` request for ({', '.join(left)}) members."
    rebalance_or_complete_join(groups, group, RebalanceCause.MEMBER_LEFT, reason, turn)
