"""A record of a log with its meaning, as data that JSON can keep.

Fields have Kafka's names. What cannot be decoded is there as bytes, in hexadecimal digits, with the reason in
`error`: nothing is left out.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from coordinator.cli.log.consumer_group_entry import key_fields, topics_of, value_fields
from coordinator.cli.log.record_types import (
    CONTROL,
    CONTROL_NAMES,
    NAMES,
    RECORD,
    TRANSACTION,
    UNKNOWN,
)
from coordinator.cli.log.transaction_entry import TRANSACTIONS_TOPIC, decoded
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
)
from protocol.kinds import ZERO_UUID
from protocol.malformed import Malformed
from protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    Key,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
)
from storage.batch import NO_TIMESTAMP, BatchHeader
from storage.record import UNASSIGNED_OFFSET, Record
from storage.stored_batch import StoredBatch
from storage.topic_partition import TopicPartition
from storage.uuid_text import uuid_to_text

OFFSETS_TOPIC: Final = "__consumer_offsets"

Fields = dict[str, Any]

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_TRANSACTION_MARKERS: Final = ("abort", "commit")


class Entry(NamedTuple):
    """One record. `key` and `value` are None where the record has none."""

    name: TopicPartition | None
    batch: StoredBatch
    record: Record
    type: str
    key: Fields | None
    value: Fields | None
    error: str | None
    """Why key or value could not be decoded, None when they could."""

    @property
    def header(self) -> BatchHeader:
        """Of its batch."""
        return self.batch.header

    @property
    def is_tombstone(self) -> bool:
        """Whether it says that its key has no value any more."""
        return self.record.value is None and self.type != CONTROL

    @property
    def group(self) -> str | None:
        """The group that a record of `__consumer_offsets` belongs to, where it tells."""
        if self.key is None or self.type in (RECORD, CONTROL, TRANSACTION):
            return None
        group: str | None = self.key.get("group")
        return group

    def topics(self) -> set[str]:
        """The topics that a record of `__consumer_offsets` names, committed, subscribed, assigned, or one of
        `__transaction_state`."""
        found: set[str] = set()
        if self.type == TRANSACTION:
            partitions = (self.value or {}).get("transaction_partitions") or ()
            return {topic["topic"] for topic in partitions}
        if self.type in (RECORD, CONTROL) or self.key is None:
            return found
        if "topic" in self.key:
            found.add(self.key["topic"])
        found.update(topics_of(self.value or {}))
        for member in (self.value or {}).get("members", ()):
            found.update((member["subscription"] or {}).get("topics", ()))
            assigned = (member["assignment"] or {}).get("assigned_partitions", ())
            found.update(part["topic"] for part in assigned)
        return found


def entries(batch: StoredBatch, name: TopicPartition | None, is_offsets: bool) -> Iterator[Entry]:
    """The records of a sound batch with their meaning.

    In: the partition, where it is known; whether the records are those of `__consumer_offsets`.
    Raises CorruptBatch when the batch does not unpack into records.
    """
    is_of_transactions = name is not None and name.topic == TRANSACTIONS_TOPIC
    meaning = _transactions if is_of_transactions and not is_offsets else _plain
    meaning = _control if batch.header.is_control else _offsets if is_offsets else meaning
    for record in batch.records():
        yield Entry(name, batch, record, *meaning(record))


Meaning = tuple[str, Fields | None, Fields | None, str | None]


def _plain(record: Record) -> Meaning:
    return RECORD, _text(record.key), _text(record.value), None


def _transactions(record: Record) -> Meaning:
    try:
        return TRANSACTION, *decoded(record), None
    except Malformed as error:
        return TRANSACTION, _hex(record.key), _hex(record.value), str(error)


def _text(data: bytes | None) -> Fields | None:
    """Text where the bytes are printable text, digits otherwise."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return {"text": text} if all(part.isprintable() for part in text.split()) else {"hex": data.hex()}


def _hex(data: bytes | None) -> Fields | None:
    return None if data is None else {"hex": data.hex()}


def _control(record: Record) -> Meaning:
    key, value = record.key, record.value
    if key is None or len(key) < 2 * _INT16.size:
        return CONTROL, _hex(key), _hex(value), "a control record without a type"
    (version,), (kind,) = _INT16.unpack_from(key), _INT16.unpack_from(key, _INT16.size)
    name = CONTROL_NAMES.get(kind, UNKNOWN)
    fields = {"version": version, "type": kind, "marker": name}
    if name in _TRANSACTION_MARKERS and value is not None and len(value) == _INT16.size + _INT32.size:
        (version,), (epoch,) = _INT16.unpack_from(value), _INT32.unpack_from(value, _INT16.size)
        return CONTROL, fields, {"version": version, "coordinator_epoch": epoch}, None
    return CONTROL, fields, _hex(value), None


