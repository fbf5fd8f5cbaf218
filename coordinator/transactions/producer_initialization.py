"""InitProducerId: start a producer and fence the previous producer of its transactional id.

Source: KIP-98, KIP-360; Kafka's `TransactionCoordinator.handleInitProducerId`, `TransactionMetadata`.
"""

from typing import NamedTuple

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.transactions.shard_transactions import ShardTransactions, request_producer_id
from coordinator.transactions.transaction import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIME,
    TransactionMetadata,
)
from coordinator.transactions.transaction_end import abort_and_fence, needs_producer_id
from coordinator.transactions.transaction_event_types import (
    AbortsOpenTransaction,
    EpochDiffers,
    MarkersOutstanding,
    ProducerFenced,
    ProducerIdDiffers,
    ProducerInitialized,
)
from coordinator.transactions.transaction_request_rules import refuse_before_lookup, refuse_request
from coordinator.transactions.transaction_state_machine import EMPTY, ONGOING, PREPARED
from coordinator.transactions.transaction_timeouts import arm_expiration
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class _NextEpoch(NamedTuple):
    """The epoch that a producer gets, and its previous epoch, with which it may repeat the request; NO_EPOCH
    without one. `is_repeat`: the request is such a repetition.
    """

    epoch: int
    last_epoch: int
    is_repeat: bool = False


def init_producer_id(
    transactions: ShardTransactions,
    request: InitProducerIdRequest,
    context: Context,
    builder: OutcomeBuilder,
    new_producer_id: int | None = None,
) -> None:
    """Answer an InitProducerId with a transactional id. `new_producer_id` is the id that was allocated for this
    request, None before an allocation.
    """
    if refuse_before_lookup(request, context, transactions.config, builder):
        return
    transactional_id = request.transactional_id
    assert transactional_id is not None
    transaction = transactions.find_transaction(transactional_id)
    if transaction is None:
        if new_producer_id is None:
            request_producer_id(transactions, request, context, builder)
            return
        timeout_ms = request.transaction_timeout_ms
        transaction = transactions.create_transaction(transactional_id, new_producer_id, timeout_ms, builder)
        arm_expiration(transactions, builder)
        _reply_initialized(transaction, context, builder, is_repeat=False)
        return
    if transaction.state in PREPARED:
        detail = MarkersOutstanding(len(transaction.partitions))
        refuse_request(transaction, request, context, ErrorCode.CONCURRENT_TRANSACTIONS, builder, detail)
    elif not _may_be_owner(transaction, request):
        differs = ProducerIdDiffers(request.producer_id, transaction.producer_id)
        refuse_request(transaction, request, context, ErrorCode.PRODUCER_FENCED, builder, differs)
    elif transaction.state is ONGOING:
        _fence_open_transaction(transactions, transaction, request, context, builder, new_producer_id)
    else:
        _start_next_epoch(transactions, transaction, request, context, builder, new_producer_id)


def _may_be_owner(transaction: TransactionMetadata, request: InitProducerIdRequest) -> bool:
    """Return whether the request names no producer id, the current one, or the previous exhausted one, or the
    transactional id has no epoch yet."""
    return (
        request.producer_id in (NO_PRODUCER_ID, transaction.producer_id)
        or transaction.producer_epoch == NO_EPOCH
        or (request.producer_id == transaction.previous_producer_id and request.producer_epoch >= LAST_EPOCH)
    )


def _fence_open_transaction(
    transactions: ShardTransactions,
    transaction: TransactionMetadata,
    request: InitProducerIdRequest,
    context: Context,
    builder: OutcomeBuilder,
    new_producer_id: int | None,
) -> None:
    """Abort the open transaction. The response makes the client retry, because it must not get the epoch of the
    fence.
    """
    if needs_producer_id(transaction, transactions.config.transaction_version) and new_producer_id is None:
        request_producer_id(transactions, request, context, builder)
        return
    builder.add_event(
        ProducerFenced(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            builder.now.wall_ms - transaction.start_ms,
            len(transaction.partitions),
        )
    )
    error, detail = ErrorCode.CONCURRENT_TRANSACTIONS, AbortsOpenTransaction()
    refuse_request(transaction, request, context, error, builder, detail)
    abort_and_fence(transactions, transaction, builder, new_producer_id)


def _start_next_epoch(
    transactions: ShardTransactions,
    transaction: TransactionMetadata,
    request: InitProducerIdRequest,
    context: Context,
    builder: OutcomeBuilder,
    new_producer_id: int | None,
) -> None:
    """Give the producer the next epoch, or the first epoch of a new producer id after the last epoch. No
    transaction is open.
    """
    epoch, sent_epoch = transaction.producer_epoch, request.producer_epoch
    producer_id = transaction.producer_id
    if transaction.is_exhausted and sent_epoch in (NO_EPOCH, epoch):
        if new_producer_id is None:
            request_producer_id(transactions, request, context, builder)
            return
        producer_id, next_epoch = (
            new_producer_id,
            _NextEpoch(0, NO_EPOCH if sent_epoch == NO_EPOCH else epoch),
        )
    elif sent_epoch == NO_EPOCH:
        next_epoch = _NextEpoch(epoch + 1, NO_EPOCH)
    elif sent_epoch == epoch or epoch == NO_EPOCH:
        next_epoch = _NextEpoch(epoch + 1, epoch)
    elif sent_epoch == transaction.last_epoch:
        next_epoch = _NextEpoch(epoch, sent_epoch, is_repeat=True)
    else:
        differs = EpochDiffers(sent_epoch, epoch)
        refuse_request(transaction, request, context, ErrorCode.PRODUCER_FENCED, builder, differs)
        return
    transaction.last_epoch = next_epoch.last_epoch
    transactions.write_transition(
        transaction,
        EMPTY,
        builder,
        producer_id=producer_id,
        producer_epoch=next_epoch.epoch,
        transaction_timeout_ms=request.transaction_timeout_ms,
        transaction_partitions=None,
        transaction_start_timestamp_ms=NO_TIME,
    )
    _reply_initialized(transaction, context, builder, is_repeat=next_epoch.is_repeat)


def _reply_initialized(
    transaction: TransactionMetadata, context: Context, builder: OutcomeBuilder, *, is_repeat: bool
) -> None:
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    builder.reply(
        context.waiter,
        InitProducerIdResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=epoch),
    )
    timeout_ms = transaction.value.transaction_timeout_ms
    builder.add_event(
        ProducerInitialized(transaction.transactional_id, producer_id, epoch, timeout_ms, is_repeat)
    )
