"""Decodes a record of a log into data for JSON, with Kafka's field names. Bytes that cannot be decoded appear
as hexadecimal digits, with the reason in `error`: nothing is left out.
Source: Kafka's `ControlRecordType`, `TransactionLogKey`, `TransactionLogValue`, `TransactionState`.
"""

from collections.abc import Callable, Iterator
from struct import Struct as BinaryFormat
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from protocol.codec import decoder
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
)
from protocol.primitives import Malformed
from protocol.records import group_record_serde
from protocol.records.group_record_schemas import (
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import Key, UnknownKey, decode_key, decode_value
from protocol.records.transaction_state import KEY_VERSION, TransactionLogKey, TransactionLogValue
from protocol.schema import ZERO_UUID
from storage.batch import NO_TIMESTAMP, BatchHeader
from storage.record import UNASSIGNED_OFFSET, Record
from storage.stored_batch import StoredBatch
from storage.topic_partition import TopicPartition, uuid_to_text

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
OFFSET_COMMIT: Final = group_record_serde.OFFSET_COMMIT.name
GROUP_METADATA: Final = group_record_serde.GROUP_METADATA.name
UNKNOWN: Final = "unknown"
CONTROL: Final = "control"
TRANSACTION: Final = "transaction"
"""A record of `__transaction_state`."""
RECORD: Final = "record"
"""A record of any other topic."""

TYPE_NAMES: Final = {number: kind.name for number, kind in group_record_serde.TYPES_BY_NUMBER.items()}

CONTROL_NAMES: Final = {
    0: "abort",
    1: "commit",
    2: "leader_change",
    3: "snapshot_header",
    4: "snapshot_footer",
    5: "kraft_version",
    6: "kraft_voters",
}

ALL_TYPES: Final = tuple(dict.fromkeys([*TYPE_NAMES.values(), UNKNOWN, CONTROL, TRANSACTION, RECORD]))
TRANSACTION_STATES: Final = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
MEMBER_STATES: Final = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS", 127: "UNKNOWN"}
_INT16: Final = BinaryFormat(">h")
Fields = dict[str, Any]
_INT32: Final = BinaryFormat(">i")
_TRANSACTION_MARKERS: Final = ("abort", "commit")


class DecodedRecord(NamedTuple):
    """One record. `key` and `value` are None if the record has none."""

    name: TopicPartition | None
    batch: StoredBatch
    record: Record
    type: str
    key: Fields | None
    value: Fields | None
    error: str | None
    """The reason why the key or the value could not be decoded, else None."""

    @property
    def header(self) -> BatchHeader:
        """The header of the record's batch."""
        return self.batch.header

    @property
    def is_tombstone(self) -> bool:
        """Whether the record is a tombstone."""
        return self.record.value is None and self.type != CONTROL

    @property
    def group(self) -> str | None:
        """The group of a record of `__consumer_offsets`, if its key has one."""
        if self.key is None or self.type in (RECORD, CONTROL, TRANSACTION):
            return None
        group: str | None = self.key.get("group")
        return group

    def find_topics(self) -> set[str]:
        """Return the committed, subscribed or assigned topics in a record of `__consumer_offsets`, or the topics
        in a record of `__transaction_state`."""
        found: set[str] = set()
        if self.type == TRANSACTION:
            partitions = (self.value or {}).get("transaction_partitions") or ()
            return {topic["topic"] for topic in partitions}
        if self.type in (RECORD, CONTROL) or self.key is None:
            return found
        if "topic" in self.key:
            found.add(self.key["topic"])
        found.update(find_value_topics(self.value or {}))
        for member in (self.value or {}).get("members", ()):
            found.update((member["subscription"] or {}).get("topics", ()))
            assigned = (member["assignment"] or {}).get("assigned_partitions", ())
            found.update(part["topic"] for part in assigned)
        return found


def decode_batch(
    batch: StoredBatch, name: TopicPartition | None, is_offsets: bool
) -> Iterator[DecodedRecord]:
    """Yield the decoded records of a valid batch.

    Args:
        batch: the batch.
        name: its partition, if known.
        is_offsets: whether its records are those of `__consumer_offsets`.

    Raises:
        CorruptBatch: the batch does not unpack into records.
    """
    is_of_transactions = name is not None and name.topic == TRANSACTIONS_TOPIC
    decode_fields = _decode_transaction if is_of_transactions and not is_offsets else _decode_plain
    decode_fields = (
        _decode_control
        if batch.header.is_control
        else _decode_offsets_record
        if is_offsets
        else decode_fields
    )
    for record in batch.records():
        yield DecodedRecord(name, batch, record, *decode_fields(record))


DecodedFields = tuple[str, Fields | None, Fields | None, str | None]


def _decode_plain(record: Record) -> DecodedFields:
    return RECORD, _text_fields(record.key), _text_fields(record.value), None


def _decode_transaction(record: Record) -> DecodedFields:
    try:
        return TRANSACTION, *decode_transaction_record(record), None
    except Malformed as error:
        return TRANSACTION, _hex_fields(record.key), _hex_fields(record.value), str(error)


def _text_fields(data: bytes | None) -> Fields | None:
    """Return printable text as text, and other bytes as hexadecimal digits."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return {"text": text} if all(part.isprintable() for part in text.split()) else {"hex": data.hex()}


def _hex_fields(data: bytes | None) -> Fields | None:
    return None if data is None else {"hex": data.hex()}


def _decode_control(record: Record) -> DecodedFields:
    key, value = record.key, record.value
    if key is None or len(key) < 2 * _INT16.size:
        return CONTROL, _hex_fields(key), _hex_fields(value), "a control record without a type"
    (version,), (kind,) = _INT16.unpack_from(key), _INT16.unpack_from(key, _INT16.size)
    name = CONTROL_NAMES.get(kind, UNKNOWN)
    fields = {"version": version, "type": kind, "marker": name}
    if name in _TRANSACTION_MARKERS and value is not None and len(value) == _INT16.size + _INT32.size:
        (version,), (epoch,) = _INT16.unpack_from(value), _INT32.unpack_from(value, _INT16.size)
        return CONTROL, fields, {"version": version, "coordinator_epoch": epoch}, None
    return CONTROL, fields, _hex_fields(value), None


def _decode_offsets_record(record: Record) -> DecodedFields:
    key = record.key
    if key is None or len(key) < _INT16.size:
        return UNKNOWN, _hex_fields(key), _hex_fields(record.value), "a record without a type"
    (key_type,) = _INT16.unpack_from(key)
    name = TYPE_NAMES.get(key_type, UNKNOWN)
    try:
        decoded = decode_key(key)
    except Malformed as error:
        return name, {"type": key_type, "hex": key.hex()}, _versioned_fields(record.value), str(error)
    if isinstance(decoded, UnknownKey):
        return name, _undecoded_key_fields(key_type, key), _versioned_fields(record.value), None
    fields = {"type": key_type} | _decode_key_fields(decoded)
    if record.value is None:
        return name, fields, None, None
    try:
        return name, fields, _decode_value_fields(decoded, record.value), None
    except Malformed as error:
        return name, fields, _versioned_fields(record.value), str(error)


def decode_type_and_group(key: bytes | None) -> tuple[str, str | None]:
    """Return the type of a record of `__consumer_offsets`, and its group if the key has one, from the key alone."""
    name, fields, _, _ = _decode_offsets_record(Record(UNASSIGNED_OFFSET, NO_TIMESTAMP, key, None))
    return name, None if fields is None else fields.get("group")


def find_decode_error(record: Record) -> str | None:
    """Return why a record of `__consumer_offsets` cannot be decoded; None if it can, or if its type is
    unknown."""
    return _decode_offsets_record(record)[3]


def _undecoded_key_fields(key_type: int, key: bytes) -> Fields:
    """Return the fields of a key of a type that is not decoded. All such keys begin with the group."""
    fields: Fields = {"type": key_type}
    if key_type in TYPE_NAMES and len(key) >= 2 * _INT16.size:
        (length,) = _INT16.unpack_from(key, _INT16.size)
        group = key[2 * _INT16.size : 2 * _INT16.size + max(0, length)]
        try:
            if len(group) == length:
                fields["group"] = group.decode()
        except UnicodeDecodeError:
            return fields | {"hex": key.hex()}
    return fields | {"hex": key.hex()}


def _versioned_fields(value: bytes | None) -> Fields | None:
    if value is None:
        return None
    if len(value) < _INT16.size:
        return {"hex": value.hex()}
    return {"version": _INT16.unpack_from(value)[0], "hex": value.hex()}


def _decode_key_fields(key: Key) -> Fields:
    if isinstance(key, OffsetCommitKey):
        return {"group": key.group, "topic": key.topic, "partition": key.partition}
    return {"group": key.group} if isinstance(key, GroupMetadataKey) else key_fields(key)


def _decode_value_fields(key: Key, data: bytes) -> Fields:
    value = decode_value(key, data)
    version = {"version": _INT16.unpack_from(data)[0]}
    if isinstance(value, OffsetCommitValue):
        return version | {
            "offset": value.offset,
            "leader_epoch": value.leader_epoch,
            "metadata": value.metadata,
            "commit_timestamp": value.commit_timestamp,
            "expire_timestamp": value.expire_timestamp,
            "topic_id": None if value.topic_id == ZERO_UUID else uuid_to_text(value.topic_id),
        }
    if isinstance(value, GroupMetadataValue):
        return version | _group_fields(value)
    return version | value_fields(value, _subscription_fields)


def _group_fields(value: GroupMetadataValue) -> Fields:
    is_consumer = value.protocol_type == PROTOCOL_TYPE
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "current_state_timestamp": value.current_state_timestamp,
        "members": [_member_fields(member, is_consumer) for member in value.members],
    }


def _member_fields(member: MemberMetadata, is_consumer: bool) -> Fields:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout": member.rebalance_timeout,
        "session_timeout": member.session_timeout,
        "subscription": _subscription_fields(member.subscription)
        if is_consumer
        else _hex_fields(member.subscription),
        "assignment": _assignment_fields(member.assignment)
        if is_consumer
        else _hex_fields(member.assignment),
    }


def _subscription_fields(data: bytes) -> Fields:
    """Return the subscription of a consumer group member; its bytes if it is of another protocol."""
    try:
        value = decode_subscription(data)
    except Malformed:
        return {"hex": data.hex()}
    return {
        "version": _INT16.unpack_from(data)[0],
        "topics": value.topics,
        "owned_partitions": _partition_fields(value.owned_partitions),
        "generation_id": value.generation_id,
        "rack_id": value.rack_id,
        "user_data": None if value.user_data is None else value.user_data.hex(),
    }


def _assignment_fields(data: bytes) -> Fields:
    try:
        value = decode_assignment(data)
    except Malformed:
        return {"hex": data.hex()}
    return {
        "version": _INT16.unpack_from(data)[0],
        "assigned_partitions": _partition_fields(value.assigned_partitions),
        "user_data": None if value.user_data is None else value.user_data.hex(),
    }


def _partition_fields(topics: list[TopicPartitions]) -> list[Fields]:
    return [{"topic": topic.topic, "partitions": topic.partitions} for topic in topics]


def key_fields(key: Any) -> dict[str, Any]:
    """Return the fields of a key: the group, which has the same name in all keys, and the member or the
    expression."""
    fields = asdict(key)
    return {"group": fields.pop("group_id")} | fields


def value_fields(value: Any, subscription: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    """Return all fields of a value. `subscription` decodes the subscription of a classic member."""

    def plain(part: Any) -> Any:
        if isinstance(part, ClassicProtocol):
            return {"name": part.name, "subscription": subscription(part.metadata)}
        if isinstance(part, Struct):
            return {name: plain(field) for name, field in asdict(part).items()}
        if isinstance(part, list):
            return [plain(each) for each in part]
        return uuid_to_text(part) if isinstance(part, bytes) else part

    fields: dict[str, Any] = plain(value)
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        fields["state_name"] = MEMBER_STATES.get(value.state, "unknown")
    return fields


def find_value_topics(value: dict[str, Any]) -> list[str]:
    """Return the topics that a value names. Assignments have only topic ids."""
    matched = [topic if isinstance(topic, str) else topic["topic_name"] for topic in value.get("topics", ())]
    return [*value.get("subscribed_topic_names", ()), *matched]


# Records of `__transaction_state`

_TRANSACTION_VALUE_VERSIONS: Final = range(2)


def decode_transaction_record(record: Record) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the key and the value of a record, with None for a tombstone. Raises Malformed."""
    key: TransactionLogKey = decoder(TransactionLogKey, KEY_VERSION)(
        record.key or b"", _check_version(record.key, "key", range(KEY_VERSION, KEY_VERSION + 1))
    )
    fields = {"transactional_id": key.transactional_id}
    return fields, None if record.value is None else _decode_transaction_value(record.value)


def _check_version(data: bytes | None, what: str, known: range) -> int:
    """Check the version of a value; return the position of its fields."""
    if data is None or len(data) < _INT16.size:
        raise Malformed(f"a record without a version of its {what}")
    (version,) = _INT16.unpack_from(data)
    if version not in known:
        raise Malformed(f"version {version} of a {what} of {TRANSACTIONS_TOPIC} is not known")
    return _INT16.size


def _decode_transaction_value(data: bytes) -> dict[str, Any]:
    start = _check_version(data, "value", _TRANSACTION_VALUE_VERSIONS)
    (version,) = _INT16.unpack_from(data)
    value: TransactionLogValue = decoder(TransactionLogValue, version)(data, start)
    partitions = value.transaction_partitions
    fields: dict[str, Any] = {
        "version": version,
        "producer_id": value.producer_id,
        "producer_epoch": value.producer_epoch,
        "transaction_timeout_ms": value.transaction_timeout_ms,
        "transaction_status": value.transaction_status,
        "state": TRANSACTION_STATES.get(value.transaction_status, "unknown"),
        "transaction_partitions": None
        if partitions is None
        else [{"topic": each.topic, "partition_ids": each.partition_ids} for each in partitions],
        "transaction_last_update_timestamp_ms": value.transaction_last_update_timestamp_ms,
        "transaction_start_timestamp_ms": value.transaction_start_timestamp_ms,
    }
    if version:
        fields |= {
            "previous_producer_id": value.previous_producer_id,
            "next_producer_id": value.next_producer_id,
            "client_transaction_version": value.client_transaction_version,
            "next_producer_epoch": value.next_producer_epoch,
        }
    return fields
