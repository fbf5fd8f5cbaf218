"""Rebalances of a classic group: the start, the end of the join phase, and the reports about both.

The **join phase** waits until every known member has sent a JoinGroup, at most for the longest rebalance timeout of
the members. At the deadline the group evicts the missing members, except static ones: a static member stays until
its session ends, so that it may restart. If only silent static members remain, no member can lead, and the wait
restarts.

A rebalance of an **empty** group is different. Its members start one after another, and each would cause a
rebalance of its own. So the phase waits `group.initial.rebalance.delay.ms` even if all known members have joined.
While new members join, it waits as long again, in total no longer than the rebalance timeout. The group keeps the
remaining time in `initial_join`.

At the end of the phase the generation is incremented, the leader is confirmed or replaced, the protocol is
selected, and all parked JoinGroups are answered. Each member then has the rebalance timeout to send its SyncGroup
(KAFKA-12890). The group removes a late member and starts a new rebalance.

A waiting rebalance emits events with the awaited members at growing intervals, and one with the result at its end.

Source: Kafka's GroupMetadataManager, prepareRebalance and completeClassicGroupJoin.
"""

from collections.abc import Callable
from typing import Final

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import (
    FIRST_REPORT_MS,
    MAX_REPORT_INTERVAL_MS,
    ClassicMember,
    InitialJoin,
    OpenRebalance,
)
from coordinator.group.classic.classic_records import group_metadata_record
from coordinator.group.classic.classic_state_machine import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    PREPARING_REBALANCE,
    REBALANCE_MAY_START,
    STABLE,
    ClassicGroupState,
)
from coordinator.group.event_details import (
    Departure,
    DepartureCause,
    MemberAssignment,
    RebalanceCause,
    Trigger,
)
from coordinator.group.group_event_types import (
    AssignmentFetched,
    GroupEmptied,
    GroupStabilized,
    LeaderReplaced,
    MembersEvicted,
    MemberToldToRejoin,
    RebalanceCompleted,
    RebalanceDelayed,
    RebalanceStalled,
    RebalanceStarted,
    RebalanceWaits,
    SubscriptionUnreadable,
)
from coordinator.group.group_request_rules import build_join_error, build_sync_error
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from protocol.messages.sync_group import SyncGroupResponse

STALLED_WAIT_MIN_MS: Final = 1_000
"""The wait for silent static members if all members have a rebalance timeout of 0. Kafka then checks again without
a pause.
"""


def rebalance_or_complete_join(
    groups: ShardGroups, group: ClassicGroup, trigger: Callable[[], Trigger], builder: OutcomeBuilder
) -> None:
    """Start a rebalance after a change of the members, or end the join phase of the current one if it is complete.
    Calls `trigger` only at the start: of a thousand members that join, one starts a rebalance.
    """
    if group.state in REBALANCE_MAY_START:
        prepare_rebalance(groups, group, trigger(), builder)
    else:
        maybe_complete_join_phase(groups, group, builder)


