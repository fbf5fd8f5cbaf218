"""The session of a member: its timer, the requests of it that are parked, and its end.

A heartbeat only moves the member's `session_deadline_ms`. The timer outside is left where it is; when it
fires too early, it is set anew to the deadline that holds then. So a heartbeat costs one assignment, and a
member costs one timer per session timeout instead of one per heartbeat. What happens when it fires in time is in
`heartbeat.py`.
"""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.responses import join_error, sync_error, sync_success
from coordinator.group.events import AssignmentFetched, MemberToldToRejoin
from coordinator.group.rebalance_facts import Departure, DepartureCause
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode

# Its timer


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


# What it waits for


def park_join(group: ClassicGroup, member: Member, context: Context, turn: Turn) -> None:
    """Withhold the answer to a member's JoinGroup until the join phase ends."""
    old_version = member.join_version
    superseded = group.park_join(member, context.waiter, context.api_version)
    if group.rebalance is not None:
        group.rebalance.note_join(member, turn.now.monotonic_ms)
    if superseded is not None:
        # Kafka never answers it, which keeps its connection waiting; this tells whoever listens to rejoin.
        turn.reply(
            superseded,
            join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, old_version),
        )


def park_sync(member: Member, context: Context, turn: Turn) -> None:
    """Withhold the answer to a member's SyncGroup until the leader has handed in the assignment."""
    if member.sync_waiter is not None:
        # Kafka never answers the earlier one; see the same case of JoinGroup.
        turn.reply(member.sync_waiter, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_waiter = context.waiter


def answer_syncs(group: ClassicGroup, error: ErrorCode, turn: Turn) -> None:
    """Answer every parked SyncGroup: NONE with the member's assignment. Sessions start anew with the answer."""
    for member in group.members.values():
        if member.sync_waiter is not None:
            is_given = error is ErrorCode.NONE
            turn.reply(member.sync_waiter, sync_success(group, member) if is_given else sync_error(error))
            member.sync_waiter = None
            if is_given:
                turn.tell(AssignmentFetched(group.group_id, group.generation_id, member.name))
            elif error is ErrorCode.REBALANCE_IN_PROGRESS:
                turn.tell(MemberToldToRejoin(group.group_id, group.generation_id, member.name, "sync-group"))
            restart_session(group, member, turn)


def answer_parked(group: ClassicGroup, member: Member, error: ErrorCode, member_id: str, turn: Turn) -> None:
    """Answer what a member waits for with an error; `member_id` is what a JoinGroup's answer says."""
    waiter = group.unpark_join(member)
    if waiter is not None:
        turn.reply(waiter, join_error(error, member_id, member.join_version))
    if member.sync_waiter is not None:
        turn.reply(member.sync_waiter, sync_error(error))
        member.sync_waiter = None


# Its end


def remove_member(group: ClassicGroup, member: Member, cause: DepartureCause, turn: Turn) -> None:
    """Remove a member. What it waits for is answered UNKNOWN_MEMBER_ID without a member id, so that a client
    that lives after all joins as a new member."""
    answer_parked(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", turn)
    cancel_session(group, member, turn)
    group.remove(member)
    if member.settled_assignment is not None:
        group.departed.append(Departure(member.name, cause, member.settled_assignment))
    assert member.member_id not in group.members, member.member_id
