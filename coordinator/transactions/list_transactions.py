"""ListTransactions: the transactional ids of a shard. Source: KIP-664, KIP-994, KIP-1152; Kafka's
`TransactionStateManager.listTransactionStates`."""

from typing import Final

from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from coordinator.transactions.requests import ListTransactions
from coordinator.transactions.state import TransactionState
from coordinator.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import ListTransactionsResponse, ListTransactionsTransactionState

_STATE_NAMES: Final = frozenset(state.value for state in TransactionState)


def list_transactions(
    transactions: Transactions, request: ListTransactions, context: Context, turn: Turn
) -> None:
    """Answer a ListTransactions with a ListTransactionsResponse. Names that are no states come back; where no name
    is one, nothing matches."""
    states = frozenset(request.state_filters)
    producer_ids = frozenset(request.producer_id_filters)
    began_before_ms = turn.now.wall_ms - request.duration_filter
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
    turn.reply(
        context.waiter,
        ListTransactionsResponse(
            error_code=ErrorCode.NONE, unknown_state_filters=unknown, transaction_states=listed
        ),
    )
