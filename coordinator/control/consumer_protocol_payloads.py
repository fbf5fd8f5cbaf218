"""Subscriptions, assignments and owned partitions of members, as values and as text for people.

In a classic group they are decoded from the bytes of the consumer protocol. In a consumer group (KIP-848) the
group knows them, and an assignment includes partitions pending revocation. A result is None for bytes that are
not of the consumer protocol or, in some functions, too long to decode.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from coordinator.core.message_text import format_list, printable
from coordinator.group.group_view import GroupView, MemberView
from coordinator.group.topics_image import TopicsImage
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    count_subscribed_topics,
    decode_assignment,
    decode_subscription,
    find_subscribed_topics,
)
from protocol.primitives import Malformed

PartitionKey: TypeAlias = tuple[str, int]
"""Topic and partition number."""

KAFKA_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The client-side assignors of Kafka's consumer, which other clients have under the same names. Each of them
gives every partition of the subscribed topics to exactly one member. Other assignors may differ: Faust's lists
standby replicas, and kafkajs's knows only the topics that its leader subscribes to. The assignor of Kafka Streams
(`stream`) lists active tasks, with standby tasks in its user data, and may leave partitions to a later
rebalance."""
COOPERATIVE: Final = "cooperative"
"""Part of the names of assignors that move a partition in two rebalances (KIP-429)."""

MAX_PAYLOAD_BYTES: Final = 131_072
"""The maximum size of the assignment or subscription of one member, in bytes. Decoding a larger one would delay
other requests, and no consumer has one."""
MAX_GROUP_TOPICS: Final = 250_000
"""The maximum number of topics in all subscriptions of a group. Decoding this many takes a tenth of a second."""
MAX_NAMED_PARTITIONS: Final = 5


def decode_assigned_partitions(assignment: bytes) -> dict[str, list[int]] | None:
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
    return _merge_partitions((topic.topic, topic.partitions) for topic in assigned)


def decode_partition_keys(assignment: bytes) -> list[PartitionKey] | None:
    """Return the partitions of an assignment, or None if it is not of the consumer protocol or is too large."""
    partitions = decode_assigned_partitions(assignment) if len(assignment) <= MAX_PAYLOAD_BYTES else None
    if partitions is None:
        return None
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


