"""What a classic group waits for, as times: told, put off, moved. For whoever gives a group a clock of its own."""

from collections.abc import Iterator

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.session import cancel_session, heartbeat_key
from coordinator.group.requests import KeepAlive
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.turn import Turn


def deadlines(group: ClassicGroup) -> Iterator[tuple[TimerKey, int]]:
    """What time alone will bring about, with its monotonic time. The timer outside of a member that was heard since
    it was armed fires earlier, and in vain; that of one that is owed an answer does, too."""
    for member in group.members.values():
        if not member.is_exempt_from_session:
            yield heartbeat_key(group, member.member_id), member.session_deadline_ms
    for member_id, pending in group.pending_members.items():
        yield heartbeat_key(group, member_id), pending.deadline_ms
    if group.join_deadline_ms is not None:
        yield TimerKey(TimerKind.JOIN, group.group_id), group.join_deadline_ms
    if group.sync_deadline_ms is not None:
        yield TimerKey(TimerKind.SYNC, group.group_id), group.sync_deadline_ms
    if group.rebalance is not None:
        yield TimerKey(TimerKind.REPORT, group.group_id), group.rebalance.report_deadline_ms


def keep_alive(group: ClassicGroup, request: KeepAlive, turn: Turn) -> None:
    """The sessions of these members last longer, but of those who owe no sign of life."""
    for member_id in request.member_ids:
        member = group.members.get(member_id)
        if (
            member is not None
            and not member.is_exempt_from_session
            and member.session_deadline_ms < request.until_ms
        ):
            member.session_deadline_ms = member.timer_deadline_ms = request.until_ms
            turn.arm(heartbeat_key(group, member_id), request.until_ms)


def move(group: ClassicGroup, by_ms: int, turn: Turn) -> None:
    """All that it waits for comes in as much time as was left."""
    for member in group.members.values():
        member.session_deadline_ms += by_ms
        if member.is_exempt_from_session:
            cancel_session(group, member, turn)
        else:
            member.timer_deadline_ms = member.session_deadline_ms
    for member_id, pending in group.pending_members.items():
        group.pending_members[member_id] = pending._replace(
            since_ms=pending.since_ms + by_ms, deadline_ms=pending.deadline_ms + by_ms
        )
    if group.join_deadline_ms is not None:
        group.join_deadline_ms += by_ms
    if group.sync_deadline_ms is not None:
        group.sync_deadline_ms += by_ms
    if group.rebalance is not None:
        group.rebalance.move(by_ms)
    for key, deadline_ms in deadlines(group):
        turn.arm(key, deadline_ms)