def prepare_rebalance(
    groups: ShardGroups, group: ClassicGroup, trigger: Trigger, builder: OutcomeBuilder
) -> None:
    """Start a rebalance, or restart the current one from its sync phase."""
    assert group.state in REBALANCE_MAY_START, group.state
    old_state = group.state
    if old_state is COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, builder)
    group.pending_sync.clear()
    cancel_sync_timer(group, builder)
    group.transition_to(PREPARING_REBALANCE, builder.now.wall_ms)
    open_rebalance(group, old_state, trigger, builder)
    if old_state is EMPTY:
        delay_ms = groups.config.group_initial_rebalance_delay_ms
        group.initial_join = InitialJoin(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        _arm_join_timer(group, delay_ms, builder)
    elif group.has_all_members_joined:
        complete_join_phase(groups, group, builder)
    else:
        _arm_join_timer(group, group.rebalance_timeout_ms, builder)


def maybe_complete_join_phase(groups: ShardGroups, group: ClassicGroup, builder: OutcomeBuilder) -> None:
    """End the join phase if all members have joined. An initial rebalance waits for its delay."""
    if group.state is PREPARING_REBALANCE and group.initial_join is None and group.has_all_members_joined:
        complete_join_phase(groups, group, builder)


def fire_join(groups: ShardGroups, group: ClassicGroup, key: GroupTimerKey, builder: OutcomeBuilder) -> None:
    """End the join phase at its deadline, or extend the wait of an initial rebalance."""
    if group.join_deadline_ms is None:
        return
    if builder.now.monotonic_ms < group.join_deadline_ms:
        builder.arm_timer(key, group.join_deadline_ms)
        return
    assert group.state is PREPARING_REBALANCE, group.state
    group.join_deadline_ms = None
    initial = group.initial_join
    if initial is not None and group.new_member_added and initial.remaining_ms:
        group.new_member_added = False
        delay_ms = min(groups.config.group_initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial_join = InitialJoin(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
        builder.add_event(RebalanceDelayed(group.group_id, group.generation_id, delay_ms))
        _arm_join_timer(group, delay_ms, builder)
    else:
        complete_join_phase(groups, group, builder)


def complete_join_phase(groups: ShardGroups, group: ClassicGroup, builder: OutcomeBuilder) -> None:
    """Begin the next generation with the members that have joined, and answer them."""
    assert group.state is PREPARING_REBALANCE, group.state
    if group.join_deadline_ms is not None:
        group.join_deadline_ms = None
        builder.cancel_timer(_join_key(group))
    old_leader_id = group.leader_id
    _evict_absent(group, builder)
    if group.members and not _elect_leader(group):
        builder.add_event(RebalanceStalled(group.group_id, group.generation_id, len(group.members)))
        _arm_join_timer(group, max(group.rebalance_timeout_ms, STALLED_WAIT_MIN_MS), builder)
        return
    if group.leader_id is not None and old_leader_id is not None and old_leader_id != group.leader_id:
        name = group.members[group.leader_id].name
        builder.add_event(LeaderReplaced(group.group_id, group.generation_id, name, old_leader_id))
    assert group.rebalance is not None, group.group_id
    group.rebalance.end_join_phase(builder.now.monotonic_ms)
    state = COMPLETING_REBALANCE if group.members else EMPTY
    readable = group.begin_generation(builder.now.wall_ms, state, groups.config.message_max_bytes)
    if state is EMPTY:
        builder.add_event(GroupEmptied(group.group_id, group.generation_id))
        builder.write_fact(group_metadata_record(group))
        complete_rebalance(group, builder)
        return
    assert group.leader_id in group.members, group.leader_id
    assert group.protocol_name is not None, group.group_id
    builder.add_event(
        GroupStabilized(
            group.group_id, group.generation_id, len(group.members), group.leader_id, group.protocol_name
        )
    )
    if not readable:
        builder.add_event(SubscriptionUnreadable(group.group_id, group.generation_id, group.protocol_name))
    for member in group.members.values():
        _enter_generation(group, member, builder)
    group.sync_deadline_ms = builder.now.monotonic_ms + group.rebalance_timeout_ms
    builder.arm_timer(_sync_key(group), group.sync_deadline_ms)
    assert group.awaiting_join == 0, group.awaiting_join


def fire_sync(groups: ShardGroups, group: ClassicGroup, key: GroupTimerKey, builder: OutcomeBuilder) -> None:
    """Remove the members without a SyncGroup at the deadline of the sync phase, and rebalance."""
    if group.sync_deadline_ms is None:
        return
    if builder.now.monotonic_ms < group.sync_deadline_ms:
        builder.arm_timer(key, group.sync_deadline_ms)
        return
    assert group.state in (COMPLETING_REBALANCE, STABLE), group.state
    assert group.pending_sync, group.group_id
    group.sync_deadline_ms = None
    late = tuple(group.pending_sync)
    members = [group.members[member_id] for member_id in late]
    _remove_youngest_first(group, members, DepartureCause.NOT_SYNCED, builder)
    _add_evicted_event(group, members, "sync", builder)
    reason = f"Removing [{', '.join(late)}] on pending sync request expiration"
    prepare_rebalance(groups, group, Trigger(RebalanceCause.SYNC_EXPIRED, reason, members[0].name), builder)


def complete_member_sync(group: ClassicGroup, member: ClassicMember, builder: OutcomeBuilder) -> None:
    """Record the SyncGroup of a member. The last one ends the wait for SyncGroups."""
    group.pending_sync.pop(member.member_id, None)
    if not group.pending_sync:
        cancel_sync_timer(group, builder)


def cancel_sync_timer(group: ClassicGroup, builder: OutcomeBuilder) -> None:
    """Cancel the deadline of the sync phase, once no SyncGroup is pending."""
    assert not group.pending_sync, group.pending_sync
    if group.sync_deadline_ms is not None:
        group.sync_deadline_ms = None
        builder.cancel_timer(_sync_key(group))


def _evict_absent(group: ClassicGroup, builder: OutcomeBuilder) -> None:
    if group.awaiting_join == len(group.members):
        return
    absent = [m for m in group.members.values() if not m.is_awaiting_join and not m.is_static]
    _remove_youngest_first(group, absent, DepartureCause.NOT_REJOINED, builder)
    if absent:
        _add_evicted_event(group, absent, "join", builder)


def _add_evicted_event(
    group: ClassicGroup, members: list[ClassicMember], phase: str, builder: OutcomeBuilder
) -> None:
    builder.add_event(
        MembersEvicted(
            group.group_id,
            group.generation_id,
            tuple([member.name for member in members]),
            phase,
            tuple([member.silent_ms(builder.now.monotonic_ms) for member in members]),
            tuple([member.connection_id for member in members]),
        )
    )


def _remove_youngest_first(
    group: ClassicGroup, members: list[ClassicMember], cause: DepartureCause, builder: OutcomeBuilder
) -> None:
    # Starts with the youngest, so that the successor of a removed leader is not removed next.
    for member in reversed(members):
        remove_member(group, member, cause, builder)


def _elect_leader(group: ClassicGroup) -> bool:
    """Elect the leader among the members that have joined: the current leader if possible, else the oldest member.
    Return whether one was found.
    """
    assert group.leader_id is not None, group.group_id
    if group.members[group.leader_id].is_awaiting_join:
        return True
    present = (member.member_id for member in group.members.values() if member.is_awaiting_join)
    elected = next(present, None)
    if elected is not None:
        group.leader_id = elected
    return elected is not None


def _enter_generation(group: ClassicGroup, member: ClassicMember, builder: OutcomeBuilder) -> None:
    assert group.leader_id is not None, group.group_id
    waiter = group.unpark_join(member)
    if waiter is not None:
        leads = member.member_id == group.leader_id
        builder.reply(
            waiter, build_join_response(group, member.member_id, with_members=leads, leader=group.leader_id)
        )
    group.restart_session(member, builder)
    member.is_new = False
    group.pending_sync[member.member_id] = None


def _arm_join_timer(group: ClassicGroup, delay_ms: int, builder: OutcomeBuilder) -> None:
    assert delay_ms >= 0, delay_ms
    group.join_deadline_ms = builder.now.monotonic_ms + delay_ms
    builder.arm_timer(_join_key(group), group.join_deadline_ms)


def _join_key(group: ClassicGroup) -> GroupTimerKey:
    return GroupTimerKey(GroupTimerKind.JOIN, group.group_id)


def _sync_key(group: ClassicGroup) -> GroupTimerKey:
    return GroupTimerKey(GroupTimerKind.SYNC, group.group_id)


def open_rebalance(
    group: ClassicGroup, old_state: ClassicGroupState, trigger: Trigger, builder: OutcomeBuilder
) -> None:
    """Record the start of a rebalance, or its restart from the sync phase."""
    now_ms = builder.now.monotonic_ms
    if old_state is COMPLETING_REBALANCE:
        assert group.rebalance is not None, group.group_id
        group.rebalance.restart(trigger, now_ms)
    else:
        group.rebalance = OpenRebalance(trigger, old_state, now_ms)
        builder.arm_timer(_report_key(group), group.rebalance.report_deadline_ms)
    members = tuple([member.name for member in group.members.values()])
    builder.add_event(
        RebalanceStarted(
            group.group_id, group.generation_id, old_state.value, trigger, members, member=trigger.actor
        )
    )


def complete_rebalance(group: ClassicGroup, builder: OutcomeBuilder) -> None:
    """Report the result of a rebalance, after which the group is Stable or Empty."""
    rebalance, now_ms = group.rebalance, builder.now.monotonic_ms
    assert rebalance is not None, group.group_id
    assert group.state in (STABLE, EMPTY), group.state
    name = group.protocol_name or ""
    members = tuple(
        [
            MemberAssignment(
                member.name, member.settled_assignment, member.assignment, member.metadata_for(name)
            )
            for member in group.members.values()
        ]
    )
    topics = None if group.subscribed_topics is None else tuple(sorted(group.subscribed_topics))
    last_joined = None if rebalance.last_joined is None else rebalance.last_joined.name
    builder.add_event(
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
        _schedule_report(group, rebalance, 0, builder)
    else:
        close_rebalance(group, builder)


def close_rebalance(group: ClassicGroup, builder: OutcomeBuilder) -> None:
    """End the rebalance, once no SyncGroup is pending."""
    assert not group.pending_sync, group.pending_sync
    if group.rebalance is not None:
        group.rebalance = None
        builder.cancel_timer(_report_key(group))


def fire_report(
    groups: ShardGroups, group: ClassicGroup, key: GroupTimerKey, builder: OutcomeBuilder
) -> None:
    """Report the awaited members, unless the phase has reached its deadline."""
    if group.rebalance is None:
        return
    rebalance, now_ms = group.rebalance, builder.now.monotonic_ms
    if now_ms < rebalance.report_deadline_ms:
        builder.arm_timer(key, rebalance.report_deadline_ms)
        return
    is_stable = group.state is STABLE
    waited_ms = now_ms - (rebalance.phase_started_ms if is_stable else rebalance.started_ms)
    _schedule_report(group, rebalance, waited_ms, builder)
    left_ms = group.phase_left_ms(now_ms)
    if not left_ms:
        return
    builder.add_event(
        RebalanceWaits(
            group.group_id,
            group.generation_id,
            group.state.value,
            None if is_stable else rebalance.trigger,
            rebalance.attempts,
            waited_ms,
            left_ms,
            len(group.members),
            group.find_awaited_members(now_ms),
            group.initial_join is not None,
        )
    )


def _schedule_report(
    group: ClassicGroup, rebalance: OpenRebalance, waited_ms: int, builder: OutcomeBuilder
) -> None:
    interval_ms = min(max(waited_ms, FIRST_REPORT_MS), MAX_REPORT_INTERVAL_MS)
    rebalance.report_deadline_ms = builder.now.monotonic_ms + interval_ms
    builder.arm_timer(_report_key(group), rebalance.report_deadline_ms)


def _report_key(group: ClassicGroup) -> GroupTimerKey:
    return GroupTimerKey(GroupTimerKind.REPORT, group.group_id)


# Parked requests


def park_join(group: ClassicGroup, member: ClassicMember, context: Context, builder: OutcomeBuilder) -> None:
    """Withhold the response to a member's JoinGroup until the join phase ends."""
    old_version = member.join_version
    superseded = group.park_join(member, context.waiter, context.api_version)
    if group.rebalance is not None:
        group.rebalance.record_join(member, builder.now.monotonic_ms)
    if superseded is not None:
        # Kafka never answers it, which blocks its connection. This response lets the client join again.
        builder.reply(
            superseded, build_join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, old_version)
        )


def park_sync(member: ClassicMember, context: Context, builder: OutcomeBuilder) -> None:
    """Withhold the response to a member's SyncGroup until the leader sends the assignment."""
    if member.sync_waiter is not None:
        # Kafka never answers the earlier one, as with JoinGroup.
        builder.reply(member.sync_waiter, build_sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_waiter = context.waiter


def answer_syncs(group: ClassicGroup, error: ErrorCode, builder: OutcomeBuilder) -> None:
    """Answer every parked SyncGroup: with NONE and the assignment of its member, or with an error. Restarts the
    sessions of these members.
    """
    for member in group.members.values():
        if member.sync_waiter is not None:
            is_given = error is ErrorCode.NONE
            response = build_sync_response(group, member) if is_given else build_sync_error(error)
            builder.reply(member.sync_waiter, response)
            member.sync_waiter = None
            if is_given:
                builder.add_event(AssignmentFetched(group.group_id, group.generation_id, member.name))
            elif error is ErrorCode.REBALANCE_IN_PROGRESS:
                builder.add_event(
                    MemberToldToRejoin(group.group_id, group.generation_id, member.name, "sync-group")
                )
            group.restart_session(member, builder)


def remove_member(
    group: ClassicGroup, member: ClassicMember, cause: DepartureCause, builder: OutcomeBuilder
) -> None:
    """Remove a member. Its parked requests get UNKNOWN_MEMBER_ID without a member id, so that a client that is
    still alive joins as a new member."""
    group.answer_parked(member, ErrorCode.UNKNOWN_MEMBER_ID, "", builder)
    group.cancel_session(member, builder)
    group.remove_member(member)
    if member.settled_assignment is not None:
        group.departed.append(Departure(member.name, cause, member.settled_assignment))
    assert member.member_id not in group.members, member.member_id


def build_join_response(
    group: ClassicGroup, member_id: str, *, with_members: bool, leader: str, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Build the response to a member of the current generation. `with_members` lists all members, for the leader;
    `skip_assignment` makes a leader skip the assignment (KIP-814).
    """
    assert group.state not in (PREPARING_REBALANCE, DEAD), group.state
    name = group.protocol_name
    assert name is not None, group.group_id
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=name,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata_for(name),
            )
            for member in (group.members.values() if with_members else ())
        ],
    )


def build_sync_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """Build the response with the assignment of a member."""
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
