"""A classic group as values: see `coordinator/group/view.py`."""

from coordinator.group.classic.awaited import awaited, phase_left_ms
from coordinator.group.classic.group import ClassicGroup, PendingMember
from coordinator.group.classic.member import Member
from coordinator.group.group_type import GroupType
from coordinator.group.view import GroupView, MemberView, PendingMemberView, RebalanceView


def view_of(group: ClassicGroup, now_ms: int) -> GroupView:
    """The group at a monotonic time."""
    return GroupView(
        group_id=group.group_id,
        type=GroupType.CLASSIC,
        state=group.state.value,
        state_since_ms=group.state_timestamp_ms,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        members=tuple([_member(group, member, now_ms) for member in group.members.values()]),
        pending=tuple([_pending(pending, now_ms) for pending in group.pending_members.values()]),
        rebalance=_rebalance(group, now_ms),
    )


def _member(group: ClassicGroup, member: Member, now_ms: int) -> MemberView:
    protocols = tuple([name for name, _ in member.protocols])
    shown = group.protocol_name if group.protocol_name in protocols else next(iter(protocols), None)
    return MemberView(
        name=member.name,
        connection_id=member.connection_id,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        silent_ms=member.silent_ms(now_ms),
        session_left_ms=max(0, member.session_deadline_ms - now_ms),
        is_new=member.is_new,
        is_awaiting_join=member.is_awaiting_join,
        is_awaiting_sync=member.is_awaiting_sync,
        protocols=protocols,
        metadata=b"" if shown is None else member.metadata_for(shown),
        assignment=member.assignment,
    )


def _pending(pending: PendingMember, now_ms: int) -> PendingMemberView:
    return PendingMemberView(
        name=pending.name,
        since_ms=max(0, now_ms - pending.since_ms),
        left_ms=max(0, pending.deadline_ms - now_ms),
        connection_id=pending.connection_id,
    )


def _rebalance(group: ClassicGroup, now_ms: int) -> RebalanceView | None:
    rebalance = group.rebalance
    if rebalance is None:
        return None
    return RebalanceView(
        trigger=rebalance.trigger,
        latest=rebalance.latest,
        attempts=rebalance.attempts,
        from_state=rebalance.from_state.value,
        open_ms=max(0, now_ms - rebalance.started_ms),
        phase_ms=max(0, now_ms - rebalance.phase_started_ms),
        left_ms=phase_left_ms(group, now_ms),
        is_initial=group.initial_join is not None,
        awaited=awaited(group, now_ms),
    )
