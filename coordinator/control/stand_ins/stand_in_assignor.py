"""The assignment of a stand-in that leads a classic group: the result of the range assignor, or a fixed
assignment.

Source: Kafka's `RangeAssignor`, KIP-429 for the cooperative protocol.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from protocol.consumer_protocol import ConsumerProtocolSubscription, TopicPartitions, decode_subscription
from protocol.messages.join_group import JoinGroupResponseMember
from protocol.primitives import Malformed

Partitions = Mapping[str, Sequence[int]]
"""Partition numbers by topic."""


class StandInAssignment(NamedTuple):
    """The assignment by member id. `is_whole`: no partition is withheld until its previous owner has revoked
    it."""

    by_member: dict[str, dict[str, list[int]]]
    is_whole: bool


def assign_partitions(
    members: Sequence[JoinGroupResponseMember],
    fixed: Mapping[str, Partitions],
    partition_counts: Mapping[str, int],
    *,
    is_cooperative: bool,
) -> StandInAssignment:
    """Return the assignment of a group.

    Args:
        members: The members with their subscriptions.
        fixed: The wanted partitions by member id, {} for the range assignor.
        partition_counts: The numbers of partitions by topic.
        is_cooperative: Whether the protocol is cooperative.
    """
    subscriptions = {each.member_id: _decode_subscription(each.metadata) for each in members}
    wanted = {each.member_id: fixed.get(each.member_id, {}) for each in members} if fixed else None
    handed_out = (
        _assign_range(members, subscriptions, partition_counts) if wanted is None else _as_lists(wanted)
    )
    if not is_cooperative:
        return StandInAssignment(handed_out, is_whole=True)
    owners = {
        (owned.topic, number): member_id
        for member_id, subscription in subscriptions.items()
        for owned in subscription.owned_partitions
        for number in owned.partitions
    }
    kept = {
        member_id: {
            topic: [number for number in numbers if owners.get((topic, number), member_id) == member_id]
            for topic, numbers in partitions.items()
        }
        for member_id, partitions in handed_out.items()
    }
    return StandInAssignment(kept, is_whole=kept == handed_out)


def build_topic_partitions(partitions: Partitions) -> list[TopicPartitions]:
    """Convert partitions to the form of subscriptions and assignments."""
    return [TopicPartitions(topic=topic, partitions=list(numbers)) for topic, numbers in partitions.items()]


def _decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode a subscription. An unreadable one subscribes to nothing."""
    try:
        return decode_subscription(metadata)
    except Malformed:
        return ConsumerProtocolSubscription(topics=[])


def _assign_range(
    members: Sequence[JoinGroupResponseMember],
    subscriptions: Mapping[str, ConsumerProtocolSubscription],
    counts: Mapping[str, int],
) -> dict[str, dict[str, list[int]]]:
    """Assign consecutive partitions of each topic; the first members get one more. Static members come first, by
    their ids."""
    in_order = sorted(
        members,
        key=lambda each: (each.group_instance_id is None, each.group_instance_id or "", each.member_id),
    )
    found: dict[str, dict[str, list[int]]] = {each.member_id: {} for each in members}
    for topic in sorted({topic for each in subscriptions.values() for topic in each.topics} & counts.keys()):
        takers = [each.member_id for each in in_order if topic in subscriptions[each.member_id].topics]
        share, more = divmod(counts[topic], len(takers))
        first = 0
        for place, member_id in enumerate(takers):
            after = first + share + (place < more)
            if after > first:
                found[member_id][topic] = list(range(first, after))
            first = after
    return found


def _as_lists(wanted: Mapping[str, Partitions]) -> dict[str, dict[str, list[int]]]:
    return {
        member_id: {topic: list(numbers) for topic, numbers in partitions.items()}
        for member_id, partitions in wanted.items()
    }
