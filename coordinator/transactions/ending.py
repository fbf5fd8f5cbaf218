"""From the settled outcome of a transaction to its end.

Prepare* is written, then each partition is to have its marker, then Complete* is written; see `transaction.py` for
what has to be durable before what. Where there is no partition both are written at once.

Where the epoch rises with the end, the markers have the next epoch already, so that what the producer still sends
in the old one is refused. Once an id has no next epoch, its markers have the one that no producer is given, and
Complete* has a new id at epoch 0.

Source: KIP-98, KIP-890; Kafka's `TransactionMetadata`, `TransactionMarkerChannelManager`.
"""

from coordinator.machine.outcome import Message
from coordinator.machine.turn import Turn
from coordinator.transactions.config import EPOCH_BUMP_LEVEL
from coordinator.transactions.events import Completed, MarkersGivenUp, Prepared
from coordinator.transactions.requests import (
    TRANSACTION_MARKERS,
    MarkersRefused,
    MarkersWritten,
    WriteMarkers,
)
from coordinator.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
)
from coordinator.transactions.transaction import (
    MAX_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    partitions_of,
)
from coordinator.transactions.transactions import Transactions


def needs_producer_id(transaction: Transaction, level: int) -> bool:
    """Whether an end at this level needs a new producer id."""
    return level >= EPOCH_BUMP_LEVEL and transaction.is_exhausted


def end(
    transactions: Transactions,
    transaction: Transaction,
    turn: Turn,
    *,
    is_committed: bool,
    level: int,
    new_producer_id: int | None = None,
) -> tuple[int, int]:
    """Settle the outcome. In: the level of who ends it; a new producer id where `needs_producer_id`. Out: producer
    id and epoch of the next transaction."""
    epoch = transaction.producer_epoch
    if level < EPOCH_BUMP_LEVEL:
        return _prepare(transactions, transaction, turn, is_committed, level, epoch)
    assert not transaction.is_exhausted or new_producer_id is not None, transaction.transactional_id
    transaction.last_epoch = epoch
    next_producer_id = new_producer_id if transaction.is_exhausted else None
    return _prepare(
        transactions, transaction, turn, is_committed, level, min(epoch + 1, MAX_EPOCH), next_producer_id
    )


def abort_and_fence(
    transactions: Transactions, transaction: Transaction, turn: Turn, new_producer_id: int | None
) -> None:
    """Abort an open transaction without its producer, whose epoch is over. In: a new producer id where the server's
    level needs one."""
    level, epoch = transactions.config.transaction_version, transaction.producer_epoch
    if transactions.bumps_epochs:
        end(transactions, transaction, turn, is_committed=False, level=level, new_producer_id=new_producer_id)
    else:
        transaction.last_epoch = NO_EPOCH
        _prepare(transactions, transaction, turn, False, level, min(epoch + 1, MAX_EPOCH))


def _prepare(
    transactions: Transactions,
    transaction: Transaction,
    turn: Turn,
    is_committed: bool,
    level: int,
    producer_epoch: int,
    next_producer_id: int | None = None,
) -> tuple[int, int]:
    now_ms = turn.now.wall_ms
    transactions.write(
        transaction,
        PREPARE_COMMIT if is_committed else PREPARE_ABORT,
        turn,
        producer_epoch=producer_epoch,
        next_producer_id=NO_PRODUCER_ID if next_producer_id is None else next_producer_id,
        transaction_partitions=transaction.value.transaction_partitions or [],
        # Of what may never have begun nobody knows since when.
        transaction_start_timestamp_ms=transaction.start_ms if transaction.state is ONGOING else now_ms,
        client_transaction_version=level,
    )
    transaction.markers_error = None
    turn.tell(
        Prepared(
            transaction.transactional_id,
            transaction.producer_id,
            producer_epoch,
            is_committed,
            now_ms - transaction.start_ms,
            len(transaction.partitions),
        )
    )
    send_markers(transactions, transaction, turn)
    if next_producer_id is None:
        return transaction.producer_id, producer_epoch
    return next_producer_id, 0


def send_markers(transactions: Transactions, transaction: Transaction, turn: Turn) -> None:
    """Have the markers of a settled transaction written, where it has none yet; without any it is over."""
    assert transaction.state in PREPARED, (transaction.transactional_id, transaction.state)
    if transaction.partitions:
        turn.send(markers_of(transactions, transaction))
    else:
        _complete(transactions, transaction, turn)


def markers_of(transactions: Transactions, transaction: Transaction) -> Message:
    """What has the markers of a settled transaction written."""
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


def _complete(transactions: Transactions, transaction: Transaction, turn: Turn) -> None:
    prepared, now_ms = transaction.value, turn.now.wall_ms
    is_committed = transaction.state is PREPARE_COMMIT
    producer_id, producer_epoch = transaction.producer_id, transaction.producer_epoch
    if prepared.next_producer_id != NO_PRODUCER_ID:
        producer_id, producer_epoch = prepared.next_producer_id, 0
    transactions.write(
        transaction,
        COMPLETE_COMMIT if is_committed else COMPLETE_ABORT,
        turn,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_partitions=[],
    )
    turn.tell(
        Completed(
            transaction.transactional_id,
            producer_id,
            producer_epoch,
            is_committed,
            now_ms - prepared.transaction_start_timestamp_ms,
            now_ms - prepared.transaction_last_update_timestamp_ms,
            len(partitions_of(prepared)),
        )
    )


def markers_written(transactions: Transactions, request: MarkersWritten, turn: Turn) -> None:
    """Partitions have their marker: with the last one the transaction is over."""
    transaction = _waiting(transactions, request)
    if transaction is not None:
        transaction.partitions.difference_update(request.partitions)
        if not transaction.partitions:
            _complete(transactions, transaction, turn)


def markers_refused(transactions: Transactions, request: MarkersRefused, turn: Turn) -> None:
    """Partitions have seen a later epoch of the producer, or of its coordinator. Whoever has that decides; here
    nothing is done about it."""
    transaction = _waiting(transactions, request)
    if transaction is not None:
        transaction.markers_error = request.error
        turn.tell(
            MarkersGivenUp(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                request.error,
                len(request.partitions),
            )
        )


def _waiting(transactions: Transactions, request: MarkersWritten | MarkersRefused) -> Transaction | None:
    """The transaction whose markers it is about; None when it does not wait for them any more, or they are those of
    another load, whose answers may come after the same producer has ended another transaction."""
    transaction = transactions.find(request.transactional_id)
    if (
        transaction is None
        or transaction.state not in PREPARED
        or request.coordinator_epoch != transactions.coordinator_epoch
        or request.producer_id != transaction.producer_id
        or request.producer_epoch != transaction.producer_epoch
    ):
        return None
    return transaction
