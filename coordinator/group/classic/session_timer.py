"""Setting and cancelling the timer of a member's session."""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.turn import Turn


def heartbeat_key(group: ClassicGroup, member_id: str) -> TimerKey:
    """The timer of a member, or of a pending one."""
    return TimerKey(TimerKind.HEARTBEAT, group.group_id, member_id)


def restart_session(group: ClassicGroup, member: Member, turn: Turn, timeout_ms: int | None = None) -> None:
    """Give a member its session timeout (or `timeout_ms`) from now on. A timer that fires earlier stays:
    it will be set anew when it does."""
    timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    deadline_ms = turn.now.monotonic_ms + timeout_ms
    member.session_deadline_ms = deadline_ms
    if member.timer_deadline_ms is None or member.timer_deadline_ms > deadline_ms:
        member.timer_deadline_ms = deadline_ms
        turn.arm(heartbeat_key(group, member.member_id), deadline_ms)


def cancel_session(group: ClassicGroup, member: Member, turn: Turn) -> None:
    """The member's session is over."""
    if member.timer_deadline_ms is not None:
        member.timer_deadline_ms = None
        turn.cancel(heartbeat_key(group, member.member_id))


def forget_pending(group: ClassicGroup, member_id: str, turn: Turn) -> None:
    """A pending member will not join."""
    del group.pending_members[member_id]
    turn.cancel(heartbeat_key(group, member_id))
