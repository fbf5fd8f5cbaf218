"""ListOffsets (2): the offset of a timestamp, or the start or the end of the log."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int8, Int16, Int32, Int64, String, request, response, since, struct


@struct
class ListOffsetsPartition:
    """A timestamp to look up: -1 is the latest offset, -2 the earliest, -3 the maximum timestamp."""

    partition_index: Int32
    current_leader_epoch: Int32 = since("4+", default=-1)
    timestamp: Int64
    max_num_offsets: Int32 = since("0", default=1)


@struct
class ListOffsetsTopic:
    """A topic of the request."""

    name: String
    partitions: Array[ListOffsetsPartition]


@request(ApiKey.LIST_OFFSETS)
class ListOffsetsRequest:
    """v1 one offset only · v2 isolation level · v4 leader epoch · v7 max timestamp (KIP-734) · v8
    earliest local · v9 latest tiered · v10 timeout · v11 earliest pending upload"""

    replica_id: Int32
    isolation_level: Int8 = since("2+", default=0)
    topics: Array[ListOffsetsTopic]
    timeout_ms: Int32 = since("10+", default=0)


@struct
class ListOffsetsPartitionResponse:
    """The found offset, or -1."""

    partition_index: Int32
    error_code: Int16
    old_style_offsets: Array[Int64] = since("0", default=[])
    timestamp: Int64 = since("1+", default=-1)
    offset: Int64 = since("1+", default=-1)
    leader_epoch: Int32 = since("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    """A topic of the response."""

    name: String
    partitions: Array[ListOffsetsPartitionResponse]


@response(ApiKey.LIST_OFFSETS)
class ListOffsetsResponse:
    """v0 a list of offsets · v1 timestamp and offset · v2 throttle time · v4 leader epoch"""

    throttle_time_ms: Int32 = since("2+", default=0)
    topics: Array[ListOffsetsTopicResponse]
