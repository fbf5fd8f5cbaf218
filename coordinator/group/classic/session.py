"""Sessions: a member that is not heard for its session timeout is taken for dead.

A heartbeat only moves the member's `session_deadline_ms`. The timer outside is left where it is; when it
fires too early, it is set anew to the deadline that holds then. So a heartbeat costs one assignment, and a
member costs one timer per session timeout instead of one per heartbeat.
"""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.classic.rebalance import complete_join_phase, prepare_rebalance
from coordinator.group.classic.removal import remove_member
from coordinator.group.classic.session_timer import restart_session
from coordinator.group.events import MemberExpired
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import DepartureCause, RebalanceCause, Trigger
from coordinator.group.state import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE, STABLE
from coordinator.group.timer_key import TimerKey
from coordinator.machine.turn import Turn


def fire_heartbeat(groups: Groups, key: TimerKey, turn: Turn) -> None:
    """The timer of a member or of a pending one fired: expire it, unless it was heard in the meantime.

    A member to which the coordinator owes an answer does not expire: its session starts anew with the
    answer."""
    group = groups.find_classic(key.group_id)
    if group is None or group.state is DEAD:
        return
    if key.member_id in group.pending_members:
        _fire_pending(groups, group, key, turn)
        return
    member = group.members.get(key.member_id)
    if member is None:
        return
    member.timer_deadline_ms = None
    if member.is_exempt_from_session:
        return
    if turn.now.monotonic_ms < member.session_deadline_ms:
        restart_session(group, member, turn, member.session_deadline_ms - turn.now.monotonic_ms)
    else:
        _expire_member(groups, group, member, turn)


def _fire_pending(groups: Groups, group: ClassicGroup, key: TimerKey, turn: Turn) -> None:
    pending, now_ms = group.pending_members[key.member_id], turn.now.monotonic_ms
    if now_ms < pending.deadline_ms:
        turn.arm(key, pending.deadline_ms)
        return
    del group.pending_members[key.member_id]
    turn.tell(
        MemberExpired(
            group.group_id,
            group.generation_id,
            pending.name,
            pending=True,
            is_new=False,
            silent_ms=now_ms - pending.since_ms,
            timeout_ms=pending.deadline_ms - pending.since_ms,
        )
    )
    if group.state is PREPARING_REBALANCE and group.has_all_members_joined:
        complete_join_phase(groups, group, turn)


def _expire_member(groups: Groups, group: ClassicGroup, member: Member, turn: Turn) -> None:
    turn.tell(
        MemberExpired(
            group.group_id,
            group.generation_id,
            member.name,
            pending=False,
            is_new=member.is_new,
            silent_ms=member.silent_ms(turn.now.monotonic_ms),
            timeout_ms=member.expiry_timeout_ms,
        )
    )
    remove_member(group, member, DepartureCause.SESSION_EXPIRED, turn)
    if group.state in (STABLE, COMPLETING_REBALANCE):
        reason = f"removing member {member.member_id} on heartbeat expiration."
        trigger = Trigger(RebalanceCause.SESSION_EXPIRED, reason, member.name)
        prepare_rebalance(groups, group, trigger, turn)
    elif group.state is PREPARING_REBALANCE and group.has_all_members_joined:
        # Unlike a leave, an expiry also ends the wait of an initial rebalance.
        complete_join_phase(groups, group, turn)
