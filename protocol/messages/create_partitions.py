"""CreatePartitions (37): give topics more partitions."""

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
class CreatePartitionsAssignment:
    """The brokers that hold one new partition."""

    broker_ids: Array[Int32]


@struct
class CreatePartitionsTopic:
    """A topic to grow and its new partition count."""

    name: String
    count: Int32
    assignments: NullableArray[CreatePartitionsAssignment] = since(default=None)


@request(ApiKey.CREATE_PARTITIONS)
class CreatePartitionsRequest:
    """`count` is the new total."""

    topics: Array[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool


@struct
class CreatePartitionsTopicResult:
    """The result for one topic."""

    name: String
    error_code: Int16
    error_message: NullableString = since(default=None)


@response(ApiKey.CREATE_PARTITIONS)
class CreatePartitionsResponse:
    """v2 has the flexible encoding."""

    throttle_time_ms: Int32 = since(default=0)
    results: Array[CreatePartitionsTopicResult]
