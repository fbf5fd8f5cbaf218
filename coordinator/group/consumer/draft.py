"""What a request of a member comes to, computed beside what the log says: its place, the group's epoch, the target,
the member's next step. Nothing is written before all of it is known.

A ConsumerGroupHeartbeat goes this way, and so does a JoinGroup of a member of the classic protocol.

Source: Kafka's GroupMetadataManager, updateSubscriptionMetadata, maybeUpdateTargetAssignment, maybeReconcile,
replaceMember.
"""

from dataclasses import dataclass, field
from typing import Final

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.events import (
    ConsumerMemberJoined,
    ConsumerMemberReplaced,
    EpochBumped,
    EpochCause,
    MemberReconciled,
    TargetComputed,
)
from coordinator.group.consumer.fence import partition_count
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.member import (
    ConsumerMember,
    Target,
)
from coordinator.group.consumer.reconcile import Goal, Owned, reconciled
from coordinator.group.consumer.record import (
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
from coordinator.group.consumer.refusal import Refusal
from coordinator.group.consumer.regular_expressions import RegexChange
from coordinator.group.consumer.session import end_session, start_classic_sessions
from coordinator.group.consumer.subscription import Subscription, assignors_with, preferred_assignor
from coordinator.group.consumer.target import (
    AwaitsTarget,
    Change,
    Computed,
    TargetWork,
    compute_target,
    group_spec,
    is_small,
    may_compute,
    moved_partitions,
    subscribed_names,
)
from coordinator.group.consumer.upgrade import end_classic
from coordinator.group.consumer.who import Who
from coordinator.group.events import Event
from coordinator.group.groups import Groups
from coordinator.group.modern.assignors.assignor import Assignment
from coordinator.machine.outcome import Fact, Now
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode

METADATA_LASTS_MS: Final = 2**31 - 1


@dataclass(slots=True)
class Draft:
    """What a heartbeat comes to, until it is written. `epoch` is the group's; `topics_seen` says that its topics
    were looked at."""

    group: DurableConsumerGroup
    epoch: int
    metadata_hash: int
    is_homogeneous: bool | None = None
    topics_seen: bool = False
    facts: list[Fact] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def introduce(draft: Draft, who: Who) -> None:
    """A new member, or one in a static member's place."""
    group_id, member, known = draft.group.group_id, who.member, who.known
    if known is not None and who.replaces:
        draft.facts += [
            current_tombstone(group_id, known.member_id),
            target_tombstone(group_id, known.member_id),
            member_tombstone(group_id, known.member_id),
            member_record(group_id, member),
            target_record(group_id, member.member_id, draft.group.target_of(known.member_id)),
            current_record(group_id, member),
        ]
        draft.events.append(
            ConsumerMemberReplaced(group_id, draft.epoch, member.name, old_member_id=known.member_id)
        )


def bump_epoch(
    groups: Groups, draft: Draft, who: Who, updated: ConsumerMember, regex: RegexChange, now: Now
) -> None:
    """Give the group a new epoch if its members subscribe to something else, prefer another assignor, or if their
    topics are not what they were."""
    group, known = draft.group, who.known
    otherwise = groups.consumer_config.assignors[0]
    names_changed = updated.subscribed_topic_names != who.member.subscribed_topic_names
    before = preferred_assignor(group.assignors, otherwise)
    assignor_changed = before != preferred_assignor(assignors_with(group, known, updated), otherwise)
    wanted = names_changed or regex.is_resolved or assignor_changed
    soft = groups.consumers.get(group.group_id)
    if not wanted and soft is not None and now.wall_ms < soft.metadata_deadline_ms:
        return
    subscription = Subscription.with_member(group, known, updated)
    metadata_hash = subscription.metadata_hash(groups.topics)
    draft.is_homogeneous = subscription.is_homogeneous
    draft.topics_seen = True
    if wanted or metadata_hash != group.metadata_hash:
        draft.epoch, draft.metadata_hash = group.epoch + 1, metadata_hash
        draft.facts.append(epoch_record(group.group_id, draft.epoch, metadata_hash))
        cause = EpochCause.TOPICS_CHANGED
        if known is None:
            cause = EpochCause.MEMBER_JOINED
        elif names_changed or regex.is_resolved:
            cause = EpochCause.SUBSCRIPTION_CHANGED
        elif assignor_changed:
            cause = EpochCause.ASSIGNOR_CHANGED
        draft.events.append(
            EpochBumped(
                group.group_id, draft.epoch, member=updated.name, cause=cause, metadata_hash=metadata_hash
            )
        )
    if group.partition_metadata is not None:
        draft.facts.append(partition_metadata_tombstone(group.group_id))


def take_target(
    groups: Groups,
    draft: Draft,
    who: Who,
    updated: ConsumerMember,
    computed: Computed | None,
    now: Now,
) -> tuple[int, Target]:
    """The target that the member is to go to, with its epoch: a new one where that is due."""
    group, known = draft.group, who.known
    last = group.target_of(updated.member_id if known is None else known.member_id)
    interval_ms = groups.consumer_times(group.group_id).assignment_interval_ms
    is_due = group.assignment_epoch < draft.epoch
    if not is_due or not may_compute(group.assignment_timestamp_ms, interval_ms, now.wall_ms):
        return group.assignment_epoch, last
    change = Change(known, updated, known.member_id if known is not None and who.replaces else None)
    is_homogeneous = draft.is_homogeneous
    if is_homogeneous is None:
        is_homogeneous = Subscription(group).is_homogeneous
    assignor = preferred_assignor(assignors_with(group, known, updated), groups.consumer_config.assignors[0])
    work = TargetWork(
        group.group_id,
        assignor,
        group_spec(group, change, is_homogeneous, groups.topics),
        group.changes,
        groups.topics,
    )
    assignment = _computed(work, computed, draft.epoch)
    moved = 0
    for member_id, spec in work.spec.members.items():
        target = assignment[member_id]
        moved += moved_partitions(target, spec.assigned)
        is_known = member_id in group.targets or (
            change.replaced is not None and member_id == updated.member_id
        )
        if not is_known or target != spec.assigned:
            draft.facts.append(target_record(group.group_id, member_id, target))
    draft.facts.append(assignment_epoch_record(group.group_id, draft.epoch, now.wall_ms))
    draft.events.append(
        TargetComputed(
            group.group_id,
            draft.epoch,
            assignor=assignor,
            members=len(work.spec.members),
            partitions=sum(work.spec.partitions.values()),
            moved=moved,
        )
    )
    return draft.epoch, assignment[updated.member_id]


def _computed(work: TargetWork, computed: Computed | None, epoch: int) -> Assignment:
    if computed is not None and computed.is_for(work):
        if computed.assignment is None:
            message = f"Failed to compute a new target assignment for epoch {epoch}: {computed.error}"
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        return computed.assignment
    if not is_small(work.spec):
        raise AwaitsTarget(work)
    return compute_target(work)


def reconcile(
    groups: Groups,
    draft: Draft,
    who: Who,
    updated: ConsumerMember,
    regex: RegexChange,
    target_epoch: int,
    target: Target,
    owned: Owned | None,
) -> ConsumerMember:
    """The member after its next step, with the record of that."""
    group, image = draft.group, groups.topics
    has_changed = updated.subscribed_topic_names != who.member.subscribed_topic_names or regex.is_changed
    if not has_changed and updated.is_reconciled_to(target_epoch):
        return updated
    names = subscribed_names(group, updated)

    def is_subscribed(topic_id: bytes) -> bool:
        topic = image.by_id.get(topic_id)
        return topic is not None and topic.name in names

    def is_held(topic_id: bytes, partition: int) -> bool:
        return group.holder_of(topic_id, partition) is not None

    goal = Goal(target_epoch, target, is_subscribed, is_held, bool(names), has_changed)
    final = reconciled(updated, goal, owned)
    if final == updated:
        return updated
    draft.facts.append(current_record(group.group_id, final))
    draft.events.append(
        MemberReconciled(
            group.group_id,
            draft.epoch,
            final.name,
            member_epoch=final.member_epoch,
            state=final.state.name,
            assigned=partition_count(final.assigned),
            pending=partition_count(final.pending),
            missing=sum(
                len(set(partitions) - final.assigned.get(topic_id, {}).keys())
                for topic_id, partitions in target.items()
                if is_subscribed(topic_id)
            ),
        )
    )
    return final


def write_all(groups: Groups, draft: Draft, who: Who, final: ConsumerMember, turn: Turn) -> ConsumerGroup:
    """All of it, made true; nothing of it can fail any more."""
    group_id = draft.group.group_id
    old = groups.by_id.get(group_id)
    classic = groups.find_classic(group_id)
    if classic is not None and classic.members:
        end_classic(groups, classic, turn)
    elif old is not None and classic is not None:
        groups.give_up(group_id, turn)
    if who.known is None:
        turn.tell(ConsumerMemberJoined(group_id, draft.group.epoch, final.name))
    for fact in draft.facts:
        turn.write(fact)
    for event in draft.events:
        turn.tell(event)
    group = groups.consumers.get(group_id) or groups.add_consumer(group_id)
    if classic is not None:
        start_classic_sessions(group, turn)
    if draft.topics_seen:
        group.metadata_deadline_ms = turn.now.wall_ms + METADATA_LASTS_MS
    if who.known is not None and who.replaces:
        end_session(group, who.known.member_id, turn)
    return group
