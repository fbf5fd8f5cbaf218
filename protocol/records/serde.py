"""Record keys and values to bytes and back."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from protocol.codec import decoder, writer
from protocol.malformed import Malformed
from protocol.records.consumer_group import (
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
)
from protocol.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.records.record_type import ServedType
from protocol.records.record_types import BY_KEY, BY_NUMBER

_INT16: Final = Struct(">h")


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key of a type that is not decoded here (share and streams groups): its type and bytes.

    Such records stay in the log as they are."""

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
    """The bytes of a key, its type in front."""
    number = BY_KEY[type(key)].number
    out = bytearray(_INT16.pack(number))
    writer(type(key), number)(key, out)
    return bytes(out)


def encode_value(value: Value, version: int) -> bytes:
    """The bytes of a value in one version of its schema, the version in front."""
    out = bytearray(_INT16.pack(version))
    writer(type(value), version)(value, out)
    return bytes(out)


def decode_key(data: bytes) -> Key | UnknownKey:
    """A key from its bytes; UnknownKey for a type that is not served, Malformed when one that is does not
    parse."""
    number = _leading_int16(data, "key")
    kind = BY_NUMBER.get(number)
    if not isinstance(kind, ServedType):
        return UnknownKey(number, data)
    key: Key = decoder(kind.key, number)(data, 2)
    return key


def canonical_key(data: bytes) -> bytes | None:
    """The one form of a key that may be written in several; None for one of a type that is not served. Raises
    Malformed."""
    if isinstance(decode_key(data), UnknownKey):
        return None
    number = _leading_int16(data, "key")
    kind = BY_NUMBER[number]
    return data if number == kind.number else _INT16.pack(kind.number) + data[_INT16.size :]


def decode_value(key: Key, data: bytes) -> Value:
    """The value that belongs to `key`; Malformed when it does not parse or has an unknown version."""
    version = _leading_int16(data, "value")
    kind = BY_KEY[type(key)]
    if version not in kind.value_versions:
        raise Malformed(f"{kind.value.__name__} has no version {version}")
    value: Value = decoder(kind.value, version)(data, 2)
    return value


def _leading_int16(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise Malformed(f"a record {what} of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
