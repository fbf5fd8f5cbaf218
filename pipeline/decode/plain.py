"""Decode records one by one with the daemon's own classes. This decoder is the reference for the vectorised one."""

from typing import Any

from pipeline.decode.consumer_groups import ConsumerGroupKey, consumer_group
from pipeline.decode.rows import COMMIT, GROUP, UNKNOWN, Row, time_us
from protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, find_subscribed_topics
from protocol.primitives import Malformed
from protocol.records.group_record_schemas import (
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import UnknownKey, decode_key, decode_value
from protocol.schema import ZERO_UUID
from storage.batch import BatchHeader, decode_records
from storage.record import Record
from storage.topic_partition import uuid_to_text


def batch_rows(batch: bytes | memoryview, header: BatchHeader, log_partition: int) -> list[Row]:
    """Return the rows of a complete batch that is not a control batch.

    Raises:
        CorruptBatch: the batch is malformed.
    """
    producer_id = header.producer_id if header.is_transactional else None
    return [record_row(record, log_partition, producer_id) for record in decode_records(batch, header)]


def record_row(record: Record, log_partition: int, producer_id: int | None) -> Row:
    """Return the row of a record. `producer_id` is set for a transactional record. Never raises."""
    row: Row = {
        "log_partition": log_partition,
        "log_offset": record.offset,
        "record_ts": time_us(record.timestamp_ms),
        "producer_id": producer_id,
    }
    try:
        row |= _meaning(record)
    except Malformed:
        row |= {
            "kind": UNKNOWN,
            "key_type": key_type(record.key),
            "key": record.key,
            "value": record.value,
            "tombstone": record.value is None,
        }
    return row


def key_type(key: bytes | None) -> int | None:
    """Return the type at the start of a key; None for a shorter key."""
    return int.from_bytes(key[:2], "big", signed=True) if key is not None and len(key) >= 2 else None


def _meaning(record: Record) -> Row:
    if record.key is None:
        raise Malformed("a record without a key")
    key = decode_key(record.key)
    if isinstance(key, UnknownKey):
        raise Malformed("a key of another type")
    value = None if record.value is None else decode_value(key, record.value)
    version = None if record.value is None else int.from_bytes(record.value[:2], "big", signed=True)
    row: Row = {"tombstone": value is None, "value_version": version}
    if isinstance(key, ConsumerGroupKey):
        return row | {"key_type": key_type(record.key)} | consumer_group(key, value)
    row["group"] = key.group
    if isinstance(key, OffsetCommitKey):
        assert value is None or isinstance(value, OffsetCommitValue)
        return row | _commit(key, value)
    assert value is None or isinstance(value, GroupMetadataValue)
    return row | _group(value)


def _commit(key: OffsetCommitKey, value: OffsetCommitValue | None) -> Row:
    row: Row = {"kind": COMMIT, "topic": key.topic, "partition": key.partition}
    if value is None:
        return row
    return row | {
        "offset": value.offset,
        "leader_epoch": _not_negative(value.leader_epoch),
        "metadata": value.metadata,
        "commit_ts": time_us(value.commit_timestamp),
        "expire_ts": time_us(value.expire_timestamp),
        "topic_id": None if value.topic_id == ZERO_UUID else uuid_to_text(value.topic_id),
    }


def _group(value: GroupMetadataValue | None) -> Row:
    if value is None:
        return {"kind": GROUP}
    is_consumer = value.protocol_type == PROTOCOL_TYPE
    return {
        "kind": GROUP,
        "generation": value.generation,
        "protocol_type": value.protocol_type,
        "protocol": value.protocol,
        "leader": value.leader,
        "state_ts": time_us(value.current_state_timestamp),
        "members": [_member(member, is_consumer) for member in value.members],
    }


def _member(member: MemberMetadata, is_consumer: bool) -> dict[str, Any]:
    topics: list[str] | None = None
    assigned: list[dict[str, Any]] | None = None
    if is_consumer:
        topics, assigned = _subscribed(member.subscription), _assigned(member.assignment)
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": _not_negative(member.rebalance_timeout),
        "session_timeout_ms": member.session_timeout,
        "subscribed_topics": topics,
        "assigned": assigned,
    }


def _subscribed(subscription: bytes) -> list[str] | None:
    try:
        return find_subscribed_topics(subscription)
    except Malformed:
        return None


def _assigned(assignment: bytes) -> list[dict[str, Any]] | None:
    if not assignment:
        return []  # the leader sent this member no assignment, not even an empty one
    try:
        topics = decode_assignment(assignment).assigned_partitions
    except Malformed:
        return None
    return [{"topic": topic.topic, "partition": number} for topic in topics for number in topic.partitions]


def _not_negative(number: int) -> int | None:
    return number if number >= 0 else None
