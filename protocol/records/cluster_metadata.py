"""Records of a KRaft cluster's metadata log (`__cluster_metadata`) that groupd reads when it adopts a data
directory of Kafka: names, ids, partitions and configs of topics, ACLs, and SCRAM credentials.

A record's value is a frame version, a record type and that type's version, three unsigned varints, and the
record. Source: KIP-500, KIP-631, KIP-868.
"""

from typing import Final, TypeAlias

from protocol.codec import decode_prefix
from protocol.primitives import Malformed, read_uvarint
from protocol.schema import Bytes, Int8, Int32, NullableString, String, Uuid, data, message_info

FRAME_VERSION: Final = 1
TOPIC_RESOURCE: Final = 2


@data(versions="0+", flexible="0+")
class TopicRecord:
    """A topic was created, with its id."""

    name: String
    topic_id: Uuid


@data(versions="0+")
class PartitionRecord:
    """A partition of a topic was created. The other fields are not declared, nor are the tagged fields at the
    end."""

    partition_id: Int32
    topic_id: Uuid


@data(versions="0+", flexible="0+")
class ConfigRecord:
    """A property was set, or removed (None). Resource type 2 is a topic."""

    resource_type: Int8
    resource_name: String
    name: String
    value: NullableString


@data(versions="0+", flexible="0+")
class RemoveTopicRecord:
    """A topic was removed, with its partitions and properties."""

    topic_id: Uuid


@data(versions="0+", flexible="0+")
class UserScramCredentialRecord:
    """A SCRAM credential of a user was set. It contains the keys that check proofs of the password."""

    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


@data(versions="0+", flexible="0+")
class RemoveUserScramCredentialRecord:
    """The removal of a user's credential."""

    name: String
    mechanism: Int8


@data(versions="0+", flexible="0+")
class AccessControlEntryRecord:
    """An ACL was added. The numbers are those of `coordinator/security/core/acl.py`."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@data(versions="0+", flexible="0+")
class RemoveAccessControlEntryRecord:
    """An ACL was removed, by its id."""

    id: Uuid


@data(versions="0+", flexible="0+")
class BeginTransactionRecord:
    """The begin of a transaction: the following records count together, or not at all."""


@data(versions="0+", flexible="0+")
class EndTransactionRecord:
    """The metadata transaction ended; its records take effect."""


@data(versions="0+", flexible="0+")
class AbortTransactionRecord:
    """The metadata transaction was aborted; its records are discarded."""


MetadataRecord: TypeAlias = (
    TopicRecord
    | PartitionRecord
    | ConfigRecord
    | RemoveTopicRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
)

_CLASSES: Final[dict[int, type[MetadataRecord]]] = {
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    9: RemoveTopicRecord,
    11: UserScramCredentialRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
}


def decode_metadata_record(value: bytes) -> MetadataRecord | None:
    """Decode a record from its value. Return None for a record of another type. Raises Malformed."""
    try:
        frame_version, position = read_uvarint(value, 0)
        record_type, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise Malformed(f"a metadata record of {len(value)} bytes") from None
    if frame_version != FRAME_VERSION:
        raise Malformed(f"frame version {frame_version} of a metadata record is not {FRAME_VERSION}")
    cls = _CLASSES.get(record_type)
    if cls is None:
        return None
    if version not in message_info(cls).versions:
        raise Malformed(f"{cls.__name__} has no version {version}")
    record: MetadataRecord = decode_prefix(cls, version, value, position)
    return record
