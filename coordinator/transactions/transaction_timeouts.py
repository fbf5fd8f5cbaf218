"""Timeouts of transactions, and the expiration of transactional ids.

A transaction that is open for longer than its producer allowed is aborted, and the producer is fenced. Every
`transaction.abort.timed.out.transaction.cleanup.interval.ms` all open transactions are examined, a part at a
time, and none while none is open. Adding partitions does not prolong a transaction, and neither does a
restart.

A transactional id without a request for `transactional.id.expiration.ms` is removed. Every
`transaction.remove.expired.transaction.cleanup.interval.ms` all are examined, a part at a time. A producer
that returns later gets a new producer id.

Source: Kafka's `TransactionCoordinator.abortTimedOutTransactions`,
`TransactionStateManager.removeExpiredTransactionalIds`.
"""

from typing import Final

from coordinator.core.outcome import Context, OutcomeBuilder
from coordinator.transactions.shard_transactions import ShardTransactions, request_producer_id
from coordinator.transactions.transaction_end import abort_and_fence, needs_producer_id
from coordinator.transactions.transaction_event_types import TransactionalIdExpired, TransactionTimedOut
from coordinator.transactions.transaction_requests import (
    AbortTimedOut,
    TransactionTimerKey,
    TransactionTimerKind,
)
from coordinator.transactions.transaction_state_machine import MAY_EXPIRE, ONGOING

NEVER_MS: Final = 2**31 - 1
"""The timeout of a transaction with two-phase commit, which an external coordinator ends (KIP-939)."""
PARTITIONS_PER_STEP: Final = 10_000
"""Partitions after which a firing of the timer leaves the rest of the sweep to the next one. The time to write the
record of a transaction grows with its partitions."""
NO_CLIENT: Final = Context(0, 0, "", "")
_TIMEOUT_TIMER: Final = TransactionTimerKey(TransactionTimerKind.ABORT_TIMED_OUT)

_EXPIRATION_TIMER: Final = TransactionTimerKey(TransactionTimerKind.REMOVE_EXPIRED)


def arm_timeouts(transactions: ShardTransactions, builder: OutcomeBuilder) -> None:
    """Arm the timer of timeouts, which runs while a transaction is open."""
    if not transactions.timeouts.is_armed:
        transactions.timeouts.is_armed = True
        interval_ms = transactions.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        builder.arm_timer(_TIMEOUT_TIMER, builder.now.monotonic_ms + interval_ms)


def fire_timeouts(transactions: ShardTransactions, builder: OutcomeBuilder) -> None:
    """Abort the transactions in the next part of the sweep that exceed their timeout."""
    sweep = transactions.timeouts
    sweep.is_armed = False
    if not sweep:
        sweep.start(transactions.open)
    taken = sweep.take_next()
    partitions = 0
    for number, transactional_id in enumerate(taken, 1):
        transaction = transactions.find_transaction(transactional_id)
        partitions += 0 if transaction is None else len(transaction.partitions)
        abort_timed_out(transactions, AbortTimedOut(transactional_id), NO_CLIENT, builder)
        if partitions >= PARTITIONS_PER_STEP:
            sweep.put_back(taken[number:])
            break
    if sweep:
        sweep.is_armed = True
        builder.arm_timer(_TIMEOUT_TIMER, builder.now.monotonic_ms)
    elif transactions.open:
        arm_timeouts(transactions, builder)


def abort_timed_out(
    transactions: ShardTransactions,
    request: AbortTimedOut,
    context: Context,
    builder: OutcomeBuilder,
    new_producer_id: int | None = None,
) -> None:
    """Abort a transaction if it exceeds its timeout. `new_producer_id` is the id that was allocated for this abort,
    None before an allocation.
    """
    transaction = transactions.find_transaction(request.transactional_id)
    if transaction is None or transaction.state is not ONGOING or transaction.awaits_producer_id:
        return
    timeout_ms = transaction.value.transaction_timeout_ms
    open_ms = builder.now.wall_ms - transaction.start_ms
    if timeout_ms == NEVER_MS or open_ms <= timeout_ms:
        return
    if needs_producer_id(transaction, transactions.config.transaction_version) and new_producer_id is None:
        transaction.awaits_producer_id = True
        request_producer_id(transactions, request, context, builder)
        return
    builder.add_event(
        TransactionTimedOut(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            open_ms,
            timeout_ms,
            len(transaction.partitions),
        )
    )
    abort_and_fence(transactions, transaction, builder, new_producer_id)


def arm_expiration(transactions: ShardTransactions, builder: OutcomeBuilder) -> None:
    """Arm the timer of expiration, which runs while a transactional id exists."""
    if not transactions.expirations.is_armed:
        transactions.expirations.is_armed = True
        interval_ms = transactions.config.transaction_remove_expired_transaction_cleanup_interval_ms
        builder.arm_timer(_EXPIRATION_TIMER, builder.now.monotonic_ms + interval_ms)


def fire_expiration(transactions: ShardTransactions, builder: OutcomeBuilder) -> None:
    """Remove the expired transactional ids in the next part of the sweep."""
    sweep = transactions.expirations
    sweep.is_armed = False
    if not sweep:
        sweep.start(transactions.by_id)
    for transactional_id in sweep.take_next():
        _expire_transactional_id(transactions, transactional_id, builder)
    if sweep:
        sweep.is_armed = True
        builder.arm_timer(_EXPIRATION_TIMER, builder.now.monotonic_ms)
    elif transactions.by_id:
        arm_expiration(transactions, builder)


def _expire_transactional_id(
    transactions: ShardTransactions, transactional_id: str, builder: OutcomeBuilder
) -> None:
    transaction = transactions.find_transaction(transactional_id)
    if transaction is None or transaction.state not in MAY_EXPIRE:
        return
    idle_ms = builder.now.wall_ms - transaction.value.transaction_last_update_timestamp_ms
    if idle_ms < transactions.config.transactional_id_expiration_ms:
        return
    transactions.remove_transaction(transaction, builder)
    builder.add_event(
        TransactionalIdExpired(transactional_id, transaction.producer_id, transaction.producer_epoch, idle_ms)
    )
