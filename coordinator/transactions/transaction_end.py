"""EndTxn, and the steps from the decided outcome of a transaction to its end.

Up to v4 the epoch stays, and ending a transaction that has not begun is an error. From v5 on (KIP-890) each end
bumps the epoch. So a repeated request, which has the previous epoch, differs from the next end. An abort is always
legal, because a producer does not know whether its brokers have begun a transaction for it.

The coordinator writes Prepare*, then the marker of each partition, then Complete*; `transaction.py` has the
order. Without partitions it writes both records at once. If the end bumps the epoch, the markers already
have the next epoch, so that partitions refuse later requests of the producer in the old one. If a producer id has
no next epoch, its markers have the epoch that no producer gets, and Complete* has a new id at epoch 0.

Source: KIP-98, KIP-890; Kafka's `TransactionCoordinator.endTransaction`, `endTransactionWithTV1`,
`TransactionMetadata`, `TransactionMarkerChannelManager`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from coordinator.core.outcome import Context, Message, OutcomeBuilder
from coordinator.transactions.shard_transactions import ShardTransactions, request_producer_id
from coordinator.transactions.transaction import (
    LAST_EPOCH,
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    list_partitions,
)
from coordinator.transactions.transaction_event_types import (
    EndForbidden,
    EpochDiffers,
    MarkersGivenUp,
    MarkersOutstanding,
    ProducerIdDiffers,
    TransactionCompleted,
    TransactionPrepared,
)
from coordinator.transactions.transaction_request_rules import refuse_before_lookup, refuse_request
from coordinator.transactions.transaction_requests import (
    EPOCH_BUMP_LEVEL,
    TRANSACTION_MARKERS,
    MarkersRefused,
    MarkersWritten,
    WriteMarkers,
)
from coordinator.transactions.transaction_state_machine import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TransactionState,
)
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

EPOCH_BUMP_VERSION: Final = 5
NO_LEVEL: Final = 0
"""The level of a producer that ends a transaction without an epoch bump."""


class _EndAction(Enum):
    END = "end the transaction, or abort what may have been begun"
    REPEAT = "it has ended so: say it again"
    FORBIDDEN = "nothing can be ended so"


_COMMIT, _ABORT = True, False
_REPEATED, _CURRENT = True, False

_PLAIN: Final[Mapping[tuple[TransactionState, bool], _EndAction]] = {
    (ONGOING, _COMMIT): _EndAction.END,
    (ONGOING, _ABORT): _EndAction.END,
    (COMPLETE_COMMIT, _COMMIT): _EndAction.REPEAT,
    (COMPLETE_ABORT, _ABORT): _EndAction.REPEAT,
}
"""The action of an EndTxn below v5 with the current epoch, by state and outcome; other combinations are errors."""

_BUMPING: Final[Mapping[tuple[TransactionState, bool, bool], _EndAction]] = {
    (ONGOING, _COMMIT, _CURRENT): _EndAction.END,
    (ONGOING, _ABORT, _CURRENT): _EndAction.END,
    (EMPTY, _COMMIT, _CURRENT): _EndAction.FORBIDDEN,
    (EMPTY, _ABORT, _CURRENT): _EndAction.END,
    (COMPLETE_COMMIT, _COMMIT, _CURRENT): _EndAction.FORBIDDEN,
    (COMPLETE_COMMIT, _ABORT, _CURRENT): _EndAction.END,
    (COMPLETE_COMMIT, _COMMIT, _REPEATED): _EndAction.REPEAT,
    (COMPLETE_COMMIT, _ABORT, _REPEATED): _EndAction.FORBIDDEN,
    (COMPLETE_ABORT, _COMMIT, _CURRENT): _EndAction.FORBIDDEN,
    (COMPLETE_ABORT, _ABORT, _CURRENT): _EndAction.END,
    (COMPLETE_ABORT, _COMMIT, _REPEATED): _EndAction.FORBIDDEN,
    (COMPLETE_ABORT, _ABORT, _REPEATED): _EndAction.REPEAT,
}
"""The action of an EndTxn from v5 on, by state, outcome, and whether it has the current epoch or, as a repeated
request, the previous one. In all other combinations the epoch is invalid."""


def end_txn(
    transactions: ShardTransactions,
    request: EndTxnRequest,
    context: Context,
    builder: OutcomeBuilder,
    new_producer_id: int | None = None,
) -> None:
    """Answer an EndTxn when the outcome is durable. `new_producer_id` is the id that was allocated for this
    request, None before an allocation.
    """
    if refuse_before_lookup(request, context, transactions.config, builder):
        return
    transaction = transactions.find_transaction(request.transactional_id)
    if transaction is None:
        refuse_request(None, request, context, ErrorCode.INVALID_PRODUCER_ID_MAPPING, builder)
    elif context.api_version >= EPOCH_BUMP_VERSION:
        _end_and_bump(transactions, transaction, request, context, builder, new_producer_id)
    else:
        _end_plainly(transactions, transaction, request, context, builder)


def _end_plainly(
    transactions: ShardTransactions,
    transaction: TransactionMetadata,
    request: EndTxnRequest,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    if request.producer_id != transaction.producer_id:
        _refuse_producer_id(transaction, request, context, builder)
    elif request.producer_epoch != transaction.producer_epoch:
        _refuse_epoch(transaction, request, context, builder)
    elif transaction.state in PREPARED:
        _refuse_while_ending(transaction, request, context, builder)
    else:
        action = _PLAIN.get((transaction.state, request.committed), _EndAction.FORBIDDEN)
        if action is _EndAction.FORBIDDEN:
            _refuse_end(transaction, request, context, builder)
            return
        builder.reply(context.waiter, EndTxnResponse(error_code=ErrorCode.NONE))
        if action is _EndAction.END:
            prepare_end(transactions, transaction, builder, is_committed=request.committed, level=NO_LEVEL)


def _end_and_bump(
    transactions: ShardTransactions,
    transaction: TransactionMetadata,
    request: EndTxnRequest,
    context: Context,
    builder: OutcomeBuilder,
    new_producer_id: int | None,
) -> None:
    if transaction.state in PREPARED:
        # Must precede the check of the producer id, which may be about to change.
        _refuse_while_ending(transaction, request, context, builder)
        return
    if request.producer_id != transaction.producer_id and not _is_repeat_of_last_epoch(transaction, request):
        _refuse_producer_id(transaction, request, context, builder)
        return
    epoch = transaction.producer_epoch
    is_repeat = request.producer_epoch + 1 == epoch or _is_repeat_of_last_epoch(transaction, request)
    action = _BUMPING.get((transaction.state, request.committed, is_repeat))
    if action is None or not (is_repeat or request.producer_epoch == epoch):
        _refuse_epoch(transaction, request, context, builder)
    elif action is _EndAction.FORBIDDEN:
        _refuse_end(transaction, request, context, builder)
    elif action is _EndAction.REPEAT:
        _reply_success(transaction.producer_id, epoch, context, builder)
    elif needs_producer_id(transaction, EPOCH_BUMP_LEVEL) and new_producer_id is None:
        request_producer_id(transactions, request, context, builder)
    else:
        is_committed, level = request.committed, EPOCH_BUMP_LEVEL
        next_producer = prepare_end(
            transactions,
            transaction,
            builder,
            is_committed=is_committed,
            level=level,
            new_producer_id=new_producer_id,
        )
        _reply_success(*next_producer, context, builder)


def _is_repeat_of_last_epoch(transaction: TransactionMetadata, request: EndTxnRequest) -> bool:
    """Return whether the request may have ended the last transaction of the exhausted producer id."""
    return (
        request.producer_id == transaction.previous_producer_id
        and request.producer_epoch == LAST_EPOCH
        and transaction.producer_epoch == 0
    )


def _reply_success(producer_id: int, producer_epoch: int, context: Context, builder: OutcomeBuilder) -> None:
    builder.reply(
        context.waiter,
        EndTxnResponse(error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=producer_epoch),
    )


def _refuse_producer_id(
    transaction: TransactionMetadata, request: EndTxnRequest, context: Context, builder: OutcomeBuilder
) -> None:
    detail = ProducerIdDiffers(request.producer_id, transaction.producer_id)
    refuse_request(transaction, request, context, ErrorCode.INVALID_PRODUCER_ID_MAPPING, builder, detail)


def _refuse_epoch(
    transaction: TransactionMetadata, request: EndTxnRequest, context: Context, builder: OutcomeBuilder
) -> None:
    detail = EpochDiffers(request.producer_epoch, transaction.producer_epoch)
    refuse_request(transaction, request, context, ErrorCode.PRODUCER_FENCED, builder, detail)


def _refuse_while_ending(
    transaction: TransactionMetadata, request: EndTxnRequest, context: Context, builder: OutcomeBuilder
) -> None:
    detail = MarkersOutstanding(len(transaction.partitions))
    refuse_request(transaction, request, context, ErrorCode.CONCURRENT_TRANSACTIONS, builder, detail)


def _refuse_end(
    transaction: TransactionMetadata, request: EndTxnRequest, context: Context, builder: OutcomeBuilder
) -> None:
    detail = EndForbidden(transaction.state.value, request.committed)
    refuse_request(transaction, request, context, ErrorCode.INVALID_TXN_STATE, builder, detail)


def needs_producer_id(transaction: TransactionMetadata, level: int) -> bool:
    """Return whether an end at this level needs a new producer id."""
    return level >= EPOCH_BUMP_LEVEL and transaction.is_exhausted


def prepare_end(
    transactions: ShardTransactions,
    transaction: TransactionMetadata,
    builder: OutcomeBuilder,
    *,
    is_committed: bool,
    level: int,
    new_producer_id: int | None = None,
) -> tuple[int, int]:
    """Write the outcome of a transaction.

    Args:
        level: the `transaction.version` of the request.
        new_producer_id: a new producer id, required if `needs_producer_id`.

    Returns:
        The producer id and the epoch of the next transaction.
    """
    epoch = transaction.producer_epoch
    if level < EPOCH_BUMP_LEVEL:
        return _prepare(transactions, transaction, builder, is_committed, level, epoch)
    assert not transaction.is_exhausted or new_producer_id is not None, transaction.transactional_id
    transaction.last_epoch = epoch
    next_producer_id = new_producer_id if transaction.is_exhausted else None
    return _prepare(
        transactions, transaction, builder, is_committed, level, min(epoch + 1, MAX_EPOCH), next_producer_id
    )


def abort_and_fence(
    transactions: ShardTransactions,
    transaction: TransactionMetadata,
    builder: OutcomeBuilder,
    new_producer_id: int | None,
) -> None:
    """Abort an open transaction and fence its producer. `new_producer_id` is required if the server's level needs
    one.
    """
    level, epoch = transactions.config.transaction_version, transaction.producer_epoch
    if transactions.bumps_epochs:
        prepare_end(
            transactions,
            transaction,
            builder,
            is_committed=False,
            level=level,
            new_producer_id=new_producer_id,
        )
    else:
        transaction.last_epoch = NO_EPOCH
        _prepare(transactions, transaction, builder, False, level, min(epoch + 1, MAX_EPOCH))


def _prepare(
    transactions: ShardTransactions,
    transaction: TransactionMetadata,
    builder: OutcomeBuilder,
    is_committed: bool,
    level: int,
    producer_epoch: int,
    next_producer_id: int | None = None,
) -> tuple[int, int]:
    now_ms = builder.now.wall_ms
    transactions.write_transition(
        transaction,
        PREPARE_COMMIT if is_committed else PREPARE_ABORT,
        builder,
        producer_epoch=producer_epoch,
        next_producer_id=NO_PRODUCER_ID if next_producer_id is None else next_producer_id,
        transaction_partitions=transaction.value.transaction_partitions or [],
        # The start of a transaction that may never have begun is unknown.
        transaction_start_timestamp_ms=transaction.start_ms if transaction.state is ONGOING else now_ms,
        client_transaction_version=level,
    )
    transaction.markers_error = None
    builder.add_event(
        TransactionPrepared(
            transaction.transactional_id,
            transaction.producer_id,
            producer_epoch,
            is_committed,
            now_ms - transaction.start_ms,
            len(transaction.partitions),
        )
    )
    send_markers(transactions, transaction, builder)
    if next_producer_id is None:
        return transaction.producer_id, producer_epoch
    return next_producer_id, 0


def send_markers(
    transactions: ShardTransactions, transaction: TransactionMetadata, builder: OutcomeBuilder
) -> None:
    """Send the markers of a transaction with a decided outcome. Without partitions it is complete at once."""
    assert transaction.state in PREPARED, (transaction.transactional_id, transaction.state)
    if transaction.partitions:
        builder.add_message(build_markers_message(transactions, transaction))
    else:
        _complete(transactions, transaction, builder)


def build_markers_message(transactions: ShardTransactions, transaction: TransactionMetadata) -> Message:
    """Build the message that requests the markers of a transaction with a decided outcome."""
    markers = WriteMarkers(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transactions.coordinator_epoch,
        transaction.state is PREPARE_COMMIT,
        transaction.value.client_transaction_version,
        sorted(transaction.partitions),
    )
    return Message(TRANSACTION_MARKERS, transaction.transactional_id, markers)


def _complete(
    transactions: ShardTransactions, transaction: TransactionMetadata, builder: OutcomeBuilder
) -> None:
    prepared, now_ms = transaction.value, builder.now.wall_ms
    is_committed = transaction.state is PREPARE_COMMIT
    producer_id, producer_epoch = transaction.producer_id, transaction.producer_epoch
    if prepared.next_producer_id != NO_PRODUCER_ID:
        producer_id, producer_epoch = prepared.next_producer_id, 0
    transactions.write_transition(
        transaction,
        COMPLETE_COMMIT if is_committed else COMPLETE_ABORT,
        builder,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_partitions=[],
    )
    builder.add_event(
        TransactionCompleted(
            transaction.transactional_id,
            producer_id,
            producer_epoch,
            is_committed,
            now_ms - prepared.transaction_start_timestamp_ms,
            now_ms - prepared.transaction_last_update_timestamp_ms,
            len(list_partitions(prepared)),
        )
    )


def on_markers_written(
    transactions: ShardTransactions, request: MarkersWritten, builder: OutcomeBuilder
) -> None:
    """Record the markers of partitions; the last one completes the transaction."""
    transaction = _find_waiting_transaction(transactions, request)
    if transaction is not None:
        transaction.partitions.difference_update(request.partitions)
        if not transaction.partitions:
            _complete(transactions, transaction, builder)


def on_markers_refused(
    transactions: ShardTransactions, request: MarkersRefused, builder: OutcomeBuilder
) -> None:
    """Give up markers: the partitions have seen a later epoch of the producer or of its coordinator. The owner of
    the later epoch decides the outcome, so this coordinator stops.
    """
    transaction = _find_waiting_transaction(transactions, request)
    if transaction is not None:
        transaction.markers_error = request.error
        builder.add_event(
            MarkersGivenUp(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                request.error,
                len(request.partitions),
            )
        )


def _find_waiting_transaction(
    transactions: ShardTransactions, request: MarkersWritten | MarkersRefused
) -> TransactionMetadata | None:
    """Return the transaction that waits for these markers.

    None if it does not wait any more, or if the markers are from another load: their responses may arrive after the
    same producer has ended another transaction.
    """
    transaction = transactions.find_transaction(request.transactional_id)
    if (
        transaction is None
        or transaction.state not in PREPARED
        or request.coordinator_epoch != transactions.coordinator_epoch
        or request.producer_id != transaction.producer_id
        or request.producer_epoch != transaction.producer_epoch
    ):
        return None
    return transaction
