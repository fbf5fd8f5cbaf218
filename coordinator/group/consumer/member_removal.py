"""Removal of members: they leave, their session ends, or they do not revoke partitions in time.

Source: Kafka's GroupMetadataManager, consumerGroupFenceMembers and consumerGroupFenceMemberOperation.
"""

from collections.abc import Sequence
from typing import Final

from coordinator.core.outcome import Context, Fact, OutcomeBuilder
from coordinator.group.consumer.consumer_group import (
    ConsumerGroup,
    end_session,
    join_key,
    rebalance_key,
    session_key,
    sync_key,
)
from coordinator.group.consumer.consumer_member import (
    AssignedPartitions,
    ConsumerMember,
    assignment_epoch_record,
    current_tombstone,
    epoch_record,
    member_tombstone,
    regex_tombstone,
    target_tombstone,
)
from coordinator.group.consumer.group_conversion import downgrade_group, may_downgrade
from coordinator.group.consumer.group_subscription import GroupSubscription
from coordinator.group.consumer.heartbeat_validation import GroupApiError
from coordinator.group.event_details import RebalanceCause, Trigger
from coordinator.group.group_event_types import (
    ConsumerMemberFenced,
    EpochBumped,
    EpochCause,
    FenceCause,
    MemberTarget,
)
from coordinator.group.group_requests import CommandResult, ExpireMember, GroupTimerKey
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode

REBALANCE_CAUSES: Final = {
    EpochCause.MEMBER_LEFT: RebalanceCause.MEMBER_LEFT,
    EpochCause.MEMBER_FENCED: RebalanceCause.SESSION_EXPIRED,
}
"""The rebalance cause of a classic group for each cause of an epoch bump."""


def remove_members(
    groups: ShardGroups,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    cause: EpochCause,
    builder: OutcomeBuilder,
) -> None:
    """Remove members from a group and bump its epoch.

    After the removal of the last member, the next target may be computed at once. A group with only members of the
    classic protocol left becomes a classic group, if the migration policy allows it.

    Raises:
        GroupApiError: the conversion failed.
    """
    group_id = group.group_id
    gone = {member.member_id for member in members}
    if may_downgrade(groups, group, gone):
        sentence = f"Downgrade group {group_id} from consumer to classic for member leaving."
        downgrade_group(
            groups, group, gone, Trigger(REBALANCE_CAUSES[cause], sentence, members[0].name), builder
        )
    else:
        _remove_from_group(groups, group, members, cause, builder)


def _remove_from_group(
    groups: ShardGroups,
    group: ConsumerGroup,
    members: Sequence[ConsumerMember],
    cause: EpochCause,
    builder: OutcomeBuilder,
) -> None:
    durable, group_id = group.durable, group.group_id
    subscription = GroupSubscription.without_members(durable, members)
    facts: list[Fact] = []
    for member in members:
        facts.append(current_tombstone(group_id, member.member_id))
        facts.append(target_tombstone(group_id, member.member_id))
        facts.append(member_tombstone(group_id, member.member_id))
    regexes = dict.fromkeys(member.subscribed_topic_regex for member in members)
    facts += [
        regex_tombstone(group_id, regex)
        for regex in regexes
        if regex and regex not in subscription.regex_members
    ]
    epoch, metadata_hash = durable.epoch + 1, subscription.compute_metadata_hash(groups.topics)
    facts.append(epoch_record(group_id, epoch, metadata_hash))
    if not subscription.members:
        facts.append(assignment_epoch_record(group_id, epoch, 0))
    state = group.state_name
    gone = tuple([MemberTarget(member.name, durable.find_target(member.member_id)) for member in members])
    for fact in facts:
        builder.write_fact(fact)
    for member in members:
        end_session(group, member.member_id, builder)
    builder.add_event(
        EpochBumped(
            group_id,
            epoch,
            member=members[0].name,
            cause=cause,
            metadata_hash=metadata_hash,
            state=state,
            members=subscription.members,
            gone=gone,
        )
    )


