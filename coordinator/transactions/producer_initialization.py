"""InitProducerId: a producer begins, and whoever had its transactional id before is fenced.

Source: KIP-98, KIP-360; Kafka's `TransactionCoordinator.handleInitProducerId`, `TransactionMetadata`.
"""

from typing import NamedTuple

from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from coordinator.transactions.ending import abort_and_fence, needs_producer_id
from coordinator.transactions.events import Fenced, Initialized
from coordinator.transactions.expire import arm_expiration
from coordinator.transactions.new_producer_id import draw_producer_id
from coordinator.transactions.refusal import refuse, refuse_before_lookup
from coordinator.transactions.refusal_facts import (
    AbortsOpenTransaction,
    EpochDiffers,
    MarkersOutstanding,
    ProducerIdDiffers,
)
from coordinator.transactions.state import EMPTY, ONGOING, PREPARED
from coordinator.transactions.transaction import LAST_EPOCH, NO_EPOCH, NO_PRODUCER_ID, NO_TIME, Transaction
from coordinator.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class _Next(NamedTuple):
    """The epoch that a producer gets, and the one that it is taken to have; whether it got it before."""

    epoch: int
    last_epoch: int
    is_repeat: bool = False


def init_producer_id(
    transactions: Transactions,
    request: InitProducerIdRequest,
    context: Context,
    turn: Turn,
    new_producer_id: int | None = None,
) -> None:
    """Answer an InitProducerId with a transactional id. In: a new producer id, where one was drawn for it."""
    if refuse_before_lookup(request, context, transactions.config, turn):
        return
    transactional_id = request.transactional_id
    assert transactional_id is not None
    transaction = transactions.find(transactional_id)
    if transaction is None:
        if new_producer_id is None:
            draw_producer_id(transactions, request, context, turn)
            return
        timeout_ms = request.transaction_timeout_ms
        transaction = transactions.create(transactional_id, new_producer_id, timeout_ms, turn)
        arm_expiration(transactions, turn)
        _answer(transaction, context, turn, is_repeat=False)
        return
    if transaction.state in PREPARED:
        detail = MarkersOutstanding(len(transaction.partitions))
        refuse(transaction, request, context, ErrorCode.CONCURRENT_TRANSACTIONS, turn, detail)
    elif not _may_be_owner(transaction, request):
        differs = ProducerIdDiffers(request.producer_id, transaction.producer_id)
        refuse(transaction, request, context, ErrorCode.PRODUCER_FENCED, turn, differs)
    elif transaction.state is ONGOING:
        _fence(transactions, transaction, request, context, turn, new_producer_id)
    else:
        _begin_anew(transactions, transaction, request, context, turn, new_producer_id)


def _may_be_owner(transaction: Transaction, request: InitProducerIdRequest) -> bool:
    """Whether the producer id that it names, if any, is the present one, or the one before that was used up."""
    return (
        request.producer_id in (NO_PRODUCER_ID, transaction.producer_id)
        or transaction.producer_epoch == NO_EPOCH
        or (request.producer_id == transaction.previous_producer_id and request.producer_epoch >= LAST_EPOCH)
    )


def _fence(
    transactions: Transactions,
    transaction: Transaction,
    request: InitProducerIdRequest,
    context: Context,
    turn: Turn,
    new_producer_id: int | None,
) -> None:
    """The open transaction is aborted. The answer says to come again: the epoch of the fence is not for it."""
    if needs_producer_id(transaction, transactions.config.transaction_version) and new_producer_id is None:
        draw_producer_id(transactions, request, context, turn)
        return
    turn.tell(
        Fenced(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            turn.now.wall_ms - transaction.start_ms,
            len(transaction.partitions),
        )
    )
    error, detail = ErrorCode.CONCURRENT_TRANSACTIONS, AbortsOpenTransaction()
    refuse(transaction, request, context, error, turn, detail)
    abort_and_fence(transactions, transaction, turn, new_producer_id)


def _begin_anew(
    transactions: Transactions,
    transaction: Transaction,
    request: InitProducerIdRequest,
    context: Context,
    turn: Turn,
    new_producer_id: int | None,
) -> None:
    """Nothing is open: the next epoch, or the first one of a new producer id once there is none."""
    epoch, given = transaction.producer_epoch, request.producer_epoch
    producer_id = transaction.producer_id
    if transaction.is_exhausted and given in (NO_EPOCH, epoch):
        if new_producer_id is None:
            draw_producer_id(transactions, request, context, turn)
            return
        producer_id, following = new_producer_id, _Next(0, NO_EPOCH if given == NO_EPOCH else epoch)
    elif given == NO_EPOCH:
        following = _Next(epoch + 1, NO_EPOCH)
    elif given == epoch or epoch == NO_EPOCH:
        following = _Next(epoch + 1, epoch)
    elif given == transaction.last_epoch:
        following = _Next(epoch, given, is_repeat=True)
    else:
        differs = EpochDiffers(given, epoch)
        refuse(transaction, request, context, ErrorCode.PRODUCER_FENCED, turn, differs)
        return
    transaction.last_epoch = following.last_epoch
    transactions.write(
        transaction,
        EMPTY,
        turn,
        producer_id=producer_id,
        producer_epoch=following.epoch,
        transaction_timeout_ms=request.transaction_timeout_ms,
        transaction_partitions=None,
        transaction_start_timestamp_ms=NO_TIME,
    )
    _answer(transaction, context, turn, is_repeat=following.is_repeat)


def _answer(transaction: Transaction, context: Context, turn: Turn, *, is_repeat: bool) -> None:
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    turn.reply(
        context.waiter,
        InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch),
    )
    timeout_ms = transaction.value.transaction_timeout_ms
    turn.tell(Initialized(transaction.transactional_id, producer_id, epoch, timeout_ms, is_repeat))
