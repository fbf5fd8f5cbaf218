"""The transactional ids of one shard, by id: the soft half beside the durable one."""

from collections import Counter
from typing import Any

from msgspec import structs

from coordinator.machine.outcome import Context
from coordinator.machine.turn import Turn
from coordinator.transactions.config import EPOCH_BUMP_LEVEL, FLEXIBLE_RECORDS_LEVEL, TransactionConfig
from coordinator.transactions.durable import DurableState
from coordinator.transactions.record_codec import fact_of, fits_plain_version
from coordinator.transactions.requests import Resumable
from coordinator.transactions.state import (
    DEAD,
    EMPTY,
    MAY_EXPIRE,
    ONGOING,
    STATUSES,
    TRANSITIONS,
    TransactionState,
)
from coordinator.transactions.sweep import Sweep
from coordinator.transactions.transaction import NO_PRODUCER_ID, NO_TIME, Transaction
from protocol.records.transaction_state import TransactionLogValue


class Transactions:
    """What the handlers work on. `by_id` has every transactional id that the log knows; one that it does not know
    takes no memory. `open` are those with a transaction open; `states` says how
    many are in which state."""

    __slots__ = (
        "by_id",
        "config",
        "coordinator_epoch",
        "durable",
        "expirations",
        "open",
        "parked",
        "states",
        "timeouts",
    )

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        self.config = config
        self.coordinator_epoch = coordinator_epoch
        self.durable = DurableState()
        self.by_id: dict[str, Transaction] = {}
        self.open: dict[str, None] = {}
        self.states: Counter[TransactionState] = Counter()
        self.parked: dict[int, tuple[Resumable, Context]] = {}
        """Who waits for a new producer id, by waiter."""
        self.timeouts = Sweep()
        self.expirations = Sweep()

    def find(self, transactional_id: str) -> Transaction | None:
        """The transactional id; None when the log does not know it."""
        return self.by_id.get(transactional_id)

    @property
    def bumps_epochs(self) -> bool:
        """Whether the server's own ends, by timeouts and fencing, give the next transaction another epoch."""
        return self.config.transaction_version >= EPOCH_BUMP_LEVEL

    def create(self, transactional_id: str, producer_id: int, timeout_ms: int, turn: Turn) -> Transaction:
        """A transactional id that was not known, with a producer id that is new, at epoch 0."""
        value = TransactionLogValue(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_timeout_ms=timeout_ms,
            transaction_status=STATUSES[EMPTY],
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=turn.now.wall_ms,
            transaction_start_timestamp_ms=NO_TIME,
            previous_producer_id=producer_id,
        )
        transaction = Transaction(transactional_id, value)
        self.take_in(transaction)
        self._write(transaction, value, turn)
        return transaction

    def write(self, transaction: Transaction, target: TransactionState, turn: Turn, **changes: Any) -> None:
        """The next record of a transactional id: what is not among the changed fields of the value stays."""
        source, value = transaction.state, transaction.value
        assert (source, target) in TRANSITIONS, (transaction.transactional_id, source, target)
        assert target is not DEAD, "whose end is a tombstone"
        changes.setdefault("next_producer_id", NO_PRODUCER_ID)
        self._write(
            transaction,
            _changed(
                value,
                transaction_status=STATUSES[target],
                transaction_last_update_timestamp_ms=turn.now.wall_ms,
                previous_producer_id=value.producer_id,
                **changes,
            ),
            turn,
        )
        self.states[source] -= 1
        self.states[target] += 1
        if target is ONGOING:
            self.open.setdefault(transaction.transactional_id, None)
        elif source is ONGOING:
            del self.open[transaction.transactional_id]

    def _write(self, transaction: Transaction, value: TransactionLogValue, turn: Turn) -> None:
        transaction.previous_producer_id = value.previous_producer_id
        is_flexible = self.config.transaction_version >= FLEXIBLE_RECORDS_LEVEL
        if not is_flexible:
            plain = _changed(value, previous_producer_id=NO_PRODUCER_ID)
            # Plain records lack the producer id before; a next one, or a level, must not be left out.
            value = plain if fits_plain_version(plain) else value
        transaction.take(value)
        turn.write(fact_of(transaction.transactional_id, value, is_flexible=is_flexible))

    def take_in(self, transaction: Transaction) -> None:
        """One that is in the log, or is about to be."""
        self.by_id[transaction.transactional_id] = transaction
        self.states[transaction.state] += 1
        if transaction.state is ONGOING:
            self.open[transaction.transactional_id] = None

    def remove(self, transaction: Transaction, turn: Turn) -> None:
        """Forget a transactional id, for good."""
        assert transaction.state in MAY_EXPIRE, (transaction.transactional_id, transaction.state)
        turn.write(fact_of(transaction.transactional_id, None))
        del self.by_id[transaction.transactional_id]
        self.states[transaction.state] -= 1


def _changed(value: Any, **changes: Any) -> TransactionLogValue:
    """A copy of a value with others in some fields."""
    # The decorator that declares the class makes it a Struct, which its type does not say.
    changed: TransactionLogValue = structs.replace(value, **changes)
    return changed
