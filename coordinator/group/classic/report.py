"""A rebalance tells of itself: whom it waits for, less and less often, and at its end what came of it."""

from coordinator.group.classic.awaited import awaited, phase_left_ms
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.open_rebalance import FIRST_REPORT_MS, LONGEST_SILENCE_MS, OpenRebalance
from coordinator.group.events import RebalanceCompleted, RebalanceStarted, RebalanceWaits
from coordinator.group.groups import Groups
from coordinator.group.rebalance_facts import Assigned, Trigger
from coordinator.group.state import (
    COMPLETING_REBALANCE,
    EMPTY,
    STABLE,
    ClassicGroupState,
)
from coordinator.group.timer_key import TimerKey, TimerKind
from coordinator.machine.turn import Turn


def open_rebalance(group: ClassicGroup, old_state: ClassicGroupState, trigger: Trigger, turn: Turn) -> None:
    """A rebalance starts, or starts over because its sync phase was broken off."""
    now_ms = turn.now.monotonic_ms
    if old_state is COMPLETING_REBALANCE:
        assert group.rebalance is not None, group.group_id
        group.rebalance.begin_again(trigger, now_ms)
    else:
        group.rebalance = OpenRebalance(trigger, old_state, now_ms)
        turn.arm(_report_key(group), group.rebalance.report_deadline_ms)
    members = tuple([member.name for member in group.members.values()])
    turn.tell(
        RebalanceStarted(
            group.group_id, group.generation_id, old_state.value, trigger, members, member=trigger.actor
        )
    )


def complete_rebalance(group: ClassicGroup, turn: Turn) -> None:
    """The group is Stable or Empty: say what came of the rebalance."""
    rebalance, now_ms = group.rebalance, turn.now.monotonic_ms
    assert rebalance is not None, group.group_id
    assert group.state in (STABLE, EMPTY), group.state
    name = group.protocol_name or ""
    members = tuple(
        [
            Assigned(member.name, member.settled_assignment, member.assignment, member.metadata_for(name))
            for member in group.members.values()
        ]
    )
    topics = None if group.subscribed_topics is None else tuple(sorted(group.subscribed_topics))
    last_joined = None if rebalance.last_joined is None else rebalance.last_joined.name
    turn.tell(
        RebalanceCompleted(
            group.group_id,
            group.generation_id,
            group.state.value,
            rebalance.from_state.value,
            group.protocol_type,
            group.protocol_name,
            group.leader_id,
            rebalance.trigger,
            rebalance.latest,
            rebalance.attempts,
            rebalance.started_ms,
            now_ms,
            rebalance.join_ms,
            rebalance.sync_ms,
            last_joined,
            members,
            tuple(group.departed),
            topics,
            member=rebalance.trigger.actor,
        )
    )
    group.departed.clear()
    for member in group.members.values():
        member.settled_assignment = member.assignment
    if group.pending_sync:
        _report_later(group, rebalance, 0, turn)
    else:
        close_rebalance(group, turn)


def close_rebalance(group: ClassicGroup, turn: Turn) -> None:
    """Nobody is waited for any more."""
    assert not group.pending_sync, group.pending_sync
    if group.rebalance is not None:
        group.rebalance = None
        turn.cancel(_report_key(group))


def fire_report(groups: Groups, key: TimerKey, turn: Turn) -> None:
    """Say whom the group waits for, unless the wait is over in this moment."""
    group = groups.find_classic(key.group_id)
    if group is None or group.rebalance is None:
        return
    rebalance, now_ms = group.rebalance, turn.now.monotonic_ms
    if now_ms < rebalance.report_deadline_ms:
        turn.arm(key, rebalance.report_deadline_ms)
        return
    is_stable = group.state is STABLE
    waited_ms = now_ms - (rebalance.phase_started_ms if is_stable else rebalance.started_ms)
    _report_later(group, rebalance, waited_ms, turn)
    left_ms = phase_left_ms(group, now_ms)
    if not left_ms:
        return
    turn.tell(
        RebalanceWaits(
            group.group_id,
            group.generation_id,
            group.state.value,
            None if is_stable else rebalance.trigger,
            rebalance.attempts,
            waited_ms,
            left_ms,
            len(group.members),
            awaited(group, now_ms),
            group.initial_join is not None,
        )
    )


def _report_later(group: ClassicGroup, rebalance: OpenRebalance, waited_ms: int, turn: Turn) -> None:
    silence_ms = min(max(waited_ms, FIRST_REPORT_MS), LONGEST_SILENCE_MS)
    rebalance.report_deadline_ms = turn.now.monotonic_ms + silence_ms
    turn.arm(_report_key(group), rebalance.report_deadline_ms)


def _report_key(group: ClassicGroup) -> TimerKey:
    return TimerKey(TimerKind.REPORT, group.group_id)
