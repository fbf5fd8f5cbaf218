"""What members of the classic protocol and their group say to each other in bytes: subscriptions, assignments. A
consumer group knows topics by id, the bytes by name.

Source: Kafka's ConsumerProtocol; Utils, toTopicPartitionMap and toConsumerProtocolAssignment.
"""

from collections.abc import Iterable, Mapping, Sequence

from coordinator.group.consumer.member import Target
from coordinator.group.topics_image import TopicsImage
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    encode_assignment,
    newest_version,
    version_of,
)


def by_topic_id(topics: Iterable[TopicPartitions], image: TopicsImage) -> Target:
    """Partitions by topic id; topics that do not exist are left out."""
    found: dict[bytes, tuple[int, ...]] = {}
    for topic in topics:
        known = image.by_name.get(topic.topic)
        if known is not None and topic.partitions:
            before = found.get(known.topic_id, ())
            found[known.topic_id] = tuple(sorted({*before, *topic.partitions}))
    return found


def assignment_bytes(
    assigned: Mapping[bytes, Iterable[int]], subscription: bytes, image: TopicsImage
) -> bytes:
    """An assignment in the version of a member's subscription; topics that do not exist are left out. Malformed
    when that has no version."""
    topics: Sequence[TopicPartitions] = [
        TopicPartitions(topic=image.by_id[topic_id].name, partitions=sorted(partitions))
        for topic_id, partitions in assigned.items()
        if topic_id in image.by_id
    ]
    version = min(version_of(subscription), newest_version(ConsumerProtocolAssignment))
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=list(topics)), version)
