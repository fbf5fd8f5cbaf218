"""The update that a heartbeat or a JoinGroup computes before it writes anything: epoch bump, target
assignment, the member's next step.
"""

from msgspec import Struct, field

from coordinator.core.outcome import Fact, Now, OutcomeBuilder
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.consumer.consumer_group import ConsumerGroup, end_session, start_classic_sessions
from coordinator.group.consumer.consumer_member import (
    ConsumerMember,
    TargetPartitions,
    assignment_epoch_record,
    current_record,
    current_tombstone,
    epoch_record,
    member_record,
    member_tombstone,
    partition_metadata_tombstone,
    target_record,
    target_tombstone,
)
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup, compute_group_state
from coordinator.group.consumer.group_conversion import end_classic_group
from coordinator.group.consumer.group_subscription import (
    GroupSubscription,
    changes_preferred_assignor,
    find_preferred_assignor_after,
)
from coordinator.group.consumer.heartbeat_sender import HeartbeatSender
from coordinator.group.consumer.heartbeat_validation import GroupApiError
from coordinator.group.consumer.member_removal import count_partitions
from coordinator.group.consumer.reconciliation import OwnedPartitions, ReconciliationGoal, reconcile_member
from coordinator.group.consumer.regex_resolution import RegexChange
from coordinator.group.consumer.target_assignment import (
    ComputedTarget,
    MemberChange,
    TargetInput,
    TargetNotReady,
    TargetWork,
    build_small_spec,
    collect_target_input,
    compute_target,
    count_moved_partitions,
    find_subscribed_names,
    is_computation_due,
    is_small,
)
from coordinator.group.group_event_types import (
    ConsumerMemberJoined,
    ConsumerMemberReplaced,
    EpochBumped,
    EpochCause,
    GroupConverted,
    GroupEvent,
    MemberReconciled,
    MemberTarget,
    TargetComputed,
    TopicChange,
)
from coordinator.group.group_record_codec import compute_batch_size, compute_target_size
from coordinator.group.group_types import GroupType
from coordinator.group.modern.partition_assignors import Assignment, GroupSpec
from coordinator.group.shard_groups import ShardGroups
from protocol.error_codes import ErrorCode


class PendingUpdate(Struct):
    """The result of a heartbeat or a JoinGroup before it is written.

    `facts` and `events` are to be written. `epoch` and `metadata_hash` are the group's after the update.
    `is_homogeneous`: all members have the same subscription; None if this was not computed. `topics_seen`: the
    topics of the group were checked for changes.
    """

    group: DurableConsumerGroup
    epoch: int
    metadata_hash: int
    is_homogeneous: bool | None = None
    topics_seen: bool = False
    facts: list[Fact] = field(default_factory=list)
    events: list[GroupEvent] = field(default_factory=list)


def replace_static_consumer_member(update: PendingUpdate, sender: HeartbeatSender) -> None:
    """Move the state of a replaced static member to the sender, if the sender replaces one."""
    group_id, member, known = update.group.group_id, sender.member, sender.known
    if known is not None and sender.replaces_static_member:
        update.facts += [
            current_tombstone(group_id, known.member_id),
            target_tombstone(group_id, known.member_id),
            member_tombstone(group_id, known.member_id),
            member_record(group_id, member),
            target_record(group_id, member.member_id, update.group.find_target(known.member_id)),
            current_record(group_id, member),
        ]
        update.events.append(
            ConsumerMemberReplaced(group_id, update.epoch, member.name, old_member_id=known.member_id)
        )


