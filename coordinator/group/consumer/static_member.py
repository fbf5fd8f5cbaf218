"""A static member comes back and takes the place that was kept for it, under a new id or its own.

Source: Kafka's GroupMetadataManager, replaceMember.
"""

from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.events import ConsumerMemberReplaced
from coordinator.group.consumer.record import (
    current_record,
    current_tombstone,
    member_record,
    member_tombstone,
    target_record,
    target_tombstone,
)
from coordinator.group.consumer.who import Who


def take_place(draft: Draft, who: Who) -> None:
    """Everything of the old member becomes the new one's, if the sender takes its place."""
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
