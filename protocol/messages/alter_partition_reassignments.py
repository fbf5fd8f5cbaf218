"""AlterPartitionReassignments (45): change the replicas of partitions (KIP-455)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bool,
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
class ReassignablePartition:
    """A partition with its new replicas; null cancels a reassignment in progress."""

    partition_index: Int32
    replicas: NullableArray[Int32] = since(default=None)


@struct
class ReassignableTopic:
    """A topic and the partitions to reassign."""

    name: String
    partitions: Array[ReassignablePartition]


@request(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsRequest:
    """v1 whether the number of replicas may change (KIP-860)"""

    timeout_ms: Int32 = since(default=60000)
    allow_replication_factor_change: Bool = since("1+", default=True)
    topics: Array[ReassignableTopic]


@struct
class ReassignablePartitionResponse:
    """The result for one partition: its reassignment begins or is cancelled, or an error."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString


@struct
class ReassignableTopicResponse:
    """The results of the partitions of one topic."""

    name: String
    partitions: Array[ReassignablePartitionResponse]


@response(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
class AlterPartitionReassignmentsResponse:
    """v1 repeats whether the number of replicas may change"""

    throttle_time_ms: Int32 = since(default=0)
    allow_replication_factor_change: Bool = since("1+", default=True)
    error_code: Int16
    error_message: NullableString
    responses: Array[ReassignableTopicResponse]
