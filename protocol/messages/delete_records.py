"""DeleteRecords (21): raise the log start offset of partitions (KIP-107)."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, String, request, response, since, struct


@struct
class DeleteRecordsPartition:
    """A partition, and the offset before which the broker deletes its records."""

    partition_index: Int32
    offset: Int64


@struct
class DeleteRecordsTopic:
    """A topic of the request."""

    name: String
    partitions: Array[DeleteRecordsPartition]


@request(ApiKey.DELETE_RECORDS)
class DeleteRecordsRequest:
    """An offset of -1 means the high watermark."""

    topics: Array[DeleteRecordsTopic]
    timeout_ms: Int32


@struct
class DeleteRecordsPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    low_watermark: Int64
    error_code: Int16


@struct
class DeleteRecordsTopicResult:
    """A topic of the response."""

    name: String
    partitions: Array[DeleteRecordsPartitionResult]


@response(ApiKey.DELETE_RECORDS)
class DeleteRecordsResponse:
    """`low_watermark` is the new log start offset."""

    throttle_time_ms: Int32 = since(default=0)
    topics: Array[DeleteRecordsTopicResult]
