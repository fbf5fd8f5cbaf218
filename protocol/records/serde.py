"""Record keys and values to bytes and back."""

from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from protocol.codec import decoder, writer
from protocol.malformed import Malformed
from protocol.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.schema import message_info

_INT16: Final = Struct(">h")

OFFSET_COMMIT_TYPE: Final = 1
GROUP_METADATA_TYPE: Final = 2


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """A key of a type that is not decoded here (consumer, share and streams groups): its type and bytes.

    Such records stay in the log as they are."""

    type: int
    data: bytes


Key: TypeAlias = OffsetCommitKey | GroupMetadataKey
Value: TypeAlias = OffsetCommitValue | GroupMetadataValue

KEY_CLASSES: Final[dict[int, type[Key]]] = {0: OffsetCommitKey, 1: OffsetCommitKey, 2: GroupMetadataKey}
_KEY_TYPES: Final[dict[type[Key], int]] = {
    OffsetCommitKey: OFFSET_COMMIT_TYPE,
    GroupMetadataKey: GROUP_METADATA_TYPE,
}
VALUE_CLASSES: Final[dict[type[Key], type[Value]]] = {
    OffsetCommitKey: OffsetCommitValue,
    GroupMetadataKey: GroupMetadataValue,
}


def encode_key(key: Key) -> bytes:
    """The bytes of a key, its type in front."""
    record_type = _KEY_TYPES[type(key)]
    out = bytearray(_INT16.pack(record_type))
    writer(type(key), record_type)(key, out)
    return bytes(out)


def encode_value(value: Value, version: int) -> bytes:
    """The bytes of a value in one version of its schema, the version in front."""
    out = bytearray(_INT16.pack(version))
    writer(type(value), version)(value, out)
    return bytes(out)


def decode_key(data: bytes) -> Key | UnknownKey:
    """A key from its bytes; UnknownKey for other types than offset commits and classic groups, Malformed
    when a known type does not parse."""
    record_type = _leading_int16(data, "key")
    cls = KEY_CLASSES.get(record_type)
    if cls is None:
        return UnknownKey(record_type, data)
    key: Key = decoder(cls, record_type)(data, 2)
    return key


def decode_value(key: Key, data: bytes) -> Value:
    """The value that belongs to `key`; Malformed when it does not parse or has an unknown version."""
    version = _leading_int16(data, "value")
    cls = VALUE_CLASSES[type(key)]
    if version not in message_info(cls).versions:
        raise Malformed(f"{cls.__name__} has no version {version}")
    value: Value = decoder(cls, version)(data, 2)
    return value


def _leading_int16(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise Malformed(f"a record {what} of {len(data)} bytes")
    number: int = _INT16.unpack_from(data)[0]
    return number
