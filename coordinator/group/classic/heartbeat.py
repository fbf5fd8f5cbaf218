"""Heartbeat: the member lives, and learns whether it has to rejoin.

By far the most frequent request, so the common case comes first and takes no detour: a member of a Stable
group, of the right generation, whose timer outside fires no later than its new deadline. Then one
assignment does it, and the answer is a shared object.

Source: Kafka's GroupMetadataManager, classicGroupHeartbeat.
"""

from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.session_timer import restart_session
from coordinator.group.classic.validation import validate_member
from coordinator.group.groups import Groups
from coordinator.group.outcome import NO_TIMERS, Context, Now, Outcome
from coordinator.group.state import DEAD, PREPARING_REBALANCE, STABLE
from coordinator.group.turn import Turn
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

ALIVE: Final = HeartbeatResponse(error_code=ErrorCode.NONE)
REFUSALS: Final = {error: HeartbeatResponse(error_code=error) for error in ErrorCode}


def heartbeat(groups: Groups, request: HeartbeatRequest, context: Context, now: Now) -> Outcome:
    """Answer a Heartbeat with a HeartbeatResponse. The responses are shared: they are not to be changed."""
    group = groups.classic.get(request.group_id)
    if group is not None and group.state is STABLE and request.generation_id == group.generation_id:
        member = group.members.get(request.member_id)
        if member is not None and request.group_instance_id == member.group_instance_id:
            deadline_ms = now[0] + member.session_timeout_ms
            timer_deadline_ms = member.timer_deadline_ms
            if timer_deadline_ms is not None and timer_deadline_ms <= deadline_ms:
                member.session_deadline_ms = deadline_ms
                return Outcome((), ((context.waiter, ALIVE),), NO_TIMERS, ())
    turn = Turn(now, groups.durable.replay)
    error = _check(group, request, turn)
    turn.reply(context.waiter, ALIVE if error is ErrorCode.NONE else REFUSALS[error])
    return turn.outcome()


def _check(group: ClassicGroup | None, request: HeartbeatRequest, turn: Turn) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = validate_member(group, request.member_id, request.group_instance_id, "heartbeat", turn)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    restart_session(group, group.members[request.member_id], turn)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING_REBALANCE else ErrorCode.NONE
