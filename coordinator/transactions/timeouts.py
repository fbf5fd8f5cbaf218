"""Transactions that are open for longer than their producer allowed are aborted, and the producer is fenced.

Every `transaction.abort.timed.out.transaction.cleanup.interval.ms` all open ones are looked at, a part at a time;
while none is open nobody looks. What is added to a transaction does not prolong it, and neither does a restart.

Source: Kafka's `TransactionCoordinator.abortTimedOutTransactions`.
"""

from typing import Final

from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from coordinator.transactions.ending import abort_and_fence, needs_producer_id
from coordinator.transactions.events import TimedOut
from coordinator.transactions.new_producer_id import draw_producer_id
from coordinator.transactions.requests import AbortTimedOut
from coordinator.transactions.state import ONGOING
from coordinator.transactions.timer_key import TimerKey, TimerKind
from coordinator.transactions.transactions import Transactions

NEVER_MS: Final = 2**31 - 1
"""The timeout of a transaction with two phases, which somebody else ends (KIP-939)."""
PARTITIONS_AT_ONCE: Final = 10_000
"""Of all transactions that one firing of the timer looks at: the more there are, the longer it takes to write."""
NOBODY: Final = Context(0, 0, "", "")
_KEY: Final = TimerKey(TimerKind.ABORT_TIMED_OUT)


def arm_timeouts(transactions: Transactions, turn: Turn) -> None:
    """A transaction is open: see to it that somebody looks."""
    if not transactions.timeouts.is_armed:
        transactions.timeouts.is_armed = True
        interval_ms = transactions.config.transaction_abort_timed_out_transaction_cleanup_interval_ms
        turn.arm(_KEY, turn.now.monotonic_ms + interval_ms)


def fire_timeouts(transactions: Transactions, turn: Turn) -> None:
    """Look at the next ones."""
    sweep = transactions.timeouts
    sweep.is_armed = False
    if not sweep:
        sweep.begin(transactions.open)
    taken = sweep.take()
    partitions = 0
    for number, transactional_id in enumerate(taken, 1):
        transaction = transactions.find(transactional_id)
        partitions += 0 if transaction is None else len(transaction.partitions)
        abort_timed_out(transactions, AbortTimedOut(transactional_id), NOBODY, turn)
        if partitions >= PARTITIONS_AT_ONCE:
            sweep.put_back(taken[number:])
            break
    if sweep:
        sweep.is_armed = True
        turn.arm(_KEY, turn.now.monotonic_ms)
    elif transactions.open:
        arm_timeouts(transactions, turn)


def abort_timed_out(
    transactions: Transactions,
    request: AbortTimedOut,
    context: Context,
    turn: Turn,
    new_producer_id: int | None = None,
) -> None:
    """Abort a transaction, if its time is over. In: a new producer id, where one was drawn for it."""
    transaction = transactions.find(request.transactional_id)
    if transaction is None or transaction.state is not ONGOING or transaction.draws_producer_id:
        return
    timeout_ms = transaction.value.transaction_timeout_ms
    open_ms = turn.now.wall_ms - transaction.start_ms
    if timeout_ms == NEVER_MS or open_ms <= timeout_ms:
        return
    if needs_producer_id(transaction, transactions.config.transaction_version) and new_producer_id is None:
        transaction.draws_producer_id = True
        draw_producer_id(transactions, request, context, turn)
        return
    turn.tell(
        TimedOut(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            open_ms,
            timeout_ms,
            len(transaction.partitions),
        )
    )
    abort_and_fence(transactions, transaction, turn, new_producer_id)
