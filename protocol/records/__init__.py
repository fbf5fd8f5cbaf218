"""The records of `__consumer_offsets`: Kafka's key and value schemas, and their bytes. `record_types.py` says what
types there are.

Key and value each begin with an int16. In a key it is the type of the record (historically the "version"
of the key); in a value it is the version of the value's schema. Source: the message definitions of Kafka's
group-coordinator module.
"""

from protocol.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.records.serde import (
    Key,
    UnknownKey,
    Value,
    canonical_key,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

__all__ = [
    "GroupMetadataKey",
    "GroupMetadataValue",
    "Key",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "UnknownKey",
    "Value",
    "canonical_key",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
]
