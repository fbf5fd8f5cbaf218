"""The rebalance: starting one, and ending its join phase.

The **join phase** waits until every known member has sent a JoinGroup, at most for the longest rebalance
timeout among them. Who has not come by then is evicted, unless it is static: a static member keeps its
place until its session ends, so that it may restart. When only silent static members are left, nobody
could lead, and the wait begins again.

A rebalance of an **empty** group is different. Its members start one after another, and each would cause a
rebalance of its own; so the phase waits `group.initial.rebalance.delay.ms` even when everybody is there, and
as much again while new members keep coming, in total no longer than the rebalance timeout. What is left of
that is data on the group (`initial_join`), not a captured computation.

When the phase ends, the generation grows by one, the leader is confirmed or replaced, the protocol is voted,
and all parked JoinGroups are answered. Each member then has the rebalance timeout to send its SyncGroup
(KAFKA-12890): who has not by then is removed, and a new rebalance begins.

Source: Kafka's GroupMetadataManager, prepareRebalance and completeClassicGroupJoin.
"""

from collections.abc import Callable
from typing import Final

from coordinator.group.classic.group import ClassicGroup, InitialJoin
from coordinator.group.classic.member import Member
from coordinator.group.classic.record import group_metadata_record
from coordinator.group.classic.report import complete_rebalance, open_rebalance
from coordinator.group.classic.responses import join_success
from coordinator.group.classic.session import answer_syncs, remove_member, restart_session
from coordinator.group.events import (
    GroupEmptied,
    GroupStabilized,
    LeaderReplaced,
    MembersEvicted,
    RebalanceDelayed,
    RebalanceStalled,
    SubscriptionUnreadable,
)
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import DepartureCause, RebalanceCause, Trigger
from coordinator.group.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    PREPARING_REBALANCE,
    REBALANCE_MAY_START,
    STABLE,
)
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode

STALLED_WAIT_MIN_MS: Final = 1_000
"""Members may ask for a rebalance timeout of 0. Where Kafka would then look again without pause whether a
silent static member has come, this much time passes in between."""


def rebalance_or_complete_join(
    groups: Groups, group: ClassicGroup, trigger: Callable[[], Trigger], turn: Turn
) -> None:
    """The membership changed: start a rebalance, or see whether that ends the one that runs. What began it is
    only put into words where one begins: of a thousand members that join, one begins it."""
    if group.state in REBALANCE_MAY_START:
        prepare_rebalance(groups, group, trigger(), turn)
    else:
        maybe_complete_join_phase(groups, group, turn)


