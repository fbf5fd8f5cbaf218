"""OffsetCommit (8): store the offsets of a group."""

from protocol.apis import ApiKey
from protocol.schema import (
    ZERO_UUID,
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    request,
    response,
    since,
    struct,
)


@struct
class OffsetCommitRequestPartition:
    """The offset of one partition, which is that of the next record to read."""

    partition_index: Int32
    committed_offset: Int64
    commit_timestamp: Int64 = since("1", default=-1)
    committed_leader_epoch: Int32 = since("6+", default=-1)
    committed_metadata: NullableString = since(default=None)


@struct
class OffsetCommitRequestTopic:
    """A topic, by name up to v9, by id from v10 on."""

    name: String = since("0-9", default="")
    topic_id: Uuid = since("10+", default=ZERO_UUID)
    partitions: Array[OffsetCommitRequestPartition]


@request(ApiKey.OFFSET_COMMIT)
class OffsetCommitRequest:
    """v1 member and commit timestamp · v2 retention time (until v4) · v6 leader epoch (KIP-320) · v7 static
    members (KIP-345) · v9 for KIP-848 members too · v10 topic ids"""

    group_id: String
    generation_id_or_member_epoch: Int32 = since("1+", default=-1)
    member_id: String = since("1+", default="")
    group_instance_id: NullableString = since("7+", default=None)
    retention_time_ms: Int64 = since("2-4", default=-1)
    topics: Array[OffsetCommitRequestTopic]


@struct
class OffsetCommitResponsePartition:
    """The result for the offset of one partition."""

    partition_index: Int32
    error_code: Int16


@struct
class OffsetCommitResponseTopic:
    """A topic with its name or id from the request."""

    name: String = since("0-9", default="")
    topic_id: Uuid = since("10+", default=ZERO_UUID)
    partitions: Array[OffsetCommitResponsePartition]


@response(ApiKey.OFFSET_COMMIT)
class OffsetCommitResponse:
    """v3 throttle time · v10 topic ids. A group's error is repeated on every partition."""

    throttle_time_ms: Int32 = since("3+", default=0)
    topics: Array[OffsetCommitResponseTopic]
