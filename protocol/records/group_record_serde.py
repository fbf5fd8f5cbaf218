"""All record types of `__consumer_offsets`, including types that groupd does not serve: their names, schemas
and written value versions, and the encoding of keys and values.

A value is written in the version that its content needs, as Kafka 4 does. Records of other types stay in the
log unchanged.

Source: Kafka's `CoordinatorRecordType`, `GroupCoordinatorRecordSerde`.
"""

from collections.abc import Callable
from struct import Struct as BinaryFormat
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from protocol.apis import VersionRange
from protocol.codec import decoder, writer
from protocol.primitives import Malformed
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
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.schema import ZERO_UUID, message_info

NO_EXPIRE_TIMESTAMP: Final = -1
GROUP_METADATA_VERSION: Final = 3
OFFSET_VERSION: Final = 3
TOPIC_ID_OFFSET_VERSION: Final = 4
"""The version of an offset's value with the topic id."""
EXPIRING_OFFSET_VERSION: Final = 1
"""The version of an offset's value with an expire timestamp. It has neither leader epoch nor topic id."""
_INT16: Final = BinaryFormat(">h")


class RecordType(Struct, frozen=True):
    """A record type of `__consumer_offsets`: the number with which its keys begin, and Kafka's name for it.

    Instances of this class itself are types that groupd does not serve. Their records stay in the log
    unchanged.
    """

    number: int
    name: str

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers with which keys of this type may begin."""
        return (self.number,)


class ServedRecordType(RecordType, frozen=True):
    """A record type that groupd reads and writes: the schemas of key and value, and the version of new values.
    Older keys with the same fields begin with one of `older_numbers`."""

    key: type[Any]
    value: type[Any]
    find_value_version: Callable[[Any], int]
    older_numbers: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers with which keys of this type may begin."""
        return (*self.older_numbers, self.number)

    @property
    def value_versions(self) -> VersionRange:
        """Return the versions in which a value may have been written."""
        return message_info(self.value).versions


def find_offset_version(value: OffsetCommitValue) -> int:
    """Return the version of an offset's value."""
    if value.expire_timestamp != NO_EXPIRE_TIMESTAMP:
        return EXPIRING_OFFSET_VERSION
    return OFFSET_VERSION if value.topic_id == ZERO_UUID else TOPIC_ID_OFFSET_VERSION


def find_group_metadata_version(_: GroupMetadataValue) -> int:
    """Return the version of a classic group's value."""
    return GROUP_METADATA_VERSION


def find_first_version(_: object) -> int:
    """Return the version of records with a single version."""
    return 0


OFFSET_COMMIT: Final = ServedRecordType(
    1,
    "offset_commit",
    OffsetCommitKey,
    OffsetCommitValue,
    find_offset_version,
    older_numbers=(0,),  # the number before Kafka 0.9
)
GROUP_METADATA: Final = ServedRecordType(
    2, "group_metadata", GroupMetadataKey, GroupMetadataValue, find_group_metadata_version
)
CONSUMER_GROUP_METADATA: Final = ServedRecordType(
    3, "consumer_group_metadata", ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, find_first_version
)
CONSUMER_GROUP_PARTITION_METADATA: Final = ServedRecordType(
    4,
    "consumer_group_partition_metadata",
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    find_first_version,
)
CONSUMER_GROUP_MEMBER_METADATA: Final = ServedRecordType(
    5,
    "consumer_group_member_metadata",
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    find_first_version,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Final = ServedRecordType(
    6,
    "consumer_group_target_assignment_metadata",
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    find_first_version,
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = ServedRecordType(
    7,
    "consumer_group_target_assignment_member",
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    find_first_version,
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = ServedRecordType(
    8,
    "consumer_group_current_member_assignment",
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    find_first_version,
)
CONSUMER_GROUP_REGULAR_EXPRESSION: Final = ServedRecordType(
    16,
    "consumer_group_regular_expression",
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    find_first_version,
)

RECORD_TYPES: Final[tuple[RecordType, ...]] = (
    OFFSET_COMMIT,
    GROUP_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_PARTITION_METADATA,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    RecordType(10, "share_group_member_metadata"),
    RecordType(11, "share_group_metadata"),
    RecordType(12, "share_group_target_assignment_metadata"),
    RecordType(13, "share_group_target_assignment_member"),
    RecordType(14, "share_group_current_member_assignment"),
    RecordType(15, "share_group_state_partition_metadata"),
    CONSUMER_GROUP_REGULAR_EXPRESSION,
    RecordType(17, "streams_group_metadata"),
    RecordType(19, "streams_group_member_metadata"),
    RecordType(20, "streams_group_target_assignment_metadata"),
    RecordType(21, "streams_group_target_assignment_member"),
    RecordType(22, "streams_group_current_member_assignment"),
    RecordType(23, "streams_group_topology"),
)

SERVED_TYPES: Final = tuple(kind for kind in RECORD_TYPES if isinstance(kind, ServedRecordType))

TYPES_BY_NUMBER: Final[dict[int, RecordType]] = {
    number: kind for kind in RECORD_TYPES for number in kind.numbers
}
TYPES_BY_KEY: Final[dict[type[Any], ServedRecordType]] = {kind.key: kind for kind in SERVED_TYPES}
"""The served types by the class of their keys."""


class UnknownKey(msgspec.Struct, frozen=True):
    """A key of a type that groupd does not decode (share and streams groups): its type and bytes.

    Such records stay in the log unchanged.
    """

    type: int
    data: bytes


Key: TypeAlias = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
Value: TypeAlias = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)


def encode_key(key: Key) -> bytes:
    """Encode a key, with its type first."""
    number = TYPES_BY_KEY[type(key)].number
    out = bytearray(_INT16.pack(number))
    writer(type(key), number)(key, out)
    return bytes(out)


def encode_value(value: Value, version: int) -> bytes:
    """Encode a value in one version of its schema, with the version first."""
    out = bytearray(_INT16.pack(version))
    writer(type(value), version)(value, out)
    return bytes(out)


def decode_key(data: bytes) -> Key | UnknownKey:
    """Decode a key. Return an UnknownKey for a type that is not served. Raises Malformed for an invalid key of
    a served type."""
    number = _read_leading_int16(data, "key")
    kind = TYPES_BY_NUMBER.get(number)
    if not isinstance(kind, ServedRecordType):
        return UnknownKey(number, data)
    key: Key = decoder(kind.key, number)(data, 2)
    return key


def canonical_key(data: bytes) -> bytes | None:
    """Return the canonical form of a key, because some keys have several encodings. Return None for a type
    that is not served. Raises Malformed."""
    if isinstance(decode_key(data), UnknownKey):
        return None
    number = _read_leading_int16(data, "key")
    kind = TYPES_BY_NUMBER[number]
    return data if number == kind.number else _INT16.pack(kind.number) + data[_INT16.size :]


def decode_value(key: Key, data: bytes) -> Value:
    """Decode the value that belongs to `key`. Raises Malformed for invalid bytes or an unknown version."""
    version = _read_leading_int16(data, "value")
    kind = TYPES_BY_KEY[type(key)]
    if version not in kind.value_versions:
        raise Malformed(f"{kind.value.__name__} has no version {version}")
    value: Value = decoder(kind.value, version)(data, 2)
    return value


def _read_leading_int16(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise Malformed(f"a record {what} of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
