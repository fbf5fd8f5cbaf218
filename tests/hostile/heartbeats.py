"""Requests of members of consumer groups for hostile tests."""

from collections.abc import Sequence

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)


def joining(
    group_id: str, names: list[str] | None = None, regex: str | None = None, member_id: str = "m"
) -> ConsumerGroupHeartbeatRequest:
    """Build the first heartbeat of a member."""
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
    group_id: str, epoch: int, topics: int, partitions: Sequence[int], names: list[str]
) -> ConsumerGroupHeartbeatRequest:
    """Build a full heartbeat of a member that owns these partitions of each of so many unknown topics."""
    owned = [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=number.to_bytes(16), partitions=[*partitions])
        for number in range(1, topics + 1)
    ]
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        member_epoch=epoch,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=names,
        topic_partitions=owned,
    )


def describing(group_ids: list[str]) -> ConsumerGroupDescribeRequest:
    """Build the request that describes groups."""
    return ConsumerGroupDescribeRequest(group_ids=group_ids, include_authorized_operations=False)