def _merge_partitions(parts: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    partitions: dict[str, list[int]] = {}
    for topic, numbers in parts:
        partitions.setdefault(topic, []).extend(numbers)
    return {topic: numbers for topic, numbers in partitions.items() if numbers}


def decode_subscription_or_none(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """Return a subscription, or None if it is not of the consumer protocol or is too large."""
    if len(metadata) > MAX_PAYLOAD_BYTES:
        return None
    try:
        return decode_subscription(metadata)
    except Malformed:
        return None


def read_member_partitions(member: MemberView) -> dict[str, list[int]] | None:
    """Return the partitions of a member by topic, or None if its assignment is not of the consumer protocol.

    In a consumer group they include the partitions that the member still has to revoke.
    """
    if member.consumer is None:
        return decode_assigned_partitions(member.assignment)
    return _merge_partitions((*member.consumer.assigned.items(), *member.consumer.pending.items()))


def list_member_partitions(member: MemberView) -> list[PartitionKey] | None:
    """Return the partitions of a member of either group type, or None if its assignment is not of the consumer
    protocol or is too large."""
    if member.consumer is None:
        return decode_partition_keys(member.assignment)
    return [
        (topic, number)
        for topic, numbers in (read_member_partitions(member) or {}).items()
        for number in numbers
    ]


class SubscriptionCache:
    """The topics of recently decoded subscriptions. While a client waits for a group, the subscriptions of the
    group are read after each event."""

    def __init__(self, max_topics: int) -> None:
        """Create an empty cache. `max_topics` limits the topics of all cached subscriptions together."""
        self._max_topics = max_topics
        self._topics = 0
        self._decoded: dict[bytes, frozenset[str] | None] = {}
        """The topics by subscription bytes, the oldest first."""

    def decode(self, metadata: bytes) -> frozenset[str] | None:
        """Return the topics of a subscription, or None if it is not of the consumer protocol."""
        if metadata in self._decoded:
            return self._decoded[metadata]
        try:
            topics = frozenset(find_subscribed_topics(metadata))
        except Malformed:
            topics = None
        self._decoded[metadata] = topics
        self._topics += len(topics or ())
        while self._topics > self._max_topics or len(self._decoded) > self._max_topics:
            oldest = next(iter(self._decoded))
            self._topics -= len(self._decoded.pop(oldest) or ())
        return topics


_CACHE: Final = SubscriptionCache(MAX_GROUP_TOPICS)


class SubscriptionReader:
    """Reads the subscriptions of the members of one group, up to a number of topics."""

    def __init__(self) -> None:
        self._topics_left = MAX_GROUP_TOPICS
        self._is_read: dict[bytes, bool] = {}
        """Whether each subscription was decoded; False for one that is too large."""

    def read_topics(self, member: MemberView) -> frozenset[str] | None:
        """Return the subscribed topics of a member, or None if its subscription is not of the consumer protocol
        or is too large."""
        if member.consumer is not None:
            return member.consumer.topics
        metadata = member.metadata
        is_read = self._is_read.get(metadata)
        if is_read is None:
            count = count_subscribed_topics(metadata)
            is_read = len(metadata) <= MAX_PAYLOAD_BYTES and count <= self._topics_left
            self._is_read[metadata] = is_read
            self._topics_left -= count if is_read else 0
        return _CACHE.decode(metadata) if is_read else None

    def is_too_large(self, member: MemberView) -> bool:
        """Return whether `read_topics` has found the subscription of a member too large."""
        return member.consumer is None and self._is_read.get(member.metadata) is False


def list_owned_partitions(subscription: ConsumerProtocolSubscription) -> list[PartitionKey]:
    """Return the owned partitions that a member's subscription lists."""
    return [(topic.topic, number) for topic in subscription.owned_partitions for number in topic.partitions]


def read_subscription(view: GroupView, member: MemberView, reader: SubscriptionReader) -> list[str] | None:
    """Return the subscribed topics of a member, by name; None if the subscription is not of the consumer protocol
    or too large to decode."""
    if view.protocol_type != PROTOCOL_TYPE or not (member.metadata or member.consumer):
        return None
    topics = reader.read_topics(member)
    return None if topics is None else sorted(topics)


def read_assignment(view: GroupView, member: MemberView) -> dict[str, list[int]] | None:
    """Return the assigned partitions of a member by topic, or None if it has no assignment yet or one that is not
    of the consumer protocol."""
    if view.protocol_type != PROTOCOL_TYPE or not (member.assignment or member.consumer):
        return None
    partitions = read_member_partitions(member)
    if partitions is None:
        return None
    return {topic: sorted(set(numbers)) for topic, numbers in sorted(partitions.items())}


def find_unowned_partitions(
    subscriptions: Iterable[list[str] | None],
    assignments: Iterable[Mapping[str, list[int]] | None],
    topics: TopicsImage,
) -> dict[str, list[int]]:
    """Return the unassigned partitions of subscribed topics, by topic. A subscription may be None or empty."""
    owned: dict[str, set[int]] = {}
    for assignment in assignments:
        for topic, partitions in (assignment or {}).items():
            owned.setdefault(topic, set()).update(partitions)
    wanted = {topic for subscription in subscriptions for topic in subscription or ()}
    unowned = {}
    for topic in sorted(wanted & topics.by_name.keys()):
        taken = owned.get(topic, set())
        left = [number for number in range(topics.by_name[topic].partitions) if number not in taken]
        if left:
            unowned[topic] = left
    return unowned


def format_partition(place: PartitionKey) -> str:
    """Return the name of a partition, such as `orders-3`, without escaping."""
    return f"{place[0]}-{place[1]}"


def format_partitions(places: Sequence[PartitionKey]) -> str:
    """Return the names of partitions in printable form, such as `orders-2, orders-3 and 4 more`."""
    return format_list(
        [printable(format_partition(place)) for place in places[:MAX_NAMED_PARTITIONS]], len(places)
    )


def sort_partitions(places: Iterable[PartitionKey]) -> list[PartitionKey]:
    """Sort partitions by topic and number."""
    return sorted(places)
