"""Decode consumer group records (KIP-848), key types 3 to 8 and 16, for `plain`."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from pipeline.decode.rows import CONSUMER_GROUP, Row, time_us
from protocol.records.group_record_schemas import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
)
from protocol.records.group_record_serde import Value
from storage.topic_partition import uuid_to_text

ConsumerGroupKey: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)

STATES: Final = {0: "stable", 1: "unrevoked_partitions", 2: "unreleased_partitions"}
"""The states of a member. As in Kafka's `MemberState` any other code is `unknown`."""


def consumer_group(key: ConsumerGroupKey, value: Value | None) -> Row:
    """Return the columns of a consumer group record. `value` is None for a tombstone."""
    said: dict[str, Any] = {}
    if isinstance(key, ConsumerGroupRegularExpressionKey):
        said["expression"] = key.regular_expression
    elif not isinstance(
        key,
        ConsumerGroupMetadataKey
        | ConsumerGroupPartitionMetadataKey
        | ConsumerGroupTargetAssignmentMetadataKey,
    ):
        said["member_id"] = key.member_id
    return {"kind": CONSUMER_GROUP, "group": key.group_id, "consumer": said | _said(value)}


def _said(value: Value | None) -> dict[str, Any]:
    match value:
        case ConsumerGroupMetadataValue():
            return {"epoch": value.epoch, "metadata_hash": value.metadata_hash}
        case ConsumerGroupPartitionMetadataValue():
            return {
                "topics": [topic.topic_name for topic in value.topics],
                "topic_ids": [uuid_to_text(topic.topic_id) for topic in value.topics],
            }
        case ConsumerGroupMemberMetadataValue():
            return _member(value)
        case ConsumerGroupTargetAssignmentMetadataValue():
            # 0 is not a time; it means that the target may be recomputed at once.
            return {"epoch": value.assignment_epoch, "done_ts": time_us(value.assignment_timestamp or -1)}
        case ConsumerGroupTargetAssignmentMemberValue():
            return {
                "partitions": [
                    _held("target", topic.topic_id, partition, None)
                    for topic in value.topic_partitions
                    for partition in topic.partitions
                ]
            }
        case ConsumerGroupCurrentMemberAssignmentValue():
            return {
                "epoch": value.member_epoch,
                "previous_epoch": value.previous_member_epoch,
                "state": STATES.get(value.state, "unknown"),
                "partitions": _current("assigned", value.assigned_partitions)
                + _current("pending_revocation", value.partitions_pending_revocation),
            }
        case ConsumerGroupRegularExpressionValue():
            return {
                "topics": value.topics,
                "topics_version": value.version,
                "done_ts": time_us(value.timestamp),
            }
        case _:
            return {}


def _member(value: ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    classic = value.classic_member_metadata
    return {
        "group_instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "topics": value.subscribed_topic_names,
        "expression": value.subscribed_topic_regex or None,
        "rebalance_timeout_ms": value.rebalance_timeout_ms if value.rebalance_timeout_ms >= 0 else None,
        "session_timeout_ms": None if classic is None else classic.session_timeout_ms,
        "assignor": value.server_assignor,
        "is_classic": classic is not None,
    }


def _current(holding: str, topics: Sequence[CurrentTopicPartitions]) -> list[dict[str, Any]]:
    found = []
    for topic in topics:
        epochs = topic.assignment_epochs or []
        for place, partition in enumerate(topic.partitions):
            since = epochs[place] if place < len(epochs) else None
            found.append(_held(holding, topic.topic_id, partition, since))
    return found


def _held(holding: str, topic_id: bytes, partition: int, since_epoch: int | None) -> dict[str, Any]:
    return {
        "holding": holding,
        "topic_id": uuid_to_text(topic_id),
        "partition": partition,
        "since_epoch": since_epoch,
    }
