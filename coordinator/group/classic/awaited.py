"""Whom a classic group waits for, and until when: one answer for all that tell people."""

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import Member
from coordinator.group.rebalance_facts import Awaited, AwaitedRequest
from coordinator.group.state import PREPARING_REBALANCE


def awaited(group: ClassicGroup, now_ms: int) -> tuple[Awaited, ...]:
    """Everyone whose doing it is that a group waits at a monotonic time: those who have to join, or to ask for
    their assignment (the leader, who brings it, first). Nobody in a group that waits for nobody, nor in an
    initial rebalance: that one waits for time to pass."""
    if group.state is PREPARING_REBALANCE:
        return () if group.initial_join is not None else _awaited_joins(group, now_ms)
    members = [group.members[member_id] for member_id in group.pending_sync]
    assignment_is_missing = group.leader_id in group.pending_sync
    if assignment_is_missing:
        members.sort(key=lambda member: member.member_id != group.leader_id)
    first = AwaitedRequest.ASSIGNMENT if assignment_is_missing else AwaitedRequest.SYNC
    return tuple(
        [
            _awaited(member, AwaitedRequest.SYNC if number else first, group.sync_deadline_ms, now_ms)
            for number, member in enumerate(members)
        ]
    )


def phase_left_ms(group: ClassicGroup, now_ms: int) -> int:
    """How long the group waits at most from a monotonic time on; 0 when it waits for nothing."""
    deadline_ms = group.join_deadline_ms if group.sync_deadline_ms is None else group.sync_deadline_ms
    return 0 if deadline_ms is None else max(0, deadline_ms - now_ms)


def _awaited_joins(group: ClassicGroup, now_ms: int) -> tuple[Awaited, ...]:
    deadline_ms = group.join_deadline_ms
    found = []
    for member in group.members.values():
        if not member.is_awaiting_join:
            # With nobody there to lead, only its session ends the wait for a static member.
            is_kept = member.is_static and group.awaiting_join == 0
            found.append(_awaited(member, AwaitedRequest.JOIN, None if is_kept else deadline_ms, now_ms))
    for pending in group.pending_members.values():
        left_ms = max(0, pending.deadline_ms - now_ms)
        most_ms = left_ms if deadline_ms is None else max(0, min(left_ms, deadline_ms - now_ms))
        silent_ms = now_ms - pending.since_ms
        found.append(Awaited(pending.name, AwaitedRequest.FIRST_JOIN, silent_ms, left_ms, most_ms))
    return tuple(found)


def _awaited(member: Member, request: AwaitedRequest, deadline_ms: int | None, now_ms: int) -> Awaited:
    session_left_ms = max(0, member.session_deadline_ms - now_ms)
    left_ms = session_left_ms if deadline_ms is None else max(0, min(session_left_ms, deadline_ms - now_ms))
    return Awaited(member.name, request, member.silent_ms(now_ms), session_left_ms, left_ms)
