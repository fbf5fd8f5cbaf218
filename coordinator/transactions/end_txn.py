"""EndTxn: a producer commits or aborts.

Up to v4 epochs stay, and an end of nothing is an error. From v5 on (KIP-890) each end gives the next transaction
another epoch. That tells a repeated request (it has the epoch before) from the next end, and an abort is always
legal, since a producer does not know what its brokers have begun for it.

Source: Kafka's `TransactionCoordinator.endTransaction`, `endTransactionWithTV1`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from coordinator.transactions.config import EPOCH_BUMP_LEVEL
from coordinator.transactions.ending import end, needs_producer_id
from coordinator.transactions.new_producer_id import draw_producer_id
from coordinator.transactions.refusal import refuse, refuse_before_lookup
from coordinator.transactions.refusal_facts import (
    EndForbidden,
    EpochDiffers,
    MarkersOutstanding,
    ProducerIdDiffers,
)
from coordinator.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARED,
    TransactionState,
)
from coordinator.transactions.transaction import LAST_EPOCH, Transaction
from coordinator.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

EPOCH_BUMP_VERSION: Final = 5
NO_LEVEL: Final = 0
"""That of who ends without raising the epoch."""


class _Act(Enum):
    END = "end the transaction, or abort what may have been begun"
    REPEAT = "it has ended so: say it again"
    FORBIDDEN = "nothing can be ended so"


_COMMIT, _ABORT = True, False
_REPEATED, _CURRENT = True, False

_PLAIN: Final[Mapping[tuple[TransactionState, bool], _Act]] = {
    (ONGOING, _COMMIT): _Act.END,
    (ONGOING, _ABORT): _Act.END,
    (COMPLETE_COMMIT, _COMMIT): _Act.REPEAT,
    (COMPLETE_ABORT, _ABORT): _Act.REPEAT,
}
"""Below v5, for the present epoch; anything else is forbidden."""

_BUMPING: Final[Mapping[tuple[TransactionState, bool, bool], _Act]] = {
    (ONGOING, _COMMIT, _CURRENT): _Act.END,
    (ONGOING, _ABORT, _CURRENT): _Act.END,
    (EMPTY, _COMMIT, _CURRENT): _Act.FORBIDDEN,
    (EMPTY, _ABORT, _CURRENT): _Act.END,
    (COMPLETE_COMMIT, _COMMIT, _CURRENT): _Act.FORBIDDEN,
    (COMPLETE_COMMIT, _ABORT, _CURRENT): _Act.END,
    (COMPLETE_COMMIT, _COMMIT, _REPEATED): _Act.REPEAT,
    (COMPLETE_COMMIT, _ABORT, _REPEATED): _Act.FORBIDDEN,
    (COMPLETE_ABORT, _COMMIT, _CURRENT): _Act.FORBIDDEN,
    (COMPLETE_ABORT, _ABORT, _CURRENT): _Act.END,
    (COMPLETE_ABORT, _COMMIT, _REPEATED): _Act.FORBIDDEN,
    (COMPLETE_ABORT, _ABORT, _REPEATED): _Act.REPEAT,
}
"""From v5 on; anything else is of an epoch that has no business there."""


def end_txn(
    transactions: Transactions,
    request: EndTxnRequest,
    context: Context,
    turn: Turn,
    new_producer_id: int | None = None,
) -> None:
    """Answer an EndTxn, when the outcome is durable. In: a new producer id, where one was drawn for it."""
    if refuse_before_lookup(request, context, transactions.config, turn):
        return
    transaction = transactions.find(request.transactional_id)
    if transaction is None:
        refuse(None, request, context, ErrorCode.INVALID_PRODUCER_ID_MAPPING, turn)
    elif context.api_version >= EPOCH_BUMP_VERSION:
        _end_and_bump(transactions, transaction, request, context, turn, new_producer_id)
    else:
        _end_plainly(transactions, transaction, request, context, turn)


def _end_plainly(
    transactions: Transactions, transaction: Transaction, request: EndTxnRequest, context: Context, turn: Turn
) -> None:
    if request.producer_id != transaction.producer_id:
        _refuse_producer_id(transaction, request, context, turn)
    elif request.producer_epoch != transaction.producer_epoch:
        _refuse_epoch(transaction, request, context, turn)
    elif transaction.state in PREPARED:
        _refuse_while_ending(transaction, request, context, turn)
    else:
        act = _PLAIN.get((transaction.state, request.committed), _Act.FORBIDDEN)
        if act is _Act.FORBIDDEN:
            _refuse_end(transaction, request, context, turn)
            return
        turn.reply(context.waiter, EndTxnResponse(error_code=ErrorCode.NONE))
        if act is _Act.END:
            end(transactions, transaction, turn, is_committed=request.committed, level=NO_LEVEL)


def _end_and_bump(
    transactions: Transactions,
    transaction: Transaction,
    request: EndTxnRequest,
    context: Context,
    turn: Turn,
    new_producer_id: int | None,
) -> None:
    if transaction.state in PREPARED:
        # Before the producer id is looked at, which may be about to change.
        _refuse_while_ending(transaction, request, context, turn)
        return
    if request.producer_id != transaction.producer_id and not _is_repeat_of_last_epoch(transaction, request):
        _refuse_producer_id(transaction, request, context, turn)
        return
    epoch = transaction.producer_epoch
    is_repeat = request.producer_epoch + 1 == epoch or _is_repeat_of_last_epoch(transaction, request)
    act = _BUMPING.get((transaction.state, request.committed, is_repeat))
    if act is None or not (is_repeat or request.producer_epoch == epoch):
        _refuse_epoch(transaction, request, context, turn)
    elif act is _Act.FORBIDDEN:
        _refuse_end(transaction, request, context, turn)
    elif act is _Act.REPEAT:
        _answer(transaction.producer_id, epoch, context, turn)
    elif needs_producer_id(transaction, EPOCH_BUMP_LEVEL) and new_producer_id is None:
        draw_producer_id(transactions, request, context, turn)
    else:
        is_committed, level = request.committed, EPOCH_BUMP_LEVEL
        following = end(
            transactions,
            transaction,
            turn,
            is_committed=is_committed,
            level=level,
            new_producer_id=new_producer_id,
        )
        _answer(*following, context, turn)


def _is_repeat_of_last_epoch(transaction: Transaction, request: EndTxnRequest) -> bool:
    """Whether it may have ended the last transaction of the producer id that was used up with it."""
    return (
        request.producer_id == transaction.previous_producer_id
        and request.producer_epoch == LAST_EPOCH
        and transaction.producer_epoch == 0
    )


def _answer(producer_id: int, producer_epoch: int, context: Context, turn: Turn) -> None:
    turn.reply(
        context.waiter,
        EndTxnResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=producer_epoch),
    )


def _refuse_producer_id(
    transaction: Transaction, request: EndTxnRequest, context: Context, turn: Turn
) -> None:
    detail = ProducerIdDiffers(request.producer_id, transaction.producer_id)
    refuse(transaction, request, context, ErrorCode.INVALID_PRODUCER_ID_MAPPING, turn, detail)


def _refuse_epoch(transaction: Transaction, request: EndTxnRequest, context: Context, turn: Turn) -> None:
    detail = EpochDiffers(request.producer_epoch, transaction.producer_epoch)
    refuse(transaction, request, context, ErrorCode.PRODUCER_FENCED, turn, detail)


def _refuse_while_ending(
    transaction: Transaction, request: EndTxnRequest, context: Context, turn: Turn
) -> None:
    detail = MarkersOutstanding(len(transaction.partitions))
    refuse(transaction, request, context, ErrorCode.CONCURRENT_TRANSACTIONS, turn, detail)


def _refuse_end(transaction: Transaction, request: EndTxnRequest, context: Context, turn: Turn) -> None:
    detail = EndForbidden(transaction.state.value, request.committed)
    refuse(transaction, request, context, ErrorCode.INVALID_TXN_STATE, turn, detail)
