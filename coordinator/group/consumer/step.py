"""The step of a member that a heartbeat makes, with its record. The steps themselves are in `reconcile.py`.

Source: Kafka's GroupMetadataManager, maybeReconcile.
"""

from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.events import MemberReconciled
from coordinator.group.consumer.fence import partition_count
from coordinator.group.consumer.member import ConsumerMember, Target
from coordinator.group.consumer.reconcile import Goal, Owned, reconciled
from coordinator.group.consumer.record import current_record
from coordinator.group.consumer.regular_expressions import RegexChange
from coordinator.group.consumer.target import subscribed_names
from coordinator.group.consumer.who import Who
from coordinator.group.groups import Groups


def make_step(
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
