"""Partitions as members are assigned them, subscribe to them and own them, and as people read them."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from coordinator.control.member_bytes import assigned_partitions, partitions_of
from coordinator.group.view import MemberView
from coordinator.net.peer import printable
from coordinator.server.log_words import listed
from protocol.consumer_protocol import ConsumerProtocolSubscription, decode_subscription
from protocol.malformed import Malformed

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""

KAFKA_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The client-side assignors of Kafka's consumer, which other clients have under the same names. Each of them gives
every partition of the subscribed topics to exactly one member. An assignor of another name may do as it likes:
Faust's lists standby replicas, kafkajs's knows only the topics that its leader subscribes to. That of Kafka Streams
(`stream`) lists active tasks only, with standby tasks in its user data, but it may leave partitions to a later
rebalance."""
COOPERATIVE: Final = "cooperative"
"""Part of the names of assignors that move a partition in two rebalances (KIP-429)."""

MOST_BYTES: Final = 131_072
"""Of what one member is assigned, or subscribes to: more would keep others waiting, and no consumer has it."""
MOST_NAMED: Final = 5


def assigned(assignment: bytes) -> list[Place] | None:
    """The partitions of an assignment; None where it is none of the consumer protocol's, or too long to be read."""
    partitions = assigned_partitions(assignment) if len(assignment) <= MOST_BYTES else None
    if partitions is None:
        return None
    return [(topic, number) for topic, numbers in partitions.items() for number in numbers]


def held(member: MemberView) -> list[Place] | None:
    """What a member of a group of either type has; None as above."""
    if member.consumer is None:
        return assigned(member.assignment)
    return [(topic, number) for topic, numbers in (partitions_of(member) or {}).items() for number in numbers]


def subscribed(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """A subscription; None where it is none of the consumer protocol's, or too long to be read."""
    if len(metadata) > MOST_BYTES:
        return None
    try:
        return decode_subscription(metadata)
    except Malformed:
        return None


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
