"""Records of __consumer_offsets: encoding, decoding, batch size, and the interface of a record store."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from struct import Struct
from typing import Any, Final, Protocol, Self

from coordinator.core.message_text import list_ranges
from coordinator.core.outcome import EncodedFact, Fact
from protocol.records.group_record_schemas import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupTargetAssignmentMemberValue,
    CurrentTopicPartitions,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import (
    SERVED_TYPES,
    TOPIC_ID_OFFSET_VERSION,
    ServedRecordType,
    UnknownKey,
    canonical_key,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from protocol.schema import ZERO_UUID
from storage.batch_size import calculate_batch_size_of_lengths

MAX_KEPT_KEYS: Final = 100_000
_OFFSET_KEY_BYTES: Final = 2 + 2 + 2 + 4  # version, lengths of group and topic, partition
_ANY_UUID: Final = b"\x01" * 16
_INT16: Final = Struct(">h")
_MAX_SHORT_TEXT: Final = 126  # its length and one more fit in one byte of a varint
_VALUE_START: Final = Struct(">hqiB")  # version, offset, leader epoch, length of the text and one more
_VALUE_END: Final = Struct(">qBBB16s")  # commit timestamp; one tag, number 0, of 16 bytes: the topic id
_VALUE_WITHOUT_TEXT: Final = Struct(">hqiBqBBB16s")  # both parts together, the most frequent form

_SHORT_ARRAY: Final = 127  # its length and one more fit in one byte of an unsigned varint
_TARGET_BYTES: Final = 2 + 1  # version and tags of a target
_CURRENT_BYTES: Final = 2 + 4 + 4 + 1 + 1  # version, both epochs, state and tags of a current assignment
_TOPIC_BYTES: Final = 16 + 1  # id and tags of a topic in either

# Creates an `EncodedFact` without the argument handling of the class, which costs more than the rest.
_new_encoded = tuple.__new__


class GroupRecordCodec:
    """The codec for the supported records of `__consumer_offsets`."""

    contents: Final = (
        f"groups, of record types "
        f"{', '.join(list_ranges((number for kind in SERVED_TYPES for number in kind.numbers), ' to '))}"
    )

    def encode(self, fact: Fact) -> EncodedFact:
        """Return the key and the value of a fact."""
        return EncodedFact(encode_key(fact.key), _encode_value(fact))

    def encoder(self) -> Callable[[Fact], EncodedFact]:
        """Return an encoder of facts that caches the keys of offsets."""
        return _Encoder().encode

    def canonical_key(self, key: bytes) -> bytes | None:
        """Return the canonical form of a key; None for an unsupported type. Raises Malformed."""
        return canonical_key(key)

    def decode(self, key: bytes, value: bytes) -> Fact:
        """Decode a fact of a supported type. Raises Malformed."""
        decoded = decode_key(key)
        assert not isinstance(decoded, UnknownKey), decoded
        return Fact(decoded, decode_value(decoded, value), _INT16.unpack_from(value)[0])


class _Encoder:
    """Encodes the facts of one partition."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str, int], bytes] = {}

    def encode(self, fact: Fact) -> EncodedFact:
        key = fact.key
        if type(key) is not OffsetCommitKey:
            return EncodedFact(encode_key(key), _encode_value(fact))
        name = (key.group, key.topic, key.partition)
        raw = self._keys.get(name)
        if raw is None:
            if len(self._keys) >= MAX_KEPT_KEYS:
                self._keys.clear()
            raw = self._keys[name] = encode_key(key)
        value = fact.value
        if value is not None and fact.value_version == TOPIC_ID_OFFSET_VERSION:  # nearly always
            return _new_encoded(EncodedFact, (raw, encode_offset(value)))
        return _new_encoded(EncodedFact, (raw, _encode_value(fact)))


def _encode_value(fact: Fact) -> bytes | None:
    value = fact.value
    if value is None:
        return None
    if type(value) is OffsetCommitValue and fact.value_version == TOPIC_ID_OFFSET_VERSION:
        return encode_offset(value)
    return encode_value(value, fact.value_version)


def encode_offset(value: OffsetCommitValue) -> bytes:
    """Encode a committed offset with a topic id. Equals `encode_value` for version 4."""
    text = value.metadata
    if (text and (len(text) > _MAX_SHORT_TEXT or not text.isascii())) or value.topic_id == ZERO_UUID:
        return encode_value(value, TOPIC_ID_OFFSET_VERSION)
    offset, leader_epoch, time_ms = value.offset, value.leader_epoch, value.commit_timestamp
    if not text:
        return _VALUE_WITHOUT_TEXT.pack(
            TOPIC_ID_OFFSET_VERSION, offset, leader_epoch, 1, time_ms, 1, 0, 16, value.topic_id
        )
    start = _VALUE_START.pack(TOPIC_ID_OFFSET_VERSION, offset, leader_epoch, len(text) + 1)
    return start + text.encode() + _VALUE_END.pack(time_ms, 1, 0, 16, value.topic_id)