def bump_group_epoch(
    groups: ShardGroups,
    update: PendingUpdate,
    sender: HeartbeatSender,
    updated: ConsumerMember,
    regex: RegexChange,
    now: Now,
) -> None:
    """Bump the group epoch if the subscription, the preferred assignor or the subscribed topics have changed."""
    group, known = update.group, sender.known
    default_assignor = groups.consumer_config.assignors[0]
    names_changed = updated.subscribed_topic_names != sender.member.subscribed_topic_names
    # A JoinGroup names no assignor, and Kafka then does not count the preferences.
    assignor_changed = not updated.uses_classic_protocol and changes_preferred_assignor(
        group, known, updated, default_assignor
    )
    is_bump_due = names_changed or regex.is_resolved or assignor_changed
    served = groups.find_typed_group(ConsumerGroup, group.group_id)
    if not is_bump_due and served is not None and now.monotonic_ms < served.metadata_deadline_ms:
        return
    subscription = GroupSubscription.with_member(group, known, updated)
    metadata_hash = subscription.compute_metadata_hash(groups.topics)
    update.is_homogeneous = subscription.is_homogeneous
    update.topics_seen = True
    if is_bump_due or metadata_hash != group.metadata_hash:
        update.epoch, update.metadata_hash = group.epoch + 1, metadata_hash
        update.facts.append(epoch_record(group.group_id, update.epoch, metadata_hash))
        cause, changes = EpochCause.TOPICS_CHANGED, dict[str, TopicChange]()
        if known is None:
            cause = EpochCause.MEMBER_JOINED
        elif names_changed or regex.is_resolved:
            cause = EpochCause.SUBSCRIPTION_CHANGED
        elif assignor_changed:
            cause = EpochCause.ASSIGNOR_CHANGED
        elif served is not None:
            changes = served.topic_changes
        kinds = set(changes.values())
        update.events.append(
            EpochBumped(
                group.group_id,
                update.epoch,
                # The member that notices a change of topics did not cause it.
                member=None if cause is EpochCause.TOPICS_CHANGED else updated.name,
                cause=cause,
                metadata_hash=metadata_hash,
                state=compute_group_state(group).value,
                members=subscription.members,
                topics=tuple(changes),
                change=kinds.pop() if len(kinds) == 1 else None,
            )
        )
    if group.partition_metadata is not None:
        update.facts.append(partition_metadata_tombstone(group.group_id))


def find_or_compute_target(
    groups: ShardGroups,
    update: PendingUpdate,
    sender: HeartbeatSender,
    updated: ConsumerMember,
    computed: ComputedTarget | None,
    now: Now,
) -> tuple[int, TargetPartitions]:
    """Return the epoch and the target assignment for the member; compute a new target if it is due."""
    group, known = update.group, sender.known
    last_target = group.find_target(updated.member_id if known is None else known.member_id)
    interval_ms = groups.resolve_consumer_times(group.group_id).assignment_interval_ms
    is_due = group.assignment_epoch < update.epoch
    if not is_due or not is_computation_due(group.assignment_timestamp_ms, interval_ms, now.wall_ms):
        return group.assignment_epoch, last_target
    replaced = None if known is None or known.member_id == updated.member_id else known.member_id
    change = MemberChange(known, updated, replaced)
    is_homogeneous = update.is_homogeneous
    if is_homogeneous is None:
        is_homogeneous = GroupSubscription(group).is_homogeneous
    assignors = groups.consumer_config.assignors
    assignor = find_preferred_assignor_after(group, known, updated, assignors[0])
    if assignor not in assignors:
        # Members may name an assignor of a broker with other properties. Kafka fails to find it.
        raise GroupApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    spec = build_small_spec(collect_target_input(group, change, is_homogeneous, groups.topics))
    work = TargetWork(group.group_id, assignor, spec)
    assignment = _find_assignment(work, computed, update.epoch)
    if computed is not None:
        _throw_if_targets_are_too_large(groups, group, assignment)
    moved = 0
    targets: list[MemberTarget] = []
    for member_id, before in spec.members.items():
        target = assignment[member_id]
        if target is not before.assigned:
            moved += count_moved_partitions(target, before.assigned)
        member = updated if member_id == updated.member_id else group.members[member_id]
        targets.append(MemberTarget(member.name, before.assigned, target))
        # A successor has no target of its own yet, so its record is written again.
        if target != group.targets.get(member_id):
            update.facts.append(target_record(group.group_id, member_id, target))
    update.facts.append(assignment_epoch_record(group.group_id, update.epoch, now.wall_ms))
    update.events.append(
        TargetComputed(
            group.group_id,
            update.epoch,
            assignor=assignor,
            members=len(spec.members),
            partitions=(
                sum(spec.partitions.values())
                if isinstance(spec, GroupSpec)
                else GroupSubscription.with_member(group, known, updated).count_partitions(groups.topics)
            ),
            moved=moved,
            targets=tuple(targets),
        )
    )
    return update.epoch, assignment[updated.member_id]


