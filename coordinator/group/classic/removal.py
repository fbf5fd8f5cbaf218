"""Taking a member out of its group, whatever it waits for."""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.responses import join_error, sync_error
from coordinator.group.classic.session_timer import cancel_session
from coordinator.group.rebalance_facts import Departure, DepartureCause
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode


def answer_parked(group: ClassicGroup, member: Member, error: ErrorCode, member_id: str, turn: Turn) -> None:
    """Answer what a member waits for with an error; `member_id` is what a JoinGroup's answer says."""
    waiter = group.unpark_join(member)
    if waiter is not None:
        turn.reply(waiter, join_error(error, member_id, member.join_version))
    if member.sync_waiter is not None:
        turn.reply(member.sync_waiter, sync_error(error))
        member.sync_waiter = None


def remove_member(group: ClassicGroup, member: Member, cause: DepartureCause, turn: Turn) -> None:
    """Remove a member. What it waits for is answered UNKNOWN_MEMBER_ID without a member id, so that a client
    that lives after all joins as a new member."""
    answer_parked(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", turn)
    cancel_session(group, member, turn)
    group.remove(member)
    if member.settled_assignment is not None:
        group.departed.append(Departure(member.name, cause, member.settled_assignment))
    assert member.member_id not in group.members, member.member_id
