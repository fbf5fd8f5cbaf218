"""A transactional id as it is at one moment, as values: for whoever shows it to people or waits until it is
so."""

from msgspec import Struct

from coordinator.transactions.requests import TransactionPartition
from coordinator.transactions.state import ONGOING, PREPARED, TransactionState
from coordinator.transactions.transaction import Transaction
from protocol.errors import ErrorCode


class TransactionView(Struct, frozen=True, kw_only=True):
    """A transactional id. `state_ms` is for how long nothing about it has changed, `open_ms` since when its
    transaction is open, until the last marker is there; None where none is. `partitions` are those of an open
    transaction, `unmarked` those of an ended one that wait for its marker; `markers_error` is why markers were
    given up until the next load. `transaction_version` is the level of who wrote to it last."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    transaction_version: int
    state_ms: int
    open_ms: int | None
    partitions: tuple[TransactionPartition, ...]
    unmarked: tuple[TransactionPartition, ...]
    markers_error: ErrorCode | None


def view_of(transaction: Transaction, wall_ms: int) -> TransactionView:
    """As it is at a wall time."""
    state, value = transaction.state, transaction.value
    partitions = tuple(sorted(transaction.partitions))
    is_open = state is ONGOING or state in PREPARED
    return TransactionView(
        transactional_id=transaction.transactional_id,
        state=state,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        transaction_version=value.client_transaction_version,
        state_ms=wall_ms - value.transaction_last_update_timestamp_ms,
        open_ms=wall_ms - transaction.start_ms if is_open else None,
        partitions=partitions if state is ONGOING else (),
        unmarked=partitions if state in PREPARED else (),
        markers_error=transaction.markers_error if state in PREPARED else None,
    )
