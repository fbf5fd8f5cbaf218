"""What members were assigned, and subscribe to: read from the bytes of the consumer protocol, or told by the group
itself where it is a consumer group."""

from collections.abc import Iterable

from coordinator.group.view import MemberView
from protocol.consumer_protocol import decode_assignment, subscribed_topics
from protocol.malformed import Malformed


def assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
    """Return the partitions of an assignment by topic, in the order of the bytes.

    Topics without partitions, which some assignors list, are left out. None: the bytes are not of the consumer
    protocol.
    """
    if not assignment:
        return {}
    try:
        assigned = decode_assignment(assignment).assigned_partitions
    except Malformed:
        return None
    return _merged((topic.topic, topic.partitions) for topic in assigned)


def _merged(parts: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    partitions: dict[str, list[int]] = {}
    for topic, numbers in parts:
        partitions.setdefault(topic, []).extend(numbers)
    return {topic: numbers for topic, numbers in partitions.items() if numbers}


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
    return _merged((*member.consumer.assigned.items(), *member.consumer.pending.items()))


def topics_of(member: MemberView) -> frozenset[str] | None:
    """What a member subscribes to; None as above."""
    return wanted_topics(member.metadata) if member.consumer is None else member.consumer.topics
