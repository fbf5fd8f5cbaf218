"""ListTransactions (66): the transactional ids with their states (KIP-664)."""

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


@request(ApiKey.LIST_TRANSACTIONS)
class ListTransactionsRequest:
    """A request for the transactions that pass every filter. v1 minimum duration (KIP-994) · v2 pattern of ids
    (KIP-1152)"""

    state_filters: Array[String]
    producer_id_filters: Array[Int64]
    duration_filter: Int64 = since("1+", default=-1)
    transactional_id_pattern: NullableString = since("2+", default=None)


@struct
class ListTransactionsTransactionState:
    """A transactional id with its producer and state."""

    transactional_id: String
    producer_id: Int64
    transaction_state: String


@response(ApiKey.LIST_TRANSACTIONS)
class ListTransactionsResponse:
    """The transactions that match the filters. `unknown_state_filters` has the unknown states of the
    request."""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16
    unknown_state_filters: Array[String]
    transaction_states: Array[ListTransactionsTransactionState]
