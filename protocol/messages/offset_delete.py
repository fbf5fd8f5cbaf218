"""OffsetDelete (47): delete committed offsets of topics to which the group is not subscribed."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, Int32, String, request, response, since, struct


@struct
class OffsetDeleteRequestPartition:
    """A partition with a committed offset to delete."""

    partition_index: Int32


@struct
class OffsetDeleteRequestTopic:
    """A topic of the request."""

    name: String
    partitions: Array[OffsetDeleteRequestPartition]


@request(ApiKey.OFFSET_DELETE)
class OffsetDeleteRequest:
    """Delete committed offsets of a group (KIP-496)."""

    group_id: String
    topics: Array[OffsetDeleteRequestTopic]


@struct
class OffsetDeleteResponsePartition:
    """The result for the offset of one partition."""

    partition_index: Int32
    error_code: Int16


@struct
class OffsetDeleteResponseTopic:
    """A topic of the response."""

    name: String
    partitions: Array[OffsetDeleteResponsePartition]


@response(ApiKey.OFFSET_DELETE)
class OffsetDeleteResponse:
    """Unlike in other responses, the error comes before the throttle time."""

    error_code: Int16
    throttle_time_ms: Int32 = since(default=0)
    topics: Array[OffsetDeleteResponseTopic] = since(default=[])