def fence_member(
    groups: ShardGroups, group: ConsumerGroup, member_id: str, cause: FenceCause, builder: OutcomeBuilder
) -> None:
    """Remove a member that missed a deadline."""
    member, session = group.durable.members[member_id], group.sessions[member_id]
    now_ms = builder.now.monotonic_ms
    is_silent = cause in (FenceCause.SESSION_EXPIRED, FenceCause.ASKED)
    timeout_ms = session.timeout_ms if is_silent else session.rebalance_timeout_ms
    builder.add_event(
        ConsumerMemberFenced(
            group.group_id,
            group.durable.epoch,
            member.name,
            cause=cause,
            silent_ms=max(0, now_ms - session.heard_ms),
            timeout_ms=timeout_ms,
            partitions=count_partitions(member.assigned) + count_partitions(member.pending),
            connection_id=session.connection_id,
        )
    )
    try:
        remove_members(groups, group, [member], EpochCause.MEMBER_FENCED, builder)
    except GroupApiError:
        # The failure of the conversion has no recipient; the other members stay as they are.
        _remove_from_group(groups, group, [member], EpochCause.MEMBER_FENCED, builder)


def expire_consumer_member(
    groups: ShardGroups,
    group: ConsumerGroup,
    request: ExpireMember,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    """Answer an ExpireMember with CommandResult: UNKNOWN_MEMBER_ID for an unknown member."""
    error = ErrorCode.UNKNOWN_MEMBER_ID
    if request.member_id in group.sessions:
        error = ErrorCode.NONE
        fence_member(groups, group, request.member_id, FenceCause.ASKED, builder)
    builder.reply(context.waiter, CommandResult(error))


def fire_session(
    groups: ShardGroups, group: ConsumerGroup, key: GroupTimerKey, builder: OutcomeBuilder
) -> None:
    """Fence a member when the timer of its session fires, unless a request has extended the session."""
    session = group.sessions.get(key.member_id)
    if group.is_dead or session is None:
        return
    if builder.now.monotonic_ms < session.deadline_ms:
        session.timer_ms = session.deadline_ms
        builder.arm_timer(session_key(group, key.member_id), session.deadline_ms)
    else:
        session.timer_ms = None
        fence_member(groups, group, key.member_id, FenceCause.SESSION_EXPIRED, builder)


def fire_rebalance(
    groups: ShardGroups, group: ConsumerGroup, key: GroupTimerKey, builder: OutcomeBuilder
) -> None:
    """Fence a member when the timer for its revocation fires, unless it has moved on."""
    session = group.sessions.get(key.member_id)
    if group.is_dead or session is None or session.rebalance_ms is None:
        return
    if builder.now.monotonic_ms < session.rebalance_ms:
        builder.arm_timer(rebalance_key(group, key.member_id), session.rebalance_ms)
        return
    session.rebalance_ms = None
    if group.durable.members[key.member_id].member_epoch == session.rebalance_epoch:
        fence_member(groups, group, key.member_id, FenceCause.NOT_REVOKED, builder)


def fire_classic_join(
    groups: ShardGroups, group: ConsumerGroup, key: GroupTimerKey, builder: OutcomeBuilder
) -> None:
    """Fence a member of the classic protocol that did not join again in time."""
    session = group.sessions.get(key.member_id)
    if session is not None and session.join_ms is not None:
        if builder.now.monotonic_ms < session.join_ms:
            builder.arm_timer(join_key(group, key.member_id), session.join_ms)
        else:
            session.join_ms = None
            fence_member(groups, group, key.member_id, FenceCause.NOT_REJOINED, builder)


def fire_classic_sync(
    groups: ShardGroups, group: ConsumerGroup, key: GroupTimerKey, builder: OutcomeBuilder
) -> None:
    """Fence a member of the classic protocol that did not send SyncGroup in time."""
    session = group.sessions.get(key.member_id)
    if session is not None and session.sync_ms is not None:
        if builder.now.monotonic_ms < session.sync_ms:
            builder.arm_timer(sync_key(group, key.member_id), session.sync_ms)
        else:
            session.sync_ms = None
            fence_member(groups, group, key.member_id, FenceCause.NOT_SYNCED, builder)


def count_partitions(assigned: AssignedPartitions) -> int:
    """Return the number of partitions."""
    return sum(map(len, assigned.values()))
