"""DescribeTransactions: one transactional id. Source: KIP-664, Kafka's
`TransactionCoordinator.handleDescribeTransactions`."""

from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from coordinator.transactions.refusal import error_before_lookup, error_response
from coordinator.transactions.requests import DescribeTransaction
from coordinator.transactions.transaction import by_topic
from coordinator.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsTopicData,
    DescribeTransactionsTransactionState,
)


def describe_transaction(
    transactions: Transactions, request: DescribeTransaction, context: Context, turn: Turn
) -> None:
    """Answer a DescribeTransaction. Of a transaction that has ended the partitions are those that still wait for
    their marker."""
    transaction = transactions.find(request.transactional_id)
    error = error_before_lookup(request, transactions.config)
    if error is ErrorCode.NONE and transaction is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if transaction is None or error is not ErrorCode.NONE:
        turn.reply(context.waiter, error_response(request, context.api_version, error))
        return
    topics = by_topic(sorted(transaction.partitions))
    turn.reply(
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