def _offsets(record: Record) -> Meaning:
    key = record.key
    if key is None or len(key) < _INT16.size:
        return UNKNOWN, _hex(key), _hex(record.value), "a record without a type"
    (key_type,) = _INT16.unpack_from(key)
    name = NAMES.get(key_type, UNKNOWN)
    try:
        decoded = decode_key(key)
    except Malformed as error:
        return name, {"type": key_type, "hex": key.hex()}, _versioned(record.value), str(error)
    if isinstance(decoded, UnknownKey):
        return name, _other_key(key_type, key), _versioned(record.value), None
    fields = {"type": key_type} | _key(decoded)
    if record.value is None:
        return name, fields, None, None
    try:
        return name, fields, _value(decoded, record.value), None
    except Malformed as error:
        return name, fields, _versioned(record.value), str(error)


def name_and_group(key: bytes | None) -> tuple[str, str | None]:
    """The type of a record of `__consumer_offsets`, and its group where the key tells, from the key alone."""
    name, fields, _, _ = _offsets(Record(UNASSIGNED_OFFSET, NO_TIMESTAMP, key, None))
    return name, None if fields is None else fields.get("group")


def what_is_wrong(record: Record) -> str | None:
    """Why a record of `__consumer_offsets` cannot be decoded, None when it can or is of a type not known here."""
    return _offsets(record)[3]


def _other_key(key_type: int, key: bytes) -> Fields:
    """A key of a type that is not decoded: the group is what all of them begin with."""
    fields: Fields = {"type": key_type}
    if key_type in NAMES and len(key) >= 2 * _INT16.size:
        (length,) = _INT16.unpack_from(key, _INT16.size)
        group = key[2 * _INT16.size : 2 * _INT16.size + max(0, length)]
        try:
            if len(group) == length:
                fields["group"] = group.decode()
        except UnicodeDecodeError:
            return fields | {"hex": key.hex()}
    return fields | {"hex": key.hex()}


def _versioned(value: bytes | None) -> Fields | None:
    if value is None:
        return None
    if len(value) < _INT16.size:
        return {"hex": value.hex()}
    return {"version": _INT16.unpack_from(value)[0], "hex": value.hex()}


def _key(key: Key) -> Fields:
    if isinstance(key, OffsetCommitKey):
        return {"group": key.group, "topic": key.topic, "partition": key.partition}
    return {"group": key.group} if isinstance(key, GroupMetadataKey) else key_fields(key)


def _value(key: Key, data: bytes) -> Fields:
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
        return version | _group(value)
    return version | value_fields(value, _subscription)


def _group(value: GroupMetadataValue) -> Fields:
    is_consumer = value.protocol_type == PROTOCOL_TYPE
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "current_state_timestamp": value.current_state_timestamp,
        "members": [_member(member, is_consumer) for member in value.members],
    }


def _member(member: MemberMetadata, is_consumer: bool) -> Fields:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout": member.rebalance_timeout,
        "session_timeout": member.session_timeout,
        "subscription": _subscription(member.subscription) if is_consumer else _hex(member.subscription),
        "assignment": _assignment(member.assignment) if is_consumer else _hex(member.assignment),
    }


def _subscription(data: bytes) -> Fields:
    """Of a member of a group of consumers; as bytes where it is something else, as it may be."""
    try:
        value = decode_subscription(data)
    except Malformed:
        return {"hex": data.hex()}
    return {
        "version": _INT16.unpack_from(data)[0],
        "topics": value.topics,
        "owned_partitions": _partitions(value.owned_partitions),
        "generation_id": value.generation_id,
        "rack_id": value.rack_id,
        "user_data": None if value.user_data is None else value.user_data.hex(),
    }


def _assignment(data: bytes) -> Fields:
    try:
        value = decode_assignment(data)
    except Malformed:
        return {"hex": data.hex()}
    return {
        "version": _INT16.unpack_from(data)[0],
        "assigned_partitions": _partitions(value.assigned_partitions),
        "user_data": None if value.user_data is None else value.user_data.hex(),
    }


def _partitions(topics: list[TopicPartitions]) -> list[Fields]:
    return [{"topic": topic.topic, "partitions": topic.partitions} for topic in topics]
