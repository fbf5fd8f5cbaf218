"""AddPartitionsToTxn (24): announce the partitions that a transaction will write to. From v4 on brokers send
it."""

from protocol.apis import ApiKey
from protocol.schema import Array, Bool, Int16, Int32, Int64, String, request, response, since, struct


@struct
class AddPartitionsToTxnTopic:
    """Partitions of one topic."""

    name: String
    partitions: Array[Int32]


@struct
class AddPartitionsToTxnTransaction:
    """One transaction of the batch form. With `verify_only` the coordinator adds no partition."""

    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = since(default=False)
    topics: Array[AddPartitionsToTxnTopic]


@request(ApiKey.ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnRequest:
    """v2 PRODUCER_FENCED · v3 flexible · v4 a batch of transactions, verification (KIP-890) · v5
    TRANSACTION_ABORTABLE"""

    transactions: Array[AddPartitionsToTxnTransaction] = since("4+", default=[])
    v3_and_below_transactional_id: String = since("0-3", default="")
    v3_and_below_producer_id: Int64 = since("0-3", default=0)
    v3_and_below_producer_epoch: Int16 = since("0-3", default=0)
    v3_and_below_topics: Array[AddPartitionsToTxnTopic] = since("0-3", default=[])


@struct
class AddPartitionsToTxnPartitionResult:
    """The result for one partition."""

    partition_index: Int32
    partition_error_code: Int16


@struct
class AddPartitionsToTxnTopicResult:
    """The results for the partitions of one topic."""

    name: String
    results_by_partition: Array[AddPartitionsToTxnPartitionResult]


@struct
class AddPartitionsToTxnResult:
    """The result for one transaction of the batch form."""

    transactional_id: String
    topic_results: Array[AddPartitionsToTxnTopicResult]


@response(ApiKey.ADD_PARTITIONS_TO_TXN)
class AddPartitionsToTxnResponse:
    """v4 an error of the whole request, and a batch"""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16 = since("4+", default=0)
    results_by_transaction: Array[AddPartitionsToTxnResult] = since("4+", default=[])
    results_by_topic_v3_and_below: Array[AddPartitionsToTxnTopicResult] = since("0-3", default=[])