def _throw_if_targets_are_too_large(
    groups: ShardGroups, group: DurableConsumerGroup, assignment: Assignment
) -> None:
    """Refuse targets that Kafka could not write, before building millions of partitions.

    Raises:
        GroupApiError: UNKNOWN_SERVER_ERROR; the new targets alone exceed a batch.
    """
    size = sum(
        compute_target_size(map(len, target.values()))
        for member_id, target in assignment.items()
        if target != group.targets.get(member_id)
    )
    if size > groups.config.message_max_bytes:
        raise GroupApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def _find_assignment(work: TargetWork, computed: ComputedTarget | None, epoch: int) -> Assignment:
    if computed is not None and computed.matches_work(work):
        if computed.assignment is None:
            message = f"Failed to compute a new target assignment for epoch {epoch}: {computed.error}"
            raise GroupApiError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        return computed.assignment
    if isinstance(work.spec, TargetInput) or not is_small(work.spec):
        raise TargetNotReady(work)
    return compute_target(work)


def reconcile_sender(
    groups: ShardGroups,
    update: PendingUpdate,
    sender: HeartbeatSender,
    updated: ConsumerMember,
    regex: RegexChange,
    target_epoch: int,
    target: TargetPartitions,
    owned: OwnedPartitions | None,
) -> ConsumerMember:
    """Return the member after its next step, and add the record of that step."""
    group, image = update.group, groups.topics
    has_changed = updated.subscribed_topic_names != sender.member.subscribed_topic_names or regex.is_changed
    if not has_changed and updated.is_reconciled_to(target_epoch):
        return updated
    names = find_subscribed_names(group, updated)

    def is_subscribed(topic_id: bytes) -> bool:
        topic = image.by_id.get(topic_id)
        return topic is not None and topic.name in names

    goal = ReconciliationGoal(
        target_epoch, target, is_subscribed, group.find_holders, bool(names), has_changed
    )
    final = reconcile_member(updated, goal, owned)
    if final == updated:
        return updated
    update.facts.append(current_record(group.group_id, final))
    update.events.append(
        MemberReconciled(
            group.group_id,
            update.epoch,
            final.name,
            member_epoch=final.member_epoch,
            state=final.state.name,
            assigned=count_partitions(final.assigned),
            pending=count_partitions(final.pending),
            missing=sum(
                len(set(partitions) - final.assigned.get(topic_id, {}).keys())
                for topic_id, partitions in target.items()
                if is_subscribed(topic_id)
            ),
        )
    )
    return final


def throw_if_too_large(groups: ShardGroups, update: PendingUpdate) -> None:
    """Check that the update fits into one batch, as Kafka requires.

    Raises:
        GroupApiError: UNKNOWN_SERVER_ERROR.
    """
    if update.facts and compute_batch_size(update.facts) > groups.config.message_max_bytes:
        raise GroupApiError(ErrorCode.UNKNOWN_SERVER_ERROR, None)


def write_update(
    groups: ShardGroups,
    update: PendingUpdate,
    sender: HeartbeatSender,
    final: ConsumerMember,
    builder: OutcomeBuilder,
) -> ConsumerGroup:
    """Write the facts and the events of an update, which can no longer fail, and return the group. `final` is the
    member after its next step.
    """
    group_id = update.group.group_id
    classic = groups.find_typed_group(ClassicGroup, group_id)
    if classic is not None:
        builder.add_event(
            GroupConverted(
                group_id,
                update.epoch,
                from_type=GroupType.CLASSIC,
                to_type=GroupType.CONSUMER,
                members=len(classic.members),
            )
        )
        end_classic_group(groups, classic, builder)
    if sender.known is None:
        is_classic = final.uses_classic_protocol
        builder.add_event(
            ConsumerMemberJoined(group_id, update.group.epoch, final.name, uses_classic_protocol=is_classic)
        )
    for fact in update.facts:
        builder.write_fact(fact)
    for event in update.events:
        builder.add_event(event)
    group = groups.find_typed_group(ConsumerGroup, group_id) or groups.create_consumer_group(group_id)
    if classic is not None:
        start_classic_sessions(group, builder)
    if update.topics_seen:
        group.mark_topics_checked(builder.now.monotonic_ms)
    if sender.known is not None and sender.replaces_static_member:
        end_session(group, sender.known.member_id, builder)
    return group
