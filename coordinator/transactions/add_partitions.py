"""AddPartitionsToTxn, AddOffsetsToTxn, and what a broker adds or verifies for a producer that writes.

Source: KIP-98, KIP-890; Kafka's `TransactionCoordinator.handleAddPartitionsToTransaction`,
`handleVerifyPartitionsInTransaction`.
"""

from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from coordinator.transactions.events import Began
from coordinator.transactions.record_size import exceeds
from coordinator.transactions.refusal import refuse, refuse_before_lookup, tell_refusal
from coordinator.transactions.refusal_facts import (
    EpochDiffers,
    MarkersOutstanding,
    PartitionsMissing,
    ProducerIdDiffers,
    RecordTooLarge,
)
from coordinator.transactions.requests import AddPartitions, PartitionsAdded
from coordinator.transactions.state import ONGOING, PREPARED
from coordinator.transactions.timeouts import arm_timeouts
from coordinator.transactions.transaction import Transaction, with_partitions
from coordinator.transactions.transactions import Transactions
from protocol.errors import ErrorCode


def add_partitions(transactions: Transactions, request: AddPartitions, context: Context, turn: Turn) -> None:
    """Answer an AddPartitions with PartitionsAdded."""
    if refuse_before_lookup(request, context, transactions.config, turn):
        return
    transaction = transactions.find(request.transactional_id)
    if transaction is None:
        refuse(None, request, context, ErrorCode.INVALID_PRODUCER_ID_MAPPING, turn)
        return
    if request.verify_only:
        # A broker asks: it is told whose transaction it is before what it waits for.
        if not (
            _is_of_another(transaction, request, context, turn) or _ends(transaction, request, context, turn)
        ):
            _verify(transaction, request, context, turn)
    elif not (
        _ends(transaction, request, context, turn) or _is_of_another(transaction, request, context, turn)
    ):
        _add(transactions, transaction, request, context, turn)


def _ends(transaction: Transaction, request: AddPartitions, context: Context, turn: Turn) -> bool:
    """Refuse what comes while markers are under way."""
    if transaction.state not in PREPARED:
        return False
    detail = MarkersOutstanding(len(transaction.partitions))
    refuse(transaction, request, context, ErrorCode.CONCURRENT_TRANSACTIONS, turn, detail)
    return True


def _is_of_another(transaction: Transaction, request: AddPartitions, context: Context, turn: Turn) -> bool:
    """Refuse what does not come from the present producer."""
    if request.producer_id != transaction.producer_id:
        other_id = ProducerIdDiffers(request.producer_id, transaction.producer_id)
        refuse(transaction, request, context, ErrorCode.INVALID_PRODUCER_ID_MAPPING, turn, other_id)
        return True
    if request.producer_epoch != transaction.producer_epoch:
        other_epoch = EpochDiffers(request.producer_epoch, transaction.producer_epoch)
        refuse(transaction, request, context, ErrorCode.PRODUCER_FENCED, turn, other_epoch)
        return True
    return False


def _verify(transaction: Transaction, request: AddPartitions, context: Context, turn: Turn) -> None:
    errors = {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in request.partitions
    }
    turn.reply(context.waiter, PartitionsAdded(errors))
    missing = sum(error is not ErrorCode.NONE for error in errors.values())
    if missing:
        detail = PartitionsMissing(missing)
        tell_refusal(transaction, request, ErrorCode.TRANSACTION_ABORTABLE, turn, detail)


def _add(
    transactions: Transactions, transaction: Transaction, request: AddPartitions, context: Context, turn: Turn
) -> None:
    begins = transaction.state is not ONGOING
    added = [one for one in dict.fromkeys(request.partitions) if one not in transaction.partitions]
    if begins or added:
        partitions = with_partitions(transaction.value, added)
        count, max_bytes = len(transaction.partitions) + len(added), transactions.config.message_max_bytes
        if exceeds(transaction.transactional_id, partitions, count, max_bytes):
            detail = RecordTooLarge(count, max_bytes)
            refuse(transaction, request, context, ErrorCode.UNKNOWN_SERVER_ERROR, turn, detail)
            return
        transactions.write(
            transaction,
            ONGOING,
            turn,
            transaction_partitions=partitions,
            transaction_start_timestamp_ms=turn.now.wall_ms if begins else transaction.start_ms,
            client_transaction_version=request.transaction_version,
        )
        transaction.partitions.update(added)
    turn.reply(context.waiter, PartitionsAdded(dict.fromkeys(request.partitions, ErrorCode.NONE)))
    if begins:
        arm_timeouts(transactions, turn)
        producer_id, producer_epoch = transaction.producer_id, transaction.producer_epoch
        turn.tell(Began(transaction.transactional_id, producer_id, producer_epoch, len(added)))
