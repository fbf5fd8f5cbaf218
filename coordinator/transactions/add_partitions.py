"""AddPartitionsToTxn, AddOffsetsToTxn, and the partitions that a broker adds or verifies for a producer.

Source: KIP-98, KIP-890; Kafka's `TransactionCoordinator.handleAddPartitionsToTransaction`,
`handleVerifyPartitionsInTransaction`.
"""

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.transaction import TransactionMetadata, add_to_partitions
from coordinator.transactions.transaction_event_types import (
    EpochDiffers,
    MarkersOutstanding,
    PartitionsMissing,
    ProducerIdDiffers,
    RecordTooLarge,
    TransactionBegan,
)
from coordinator.transactions.transaction_records import exceeds_max_bytes
from coordinator.transactions.transaction_request_rules import (
    add_refused_event,
    refuse_before_lookup,
    refuse_request,
)
from coordinator.transactions.transaction_requests import AddPartitions, AddPartitionsResult
from coordinator.transactions.transaction_state_machine import ONGOING, PREPARED
from coordinator.transactions.transaction_timeouts import arm_timeouts
from protocol.error_codes import ErrorCode


def add_partitions(
    transactions: ShardTransactions, request: AddPartitions, context: Context, builder: OutcomeBuilder
) -> None:
    """Answer an AddPartitions with AddPartitionsResult."""
    if refuse_before_lookup(request, context, transactions.config, builder):
        return
    transaction = transactions.find_transaction(request.transactional_id)
    if transaction is None:
        refuse_request(None, request, context, ErrorCode.INVALID_PRODUCER_ID_MAPPING, builder)
        return
    if request.verify_only:
        # As in Kafka, a verification reports a wrong producer before markers in progress, unlike an addition.
        if not (
            _refuse_other_producer(transaction, request, context, builder)
            or _refuse_while_ending(transaction, request, context, builder)
        ):
            _verify_partitions(transaction, request, context, builder)
    elif not (
        _refuse_while_ending(transaction, request, context, builder)
        or _refuse_other_producer(transaction, request, context, builder)
    ):
        _add_new_partitions(transactions, transaction, request, context, builder)


def _refuse_while_ending(
    transaction: TransactionMetadata, request: AddPartitions, context: Context, builder: OutcomeBuilder
) -> bool:
    """Refuse a request that arrives while markers are under way; return whether it was refused."""
    if transaction.state not in PREPARED:
        return False
    detail = MarkersOutstanding(len(transaction.partitions))
    refuse_request(transaction, request, context, ErrorCode.CONCURRENT_TRANSACTIONS, builder, detail)
    return True


def _refuse_other_producer(
    transaction: TransactionMetadata, request: AddPartitions, context: Context, builder: OutcomeBuilder
) -> bool:
    """Refuse a request of another than the current producer; return whether it was refused."""
    if request.producer_id != transaction.producer_id:
        other_id = ProducerIdDiffers(request.producer_id, transaction.producer_id)
        refuse_request(
            transaction, request, context, ErrorCode.INVALID_PRODUCER_ID_MAPPING, builder, other_id
        )
        return True
    if request.producer_epoch != transaction.producer_epoch:
        other_epoch = EpochDiffers(request.producer_epoch, transaction.producer_epoch)
        refuse_request(transaction, request, context, ErrorCode.PRODUCER_FENCED, builder, other_epoch)
        return True
    return False


def _verify_partitions(
    transaction: TransactionMetadata, request: AddPartitions, context: Context, builder: OutcomeBuilder
) -> None:
    errors = {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in request.partitions
    }
    builder.reply(context.waiter, AddPartitionsResult(errors))
    missing = sum(error is not ErrorCode.NONE for error in errors.values())
    if missing:
        detail = PartitionsMissing(missing)
        add_refused_event(transaction, request, ErrorCode.TRANSACTION_ABORTABLE, builder, detail)


def _add_new_partitions(
    transactions: ShardTransactions,
    transaction: TransactionMetadata,
    request: AddPartitions,
    context: Context,
    builder: OutcomeBuilder,
) -> None:
    begins = transaction.state is not ONGOING
    added = [one for one in dict.fromkeys(request.partitions) if one not in transaction.partitions]
    if begins or added:
        partitions = add_to_partitions(transaction.value, added)
        count, max_bytes = len(transaction.partitions) + len(added), transactions.config.message_max_bytes
        if exceeds_max_bytes(transaction.transactional_id, partitions, count, max_bytes):
            detail = RecordTooLarge(count, max_bytes)
            refuse_request(transaction, request, context, ErrorCode.UNKNOWN_SERVER_ERROR, builder, detail)
            return
        transactions.write_transition(
            transaction,
            ONGOING,
            builder,
            transaction_partitions=partitions,
            transaction_start_timestamp_ms=builder.now.wall_ms if begins else transaction.start_ms,
            client_transaction_version=request.transaction_version,
        )
        transaction.partitions.update(added)
    builder.reply(context.waiter, AddPartitionsResult(dict.fromkeys(request.partitions, ErrorCode.NONE)))
    if begins:
        arm_timeouts(transactions, builder)
        producer_id, producer_epoch = transaction.producer_id, transaction.producer_epoch
        builder.add_event(
            TransactionBegan(transaction.transactional_id, producer_id, producer_epoch, len(added))
        )
