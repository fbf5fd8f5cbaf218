"""ElectLeaders (43): elect the preferred leader, or any live replica (KIP-460)."""

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
    """A topic and the partitions for an election."""

    topic: String
    partitions: Array[Int32]


@request(ApiKey.ELECT_LEADERS)
class ElectLeadersRequest:
    """v1 election types other than the preferred leader. Null partitions request all of them."""

    election_type: Int8 = since("1+", default=0)
    topic_partitions: NullableArray[TopicPartitions]
    timeout_ms: Int32 = since(default=60000)


@struct
class PartitionResult:
    """The result of the election in one partition."""

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
