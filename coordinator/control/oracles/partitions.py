"""Partitions as members are assigned them, subscribe to them and own them, and as people read them."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from coordinator.net.peer import printable
from coordinator.server.log_words import listed
from protocol.consumer_protocol import ConsumerProtocolSubscription, decode_assignment, decode_subscription
from protocol.malformed import Malformed

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

NO_SUBSCRIPTION: Final = ConsumerProtocolSubscription(topics=[])
MOST_NAMED: Final = 5


def assigned(assignment: bytes) -> list[Place]:
    """The partitions of an assignment; none where it is not one of the consumer protocol's."""
    if not assignment:
        return []
    try:
        topics = decode_assignment(assignment).assigned_partitions
    except Malformed:
        return []
    return [(topic.topic, number) for topic in topics for number in topic.partitions]


def subscribed(metadata: bytes) -> ConsumerProtocolSubscription:
    """A subscription; to nothing where it is none of the consumer protocol's."""
    try:
        return decode_subscription(metadata)
    except Malformed:
        return NO_SUBSCRIPTION


def owned(subscription: ConsumerProtocolSubscription) -> list[Place]:
    """What a member says that it has."""
    return [(topic.topic, number) for topic in subscription.owned_partitions for number in topic.partitions]


def name_of(place: Place) -> str:
    """`orders-3`, as it came."""
    return f"{place[0]}-{place[1]}"


def names_of(places: Sequence[Place]) -> str:
    """`orders-2, orders-3 and 4 more`, fit for a line."""
    return listed([printable(name_of(place)) for place in places[:MOST_NAMED]], len(places))


def in_order(places: Iterable[Place]) -> list[Place]:
    """By topic and number."""
    return sorted(places)
