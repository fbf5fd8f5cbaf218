"""OffsetForLeaderEpoch (23): the end offset of a leader epoch (KIP-279, KIP-320)."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, String, request, response, since, struct


@struct
class OffsetForLeaderPartition:
    """A partition and the epoch to look up."""

    partition: Int32
    current_leader_epoch: Int32 = since("2+", default=-1)
    leader_epoch: Int32


@struct
class OffsetForLeaderTopic:
    """A topic of the request."""

    topic: String
    partitions: Array[OffsetForLeaderPartition]


@request(ApiKey.OFFSET_FOR_LEADER_EPOCH)
class OffsetForLeaderEpochRequest:
    """v2 current leader epoch · v3 replica id"""

    replica_id: Int32 = since("3+", default=-2)
    topics: Array[OffsetForLeaderTopic]


@struct
class EpochEndOffset:
    """The end offset of a leader epoch."""

    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = since("1+", default=-1)
    end_offset: Int64 = since(default=-1)


@struct
class OffsetForLeaderTopicResult:
    """A topic of the response."""

    topic: String
    partitions: Array[EpochEndOffset]


@response(ApiKey.OFFSET_FOR_LEADER_EPOCH)
class OffsetForLeaderEpochResponse:
    """v1 leader epoch · v2 throttle time"""

    throttle_time_ms: Int32 = since("2+", default=0)
    topics: Array[OffsetForLeaderTopicResult]
