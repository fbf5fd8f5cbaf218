"""A new epoch of a group: its members subscribe to something else, prefer another assignor, or their topics are
not what they were.

Source: Kafka's GroupMetadataManager, updateSubscriptionMetadata.
"""

from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.events import EpochBumped, EpochCause, TopicChange
from coordinator.group.consumer.member import ConsumerMember
from coordinator.group.consumer.record import epoch_record, partition_metadata_tombstone
from coordinator.group.consumer.regular_expressions import RegexChange
from coordinator.group.consumer.state import state_of
from coordinator.group.consumer.subscription import Subscription, prefers_another
from coordinator.group.consumer.who import Who
from coordinator.group.groups import Groups
from coordinator.machine.outcome import Now


def bump(
    groups: Groups, draft: Draft, who: Who, updated: ConsumerMember, regex: RegexChange, now: Now
) -> None:
    """Give the group a new epoch if its members subscribe to something else, prefer another assignor, or if their
    topics are not what they were."""
    group, known = draft.group, who.known
    otherwise = groups.consumer_config.assignors[0]
    names_changed = updated.subscribed_topic_names != who.member.subscribed_topic_names
    # A JoinGroup names no assignor, and Kafka does not count them then.
    assignor_changed = not updated.uses_classic_protocol and prefers_another(group, known, updated, otherwise)
    wanted = names_changed or regex.is_resolved or assignor_changed
    soft = groups.consumers.get(group.group_id)
    if not wanted and soft is not None and now.monotonic_ms < soft.metadata_deadline_ms:
        return
    subscription = Subscription.with_member(group, known, updated)
    metadata_hash = subscription.metadata_hash(groups.topics)
    draft.is_homogeneous = subscription.is_homogeneous
    draft.topics_seen = True
    if wanted or metadata_hash != group.metadata_hash:
        draft.epoch, draft.metadata_hash = group.epoch + 1, metadata_hash
        draft.facts.append(epoch_record(group.group_id, draft.epoch, metadata_hash))
        cause, changes = EpochCause.TOPICS_CHANGED, dict[str, TopicChange]()
        if known is None:
            cause = EpochCause.MEMBER_JOINED
        elif names_changed or regex.is_resolved:
            cause = EpochCause.SUBSCRIPTION_CHANGED
        elif assignor_changed:
            cause = EpochCause.ASSIGNOR_CHANGED
        elif soft is not None:
            changes = soft.topic_changes
        kinds = set(changes.values())
        draft.events.append(
            EpochBumped(
                group.group_id,
                draft.epoch,
                # Who has noticed that topics changed has nothing to do with it.
                member=None if cause is EpochCause.TOPICS_CHANGED else updated.name,
                cause=cause,
                metadata_hash=metadata_hash,
                state=state_of(group).value,
                members=subscription.members,
                topics=tuple(changes),
                change=kinds.pop() if len(kinds) == 1 else None,
            )
        )
    if group.partition_metadata is not None:
        draft.facts.append(partition_metadata_tombstone(group.group_id))
