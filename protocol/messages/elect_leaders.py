"""ElectLeaders (43): the preferred leader again, or any one (KIP-460)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
)


@struct
class TopicPartitions:
    """A topic and the partitions that are to have a leader elected."""

    topic: String
    partitions: Array[Int32]


@request(ApiKey.ELECT_LEADERS)
class ElectLeadersRequest:
    """v1 other elections than that of the preferred leader. Null partitions: all of them."""

    election_type: Int8 = since("1+", default=0)
    topic_partitions: NullableArray[TopicPartitions]
    timeout_ms: Int32 = since(default=60000)


@struct
class PartitionResult:
    """Whether a partition has another leader now."""

    partition_id: Int32
    error_code: Int16
    error_message: NullableString


@struct
class ReplicaElectionResult:
    """The results of the partitions of one topic."""

    topic: String
    partition_result: Array[PartitionResult]


@response(ApiKey.ELECT_LEADERS)
class ElectLeadersResponse:
    """v1 an error of the whole request"""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16 = since("1+", default=0)
    replica_election_results: Array[ReplicaElectionResult]
