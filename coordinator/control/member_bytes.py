"""What members were assigned, and subscribe to: read from the bytes of the consumer protocol, or told by the group
itself where it is a consumer group."""

from coordinator.group.view import MemberView
from protocol.consumer_protocol import decode_assignment, subscribed_topics
from protocol.malformed import Malformed


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """The partitions of an assignment by topic, as they come; nothing of an empty one. None where it is none of the
    consumer protocol's."""
    partitions: dict[str, list[int]] = {}
    if not assignment:
        return partitions
    try:
        for topic in decode_assignment(assignment).assigned_partitions:
            partitions.setdefault(topic.topic, []).extend(topic.partitions)
    except Malformed:
        return None
    return partitions


def wanted_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription; None where it is none of the consumer protocol's."""
    try:
        return frozenset(subscribed_topics(metadata))
    except Malformed:
        return None


def partitions_of(member: MemberView) -> dict[str, list[int]] | None:
    """What a member has, by topic; in a consumer group what it has yet to give up, too. None as above."""
    if member.consumer is None:
        return assigned_partitions(member.assignment)
    partitions: dict[str, list[int]] = {}
    for part in (member.consumer.assigned, member.consumer.pending):
        for topic, numbers in part.items():
            partitions.setdefault(topic, []).extend(numbers)
    return partitions


def topics_of(member: MemberView) -> frozenset[str] | None:
    """What a member subscribes to; None as above."""
    return wanted_topics(member.metadata) if member.consumer is None else member.consumer.topics
