"""ListTransactions and DescribeTransactions for the transactional ids of a shard.

Source: KIP-664, KIP-994, KIP-1152; Kafka's `TransactionStateManager.listTransactionStates`,
`TransactionCoordinator.handleDescribeTransactions`.
"""

from typing import Final

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.transaction import group_by_topic
from coordinator.transactions.transaction_request_rules import (
    build_transaction_error_response,
    find_error_before_lookup,
)
from coordinator.transactions.transaction_requests import DescribeTransaction, ListTransactions
from coordinator.transactions.transaction_state_machine import TransactionState
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)
from protocol.messages.list_transactions import ListTransactionsResponse, ListTransactionsTransactionState

_STATE_NAMES: Final = frozenset(state.value for state in TransactionState)


def list_transactions(
    transactions: ShardTransactions, request: ListTransactions, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a ListTransactions with a ListTransactionsResponse. The response returns unknown state names; if no
    name is valid, nothing matches.
    """
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    began_before_ms = builder.now.wall_ms - request.duration_filter
    listed = []
    for transactional_id, transaction in transactions.by_id.items():
        state = transaction.state.value
        if (
            (not states or state in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (request.duration_filter < 0 or transaction.start_ms < began_before_ms)
            and (request.pattern is None or request.pattern(transactional_id))
        ):
            listed.append(
                ListTransactionsTransactionState(
                    transactional_id=transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=state,
                )
            )
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in _STATE_NAMES]
    builder.reply(
        context.waiter,
        ListTransactionsResponse(
            error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=listed
        ),
    )


def describe_transaction(
    transactions: ShardTransactions, request: DescribeTransaction, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer a DescribeTransaction. For an ended transaction the partitions are those without a marker."""
    transaction = transactions.find_transaction(request.transactional_id)
    error = find_error_before_lookup(request, transactions.config)
    if error is ErrorCode.NONE and transaction is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if transaction is None or error is not ErrorCode.NONE:
        builder.reply(context.waiter, build_transaction_error_response(request, context.api_version, error))
        return
    topics = group_by_topic(sorted(transaction.partitions))
    builder.reply(
        context.waiter,
        DescribeTransactionsTransactionState(
            error_code=ErrorCode.NONE,
            transactional_id=transaction.transactional_id,
            transaction_state=transaction.state.value,
            transaction_timeout_ms=transaction.value.transaction_timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[
                DescribeTransactionsTopicData(topic=topic, partitions=partitions)
                for topic, partitions in topics.items()
            ],
        ),
    )
