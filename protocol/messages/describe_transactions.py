"""DescribeTransactions (65): the states of transactions (KIP-664)."""

from protocol.apis import ApiKey
from protocol.schema import Array, Int16, Int32, Int64, String, request, response, since, struct


@request(ApiKey.DESCRIBE_TRANSACTIONS)
class DescribeTransactionsRequest:
    """The transactional ids to describe."""

    transactional_ids: Array[String]


@struct
class DescribeTransactionsTopicData:
    """Partitions of one topic that belong to a transaction."""

    topic: String
    partitions: Array[Int32]


@struct
class DescribeTransactionsTransactionState:
    """One transaction. With an error all other fields are 0 or empty."""

    error_code: Int16
    transactional_id: String
    transaction_state: String
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: Array[DescribeTransactionsTopicData]


@response(ApiKey.DESCRIBE_TRANSACTIONS)
class DescribeTransactionsResponse:
    """The transactions in the order of the request."""

    throttle_time_ms: Int32 = since(default=0)
    transaction_states: Array[DescribeTransactionsTransactionState]
