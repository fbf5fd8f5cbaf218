"""ListPartitionReassignments (46): reassignments in progress (KIP-455)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
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
class ListPartitionReassignmentsTopics:
    """A topic and the requested partitions."""

    name: String
    partition_indexes: Array[Int32]


@request(ApiKey.LIST_PARTITION_REASSIGNMENTS)
class ListPartitionReassignmentsRequest:
    """Null topics request all topics."""

    timeout_ms: Int32 = since(default=60000)
    topics: NullableArray[ListPartitionReassignmentsTopics] = since(default=None)


@struct
class OngoingPartitionReassignment:
    """The current replicas of a partition, with the replicas that a reassignment adds and removes."""

    partition_index: Int32
    replicas: Array[Int32]
    adding_replicas: Array[Int32]
    removing_replicas: Array[Int32]


@struct
class OngoingTopicReassignment:
    """A topic's partitions that are being reassigned."""

    name: String
    partitions: Array[OngoingPartitionReassignment]


@response(ApiKey.LIST_PARTITION_REASSIGNMENTS)
class ListPartitionReassignmentsResponse:
    """The reassignments in progress, by topic."""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16
    error_message: NullableString
    topics: Array[OngoingTopicReassignment]