def prepare_rebalance(groups: Groups, group: ClassicGroup, trigger: Trigger, turn: Turn) -> None:
    """Start a rebalance."""
    assert group.state in REBALANCE_MAY_START, group.state
    old_state = group.state
    if old_state is COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, turn)
    group.pending_sync.clear()
    cancel_sync_timer(group, turn)
    group.transition_to(PREPARING_REBALANCE, turn.now.wall_ms)
    open_rebalance(group, old_state, trigger, turn)
    if old_state is EMPTY:
        delay_ms = groups.config.group_initial_rebalance_delay_ms
        group.initial_join = InitialJoin(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        _arm_join_timer(group, delay_ms, turn)
    elif group.has_all_members_joined:
        complete_join_phase(groups, group, turn)
    else:
        _arm_join_timer(group, group.rebalance_timeout_ms, turn)


def maybe_complete_join_phase(groups: Groups, group: ClassicGroup, turn: Turn) -> None:
    """End the join phase if nobody has to be waited for. An initial rebalance waits for its delay."""
    if group.state is PREPARING_REBALANCE and group.initial_join is None and group.has_all_members_joined:
        complete_join_phase(groups, group, turn)


def fire_join(groups: Groups, key: TimerKey, turn: Turn) -> None:
    """The time for joining is over: end the phase, or let an initial rebalance wait on."""
    group = groups.find_classic(key.group_id)
    if group is None or group.join_deadline_ms is None:
        return
    if turn.now.monotonic_ms < group.join_deadline_ms:
        turn.arm(key, group.join_deadline_ms)
        return
    assert group.state is PREPARING_REBALANCE, group.state
    group.join_deadline_ms = None
    initial = group.initial_join
    if initial is not None and group.new_member_added and initial.remaining_ms:
        group.new_member_added = False
        delay_ms = min(groups.config.group_initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial_join = InitialJoin(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
        turn.tell(RebalanceDelayed(group.group_id, group.generation_id, delay_ms))
        _arm_join_timer(group, delay_ms, turn)
    else:
        complete_join_phase(groups, group, turn)


def complete_join_phase(groups: Groups, group: ClassicGroup, turn: Turn) -> None:
    """Begin the next generation with who is here, and tell them."""
    assert group.state is PREPARING_REBALANCE, group.state
    if group.join_deadline_ms is not None:
        group.join_deadline_ms = None
        turn.cancel(_join_key(group))
    old_leader_id = group.leader_id
    _evict_absent(group, turn)
    if group.members and not _elect_leader(group):
        turn.tell(RebalanceStalled(group.group_id, group.generation_id, len(group.members)))
        _arm_join_timer(group, max(group.rebalance_timeout_ms, STALLED_WAIT_MIN_MS), turn)
        return
    if group.leader_id is not None and old_leader_id is not None and old_leader_id != group.leader_id:
        name = group.members[group.leader_id].name
        turn.tell(LeaderReplaced(group.group_id, group.generation_id, name, old_leader_id))
    assert group.rebalance is not None, group.group_id
    group.rebalance.end_join_phase(turn.now.monotonic_ms)
    state = COMPLETING_REBALANCE if group.members else EMPTY
    readable = group.next_generation(turn.now.wall_ms, state, groups.config.message_max_bytes)
    if state is EMPTY:
        turn.tell(GroupEmptied(group.group_id, group.generation_id))
        turn.write(group_metadata_record(group))
        complete_rebalance(group, turn)
        return
    assert group.leader_id in group.members, group.leader_id
    assert group.protocol_name is not None, group.group_id
    turn.tell(
        GroupStabilized(
            group.group_id, group.generation_id, len(group.members), group.leader_id, group.protocol_name
        )
    )
    if not readable:
        turn.tell(SubscriptionUnreadable(group.group_id, group.generation_id, group.protocol_name))
    for member in group.members.values():
        _enter_generation(group, member, turn)
    group.sync_deadline_ms = turn.now.monotonic_ms + group.rebalance_timeout_ms
    turn.arm(_sync_key(group), group.sync_deadline_ms)
    assert group.awaiting_join == 0, group.awaiting_join


def fire_sync(groups: Groups, key: TimerKey, turn: Turn) -> None:
    """The time for SyncGroup is over: remove who has not asked for its assignment, and rebalance."""
    group = groups.find_classic(key.group_id)
    if group is None or group.sync_deadline_ms is None:
        return
    if turn.now.monotonic_ms < group.sync_deadline_ms:
        turn.arm(key, group.sync_deadline_ms)
        return
    assert group.state in (COMPLETING_REBALANCE, STABLE), group.state
    assert group.pending_sync, group.group_id
    group.sync_deadline_ms = None
    late = tuple(group.pending_sync)
    members = [group.members[member_id] for member_id in late]
    _remove_youngest_first(group, members, DepartureCause.NOT_SYNCED, turn)
    _tell_evicted(group, members, "sync", turn)
    reason = f"Removing [{', '.join(late)}] on pending sync request expiration"
    prepare_rebalance(groups, group, Trigger(RebalanceCause.SYNC_EXPIRED, reason, members[0].name), turn)


def synced(group: ClassicGroup, member: Member, turn: Turn) -> None:
    """A member asked for its assignment; the last one ends the wait for SyncGroups."""
    group.pending_sync.pop(member.member_id, None)
    if not group.pending_sync:
        cancel_sync_timer(group, turn)


def cancel_sync_timer(group: ClassicGroup, turn: Turn) -> None:
    """Nobody's SyncGroup is waited for any more."""
    assert not group.pending_sync, group.pending_sync
    if group.sync_deadline_ms is not None:
        group.sync_deadline_ms = None
        turn.cancel(_sync_key(group))


def _evict_absent(group: ClassicGroup, turn: Turn) -> None:
    if group.awaiting_join == len(group.members):
        return
    absent = [m for m in group.members.values() if not m.is_awaiting_join and not m.is_static]
    _remove_youngest_first(group, absent, DepartureCause.NOT_REJOINED, turn)
    if absent:
        _tell_evicted(group, absent, "join", turn)


def _tell_evicted(group: ClassicGroup, members: list[Member], phase: str, turn: Turn) -> None:
    turn.tell(
        MembersEvicted(
            group.group_id,
            group.generation_id,
            tuple([member.name for member in members]),
            phase,
            tuple([member.silent_ms(turn.now.monotonic_ms) for member in members]),
            tuple([member.connection_id for member in members]),
        )
    )


def _remove_youngest_first(
    group: ClassicGroup, members: list[Member], cause: DepartureCause, turn: Turn
) -> None:
    # From the back, so that whoever succeeds a removed leader is found at once and not removed next.
    for member in reversed(members):
        remove_member(group, member, cause, turn)


def _elect_leader(group: ClassicGroup) -> bool:
    """Whether a member that is here leads: the present leader if it can, else the oldest that can."""
    assert group.leader_id is not None, group.group_id
    if group.members[group.leader_id].is_awaiting_join:
        return True
    present = (member.member_id for member in group.members.values() if member.is_awaiting_join)
    elected = next(present, None)
    if elected is not None:
        group.leader_id = elected
    return elected is not None


def _enter_generation(group: ClassicGroup, member: Member, turn: Turn) -> None:
    assert group.leader_id is not None, group.group_id
    waiter = group.unpark_join(member)
    if waiter is not None:
        leads = member.member_id == group.leader_id
        turn.reply(waiter, join_success(group, member.member_id, with_members=leads, leader=group.leader_id))
    restart_session(group, member, turn)
    member.is_new = False
    group.pending_sync[member.member_id] = None


def _arm_join_timer(group: ClassicGroup, delay_ms: int, turn: Turn) -> None:
    assert delay_ms >= 0, delay_ms
    group.join_deadline_ms = turn.now.monotonic_ms + delay_ms
    turn.arm(_join_key(group), group.join_deadline_ms)


def _join_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.JOIN, group.group_id)


def _sync_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.SYNC, group.group_id)
