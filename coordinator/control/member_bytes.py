"""What members of the consumer protocol were assigned, and subscribe to, read from their bytes."""

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
