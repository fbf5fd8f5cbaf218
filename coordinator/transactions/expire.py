"""Transactional ids of which nothing was heard for `transactional.id.expiration.ms` are forgotten.

Every `transaction.remove.expired.transaction.cleanup.interval.ms` all are looked at, a part at a time. A producer
that comes back later gets a new producer id.

Source: Kafka's `TransactionStateManager.removeExpiredTransactionalIds`.
"""

from typing import Final

from coordinator.machine.turn import Turn
from coordinator.transactions.events import Expired
from coordinator.transactions.state import MAY_EXPIRE
from coordinator.transactions.timer_key import TimerKey, TimerKind
from coordinator.transactions.transactions import Transactions

_KEY: Final = TimerKey(TimerKind.REMOVE_EXPIRED)


def arm_expiration(transactions: Transactions, turn: Turn) -> None:
    """There is a transactional id: see to it that somebody looks."""
    if not transactions.expirations.is_armed:
        transactions.expirations.is_armed = True
        interval_ms = transactions.config.transaction_remove_expired_transaction_cleanup_interval_ms
        turn.arm(_KEY, turn.now.monotonic_ms + interval_ms)


def fire_expiration(transactions: Transactions, turn: Turn) -> None:
    """Look at the next ones."""
    sweep = transactions.expirations
    sweep.is_armed = False
    if not sweep:
        sweep.begin(transactions.by_id)
    for transactional_id in sweep.take():
        _expire(transactions, transactional_id, turn)
    if sweep:
        sweep.is_armed = True
        turn.arm(_KEY, turn.now.monotonic_ms)
    elif transactions.by_id:
        arm_expiration(transactions, turn)


def _expire(transactions: Transactions, transactional_id: str, turn: Turn) -> None:
    transaction = transactions.find(transactional_id)
    if transaction is None or transaction.state not in MAY_EXPIRE:
        return
    idle_ms = turn.now.wall_ms - transaction.value.transaction_last_update_timestamp_ms
    if idle_ms < transactions.config.transactional_id_expiration_ms:
        return
    transactions.remove(transaction, turn)
    turn.tell(Expired(transactional_id, transaction.producer_id, transaction.producer_epoch, idle_ms))
