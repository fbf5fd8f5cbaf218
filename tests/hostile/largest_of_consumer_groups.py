"""Of the requests of consumer groups, the largest that their bounds allow. Their order matters: the first ones make
the groups of which the others are members.
"""

from collections.abc import Sequence
from typing import Final

from coordinator.group.consumer.heartbeat_validation import MAX_SUBSCRIBED_TOPICS
from coordinator.group.modern.topic_regex import MAX_CHARACTERS
from protocol.apis import MAX_NAMES
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.hostile.shapes import KNOWN, PARTITIONS, TOPICS, Largest, names

OWNED_TOPICS: Final = 1_000
OF_NAMES: Final = "of names"
OF_ONE_TOPIC: Final = "of one topic"
FIRST_EPOCH: Final = 2
"""Of a member that is alone in a new group."""


def joining(
    group_id: str, names: list[str] | None = None, regex: str | None = None, member_id: str = "m"
) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )


def owning(
    group_id: str, topics: int, partitions: Sequence[int], names: list[str] | None = None
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat of a member that has these partitions of each of so many topics, which nobody knows. With names
    it is a full one."""
    owned = [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=number.to_bytes(16), partitions=[*partitions])
        for number in range(1, topics + 1)
    ]
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        member_epoch=FIRST_EPOCH,
        rebalance_timeout_ms=-1 if names is None else 10_000,
        subscribed_topic_names=names,
        topic_partitions=owned,
    )


def partitions_of(group_id: str, names: list[str] | None = None) -> ConsumerGroupHeartbeatRequest:
    """The same of 100,000 partitions, some of each topic."""
    return owning(group_id, OWNED_TOPICS, range(PARTITIONS // OWNED_TOPICS), names)


def long_expression() -> str:
    """One that is as long as any may be, and valid."""
    text = "|".join(names(MAX_CHARACTERS // len("nobody-1000|")))
    return text + "x" * (MAX_CHARACTERS - len(text))


def describing(group_ids: list[str]) -> ConsumerGroupDescribeRequest:
    """Of these groups."""
    return ConsumerGroupDescribeRequest(group_ids=group_ids, include_authorized_operations=False)


OF_CONSUMER_GROUPS: Final[dict[str, Largest]] = {
    "ConsumerGroupHeartbeat: names": Largest(lambda: joining(OF_NAMES, names(MAX_SUBSCRIBED_TOPICS)), 1),
    "ConsumerGroupHeartbeat: full": Largest(lambda: partitions_of(OF_NAMES, names(MAX_SUBSCRIBED_TOPICS)), 1),
    "ConsumerGroupHeartbeat: other names": Largest(
        lambda: partitions_of(OF_NAMES, [f"{name}-too" for name in names(MAX_SUBSCRIBED_TOPICS)]), 1
    ),
    "ConsumerGroupHeartbeat: the same name": Largest(
        lambda: joining(OF_ONE_TOPIC, [KNOWN] * MAX_SUBSCRIBED_TOPICS), 1
    ),
    "ConsumerGroupHeartbeat: owned": Largest(lambda: partitions_of(OF_ONE_TOPIC), 1),
    "ConsumerGroupHeartbeat: an expression": Largest(
        lambda: joining("of an expression", None, long_expression()), 1
    ),
    "ConsumerGroupHeartbeat: topics": Largest(lambda: owning("of nobody", TOPICS, [0]), 1),
    "ConsumerGroupHeartbeat: partitions": Largest(lambda: partitions_of("of nobody"), 1),
    "ConsumerGroupDescribe": Largest(lambda: describing(names(MAX_NAMES)), 1),
    "ConsumerGroupDescribe: one group": Largest(lambda: describing([OF_ONE_TOPIC] * MAX_NAMES), 1),
}
