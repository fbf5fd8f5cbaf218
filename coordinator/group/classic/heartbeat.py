"""Heartbeat: the member lives, and learns whether it has to rejoin.

By far the most frequent request, so the common case has a way of its own: a member of a Stable group, of the
right generation, whose timer outside fires no later than its new deadline. Then one assignment does it, and
nothing follows from it but the answer that all is well.

Source: Kafka's GroupMetadataManager, classicGroupHeartbeat.
"""

from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.session_timer import restart_session
from coordinator.group.classic.validation import validate_member
from coordinator.group.events import MemberToldToRejoin
from coordinator.group.groups import Groups
from coordinator.group.refusal import check_group_id, tell_refusal
from coordinator.group.state import DEAD, PREPARING_REBALANCE, STABLE
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

# Looking a member of an enumeration up costs more than the rest of the check.
NONE: Final = ErrorCode.NONE

RESPONSES: Final = {error: HeartbeatResponse(error_code=error) for error in ErrorCode}


def beat(groups: Groups, request: HeartbeatRequest, monotonic_ms: int) -> bool:
    """Take the heartbeat of a member to whom there is nothing to say but NONE; whether it was one.

    If not, nothing has changed, and `heartbeat` says what there is to say.
    """
    group = groups.classic.get(request.group_id)
    if group is None or group.state is not STABLE or request.generation_id != group.generation_id:
        return False
    member = group.members.get(request.member_id)
    if member is None or request.group_instance_id != member.group_instance_id:
        return False
    deadline_ms = monotonic_ms + member.session_timeout_ms
    timer_deadline_ms = member.timer_deadline_ms
    if timer_deadline_ms is None or timer_deadline_ms > deadline_ms:
        return False
    member.session_deadline_ms = deadline_ms
    return True


def heartbeat(groups: Groups, request: HeartbeatRequest, context: Context, turn: Turn) -> None:
    """Answer a Heartbeat with a HeartbeatResponse. The responses are shared: they are not to be changed."""
    group = groups.classic.get(request.group_id)
    error = _check(group, request, context, turn)
    if error is not NONE and error is not ErrorCode.REBALANCE_IN_PROGRESS:
        tell_refusal(group, request, context, error, turn)
    turn.reply(context.waiter, RESPONSES[error])


def _check(group: ClassicGroup | None, request: HeartbeatRequest, context: Context, turn: Turn) -> ErrorCode:
    error = check_group_id(request)
    if error is not NONE:
        return error
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = validate_member(group, request.member_id, request.group_instance_id, "heartbeat", context, turn)
    if error is not NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    restart_session(group, group.members[request.member_id], turn)
    if group.state is not PREPARING_REBALANCE:
        return NONE
    name = group.members[request.member_id].name
    turn.tell(MemberToldToRejoin(group.group_id, group.generation_id, name, "heartbeat"))
    return ErrorCode.REBALANCE_IN_PROGRESS
