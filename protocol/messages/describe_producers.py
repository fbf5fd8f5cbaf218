"""DescribeProducers (61): the active producers of partitions (KIP-664)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
)


@struct
class DescribeProducersTopicRequest:
    """Partitions of one topic."""

    name: String
    partition_indexes: Array[Int32]


@request(ApiKey.DESCRIBE_PRODUCERS)
class DescribeProducersRequest:
    """The partitions to describe, by topic."""

    topics: Array[DescribeProducersTopicRequest]


@struct
class DescribeProducersProducerState:
    """A producer of a partition; -1 means absent. The epoch is an int32 in this API."""

    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = since(default=-1)
    last_timestamp: Int64 = since(default=-1)
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = since(default=-1)


@struct
class DescribeProducersPartitionResponse:
    """The producers of one partition."""

    partition_index: Int32
    error_code: Int16
    error_message: NullableString = since(default=None)
    active_producers: Array[DescribeProducersProducerState]


@struct
class DescribeProducersTopicResponse:
    """The partitions of one topic."""

    name: String
    partitions: Array[DescribeProducersPartitionResponse]


@response(ApiKey.DESCRIBE_PRODUCERS)
class DescribeProducersResponse:
    """The producers of partitions, by topic."""

    throttle_time_ms: Int32 = since(default=0)
    topics: Array[DescribeProducersTopicResponse]
