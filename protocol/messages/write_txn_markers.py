"""WriteTxnMarkers (27): brokers write the end markers of transactions to their partitions."""

from protocol.apis import ApiKey
from protocol.schema import Array, Bool, Int8, Int16, Int32, Int64, String, request, response, since, struct


@struct
class WritableTxnMarkerTopic:
    """Partitions of one topic that a transaction wrote to."""

    name: String
    partition_indexes: Array[Int32]


@struct
class WritableTxnMarker:
    """The end of one transaction. `transaction_result` is true for a commit."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: Array[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Int8 = since("2+", default=0)


@request(ApiKey.WRITE_TXN_MARKERS)
class WriteTxnMarkersRequest:
    """v1 flexible · v2 transaction version (KIP-1228)"""

    markers: Array[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    """The result for a marker in one partition."""

    partition_index: Int32
    error_code: Int16


@struct
class WritableTxnMarkerTopicResult:
    """The results for a marker in one topic."""

    name: String
    partitions: Array[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    """The result for one marker."""

    producer_id: Int64
    topics: Array[WritableTxnMarkerTopicResult]


@response(ApiKey.WRITE_TXN_MARKERS)
class WriteTxnMarkersResponse:
    """v1 flexible; the response has no throttle time"""

    markers: Array[WritableTxnMarkerResult]