def compute_batch_size(records: Iterable[Fact]) -> int:
    """Return the size in bytes of an uncompressed batch of these records, which share one timestamp."""
    return calculate_batch_size_of_lengths(
        (compute_key_size(record.key), compute_value_size(record)) for record in records
    )


def compute_key_size(key: Any) -> int:
    """Return the size in bytes of a record's key. Computed without encoding for keys of offsets."""
    if type(key) is OffsetCommitKey:
        return _OFFSET_KEY_BYTES + _measure_text(key.group) + _measure_text(key.topic)
    return len(encode_key(key))


def compute_value_size(fact: Fact) -> int | None:
    """Return the size in bytes of a record's value; None for a tombstone. Computed without encoding for offsets,
    and for values of consumer groups, which may name thousands of topics.
    """
    value = fact.value
    if value is None:
        return None
    if type(value) is OffsetCommitValue:
        version, text_bytes = fact.value_version, _measure_text(value.metadata)
        size = measure_offset_without_text(version, has_topic_id=value.topic_id != ZERO_UUID) + text_bytes
        return size + (_measure_array_length(text_bytes) - 1 if version == TOPIC_ID_OFFSET_VERSION else 0)
    if type(value) is ConsumerGroupTargetAssignmentMemberValue:
        return compute_target_size(len(topic.partitions) for topic in value.topic_partitions)
    if type(value) is ConsumerGroupCurrentMemberAssignmentValue:
        topics = (value.assigned_partitions, value.partitions_pending_revocation)
        return _CURRENT_BYTES + sum(map(_compute_current_topics_size, topics))
    return len(encode_value(value, fact.value_version))


@cache
def measure_offset_without_text(version: int, *, has_topic_id: bool) -> int:
    """Return the size in bytes of an offset's value without metadata."""
    topic_id = _ANY_UUID if has_topic_id else ZERO_UUID
    value = OffsetCommitValue(offset=0, metadata="", commit_timestamp=0, topic_id=topic_id)
    return len(encode_value(value, version))


def _measure_text(text: str) -> int:
    """Return the size of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def compute_target_size(partition_counts: Iterable[int]) -> int:
    """Return the size in bytes of the record value of a target. `partition_counts` has the number of partitions of
    each topic.
    """
    topics = size = 0
    for count in partition_counts:
        topics += 1
        size += _TOPIC_BYTES + 4 * count + (1 if count < _SHORT_ARRAY else _measure_array_length(count))
    return _TARGET_BYTES + _measure_array_length(topics) + size


def _compute_current_topics_size(topics: Sequence[CurrentTopicPartitions]) -> int:
    size = _measure_array_length(len(topics))
    for topic in topics:
        count = len(topic.partitions)
        size += _TOPIC_BYTES + 4 * count + _measure_array_length(count)
        epochs = topic.assignment_epochs
        if epochs is not None:
            tag = 4 * len(epochs) + _measure_array_length(len(epochs))
            size += 1 + _measure_array_length(tag - 1) + tag
    return size


def _measure_array_length(count: int) -> int:
    """Return the size of a compact array's length: an unsigned varint of the count plus one."""
    return 1 if count < _SHORT_ARRAY else -(-(count + 1).bit_length() // 7)


class RecordStore(Protocol):
    """A store of records. `replay` is its only writer, also for indexes."""

    @property
    def record_types(self) -> Sequence[ServedRecordType]:
        """Return the types of records that the store keeps."""

    def replay(self, key: Any, value: Any, producer_id: int) -> None:
        """Apply the next record of the log; a value of None is a tombstone. `producer_id` identifies the
        transaction of the record, NO_PRODUCER_ID outside of transactions; most types never are in transactions.
        """

    def group_ids(self) -> Collection[str]:
        """Return the groups with records, in the order of their first records."""

    def __contains__(self, group_id: str) -> bool:
        """Return whether a group has records."""

    def __len__(self) -> int:
        """Return the number of keys that have a value."""

    def facts(self) -> Iterator[Fact]:
        """Yield records that restore this state from an empty store."""

    def copy(self) -> Self:
        """Return a copy that later records do not change. Fast: copies share their immutable values."""


def build_fact(record_type: ServedRecordType, key: Any, value: Any) -> Fact:
    """Build a record with a value, in the version to write."""
    return Fact(key, value, record_type.find_value_version(value))
