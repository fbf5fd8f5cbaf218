"""DescribeTopicPartitions (75): topics page by page (KIP-966)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
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
class TopicRequest:
    """A topic to describe."""

    name: String


@struct
class Cursor:
    """The first partition of a page."""

    topic_name: String
    partition_index: Int32


@request(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsRequest:
    """A cursor continues where the last page ended."""

    topics: Array[TopicRequest]
    response_partition_limit: Int32 = since(default=2000)
    cursor: Cursor | None = since(default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    """A partition with its replicas."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Int32 = since(default=-1)
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    eligible_leader_replicas: NullableArray[Int32] = since(default=None)
    last_known_elr: NullableArray[Int32] = since(default=None)
    offline_replicas: Array[Int32]


@struct
class DescribeTopicPartitionsResponseTopic:
    """A topic and the partitions of it that fit on this page."""

    error_code: Int16
    name: NullableString = since(default=None)
    topic_id: Uuid
    is_internal: Bool = since(default=False)
    partitions: Array[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: Int32 = since(default=-2147483648)


@response(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
class DescribeTopicPartitionsResponse:
    """`next_cursor` is null on the last page."""

    throttle_time_ms: Int32 = since(default=0)
    topics: Array[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = since(default=None)
