"""OffsetFetch (9): read committed offsets, of one group up to v7, of several from v8 on."""

from protocol.apis import ApiKey
from protocol.schema import (
    ZERO_UUID,
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uuid,
    request,
    response,
    since,
    struct,
)


@struct
class OffsetFetchRequestTopic:
    """A topic of the single-group form (v0-7)."""

    name: String
    partition_indexes: Array[Int32]


@struct
class OffsetFetchRequestTopics:
    """A topic of the batch form, by name in v8-9, by id from v10 on."""

    name: String = since("8-9", default="")
    topic_id: Uuid = since("10+", default=ZERO_UUID)
    partition_indexes: Array[Int32]


@struct
class OffsetFetchRequestGroup:
    """One group of the batch form. If `topics` is None, the response has all committed offsets."""

    group_id: String
    member_id: NullableString = since("9+", default=None)
    member_epoch: Int32 = since("9+", default=-1)
    topics: NullableArray[OffsetFetchRequestTopics] = since(default=None)


@request(ApiKey.OFFSET_FETCH)
class OffsetFetchRequest:
    """v2 all topics (null) · v7 require_stable (KIP-447) · v8 several groups (KIP-709) · v9 member and
    epoch (KIP-848) · v10 topic ids"""

    group_id: String = since("0-7", default="")
    topics: NullableArray[OffsetFetchRequestTopic] = since("0-7", nullable="2-7", default=None)
    groups: Array[OffsetFetchRequestGroup] = since("8+", default=[])
    require_stable: Bool = since("7+", default=False)


@struct
class OffsetFetchResponsePartition:
    """A partition's committed offset in the single-group form; -1 means none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since("5-7", default=-1)
    metadata: NullableString
    error_code: Int16


@struct
class OffsetFetchResponseTopic:
    """A topic of the single-group form."""

    name: String
    partitions: Array[OffsetFetchResponsePartition]


@struct
class OffsetFetchResponsePartitions:
    """A partition's committed offset in the batch form; -1 means none."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Int32 = since(default=-1)
    metadata: NullableString
    error_code: Int16


@struct
class OffsetFetchResponseTopics:
    """A topic of the batch form."""

    name: String = since("8-9", default="")
    topic_id: Uuid = since("10+", default=ZERO_UUID)
    partitions: Array[OffsetFetchResponsePartitions]


@struct
class OffsetFetchResponseGroup:
    """The committed offsets of one group."""

    group_id: String
    topics: Array[OffsetFetchResponseTopics]
    error_code: Int16 = since(default=0)


@response(ApiKey.OFFSET_FETCH)
class OffsetFetchResponse:
    """v2 top-level error · v3 throttle time · v5 leader epoch · v8 several groups · v10 topic ids"""

    throttle_time_ms: Int32 = since("3+", default=0)
    topics: Array[OffsetFetchResponseTopic] = since("0-7", default=[])
    error_code: Int16 = since("2-7", default=0)
    groups: Array[OffsetFetchResponseGroup] = since("8+", default=[])
