"""The transactions of one `__transaction_state` partition: the face of the core.

A shard has two halves. The durable one (`durable.py`) is what the log says; `replay` alone writes it, for records
that handlers emit as for those read back. The soft one (`transactions.py`: what has no marker yet, who waits) is
written by the handlers; after a restart `loaded` makes it from the durable half.

To follow a request: `handle` finds the handler by the request's class; the file has the request's name. What the
machine may answer before a record is durable, and what not, is told in `transaction.py`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from coordinator.machine.outcome import NO_PRODUCER_ID, Context, Fact, Now, Outcome, WorkDone
from coordinator.machine.turn import Turn
from coordinator.transactions.add_partitions import add_partitions
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.describe_transactions import describe_transaction
from coordinator.transactions.durable import DurableState
from coordinator.transactions.end_txn import end_txn
from coordinator.transactions.ending import markers_refused, markers_written
from coordinator.transactions.expire import fire_expiration
from coordinator.transactions.init_producer_id import init_producer_id
from coordinator.transactions.invariants import check_invariants
from coordinator.transactions.list_transactions import list_transactions
from coordinator.transactions.load import load_transactions
from coordinator.transactions.new_producer_id import drawn_producer_id
from coordinator.transactions.refusal import error_response
from coordinator.transactions.requests import (
    AbortTimedOut,
    AddPartitions,
    DescribeTransaction,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    Request,
    Resumable,
    TransactionPartition,
)
from coordinator.transactions.state import TransactionState
from coordinator.transactions.timeouts import abort_timed_out, fire_timeouts
from coordinator.transactions.timer_key import TimerKey, TimerKind
from coordinator.transactions.transactions import Transactions
from coordinator.transactions.view import TransactionView, view_of
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.transaction_state import TransactionLogValue

Handler: TypeAlias = Callable[[Transactions, Any, Context, Turn], None]
Resume: TypeAlias = Callable[[Transactions, Any, Context, Turn, int], None]

HANDLERS: Final[Mapping[type[object], Handler]] = {
    InitProducerIdRequest: init_producer_id,
    AddPartitions: add_partitions,
    EndTxnRequest: end_txn,
    DescribeTransaction: describe_transaction,
    ListTransactions: list_transactions,
}

RESUMES: Final[Mapping[type[Resumable], Resume]] = {
    InitProducerIdRequest: init_producer_id,
    EndTxnRequest: end_txn,
    AbortTimedOut: abort_timed_out,
}
"""What may need a new producer id, and takes it when it is there."""

TOLD: Final[Mapping[type[object], Callable[[Transactions, Any, Turn], None]]] = {
    MarkersWritten: markers_written,
    MarkersRefused: markers_refused,
}
"""What nobody waits for."""

FIRES: Final[Mapping[TimerKind, Callable[[Transactions, Turn], None]]] = {
    TimerKind.ABORT_TIMED_OUT: fire_timeouts,
    TimerKind.REMOVE_EXPIRED: fire_expiration,
}


class TransactionShard:
    """All transactions of one partition. Not for several threads; every call returns without waiting."""

    __slots__ = ("_transactions",)

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        """In: the epoch of this load, above those of all before it: markers have it, and older ones are refused."""
        self._transactions = Transactions(config, coordinator_epoch)

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """Act on a request. It is answered among the outcome's replies, or parked until a producer id was drawn for
        it: then a later outcome answers its waiter. Every waiter is answered exactly once; MarkersWritten,
        MarkersRefused and WorkDone have no reply of their own."""
        transactions = self._transactions
        turn = Turn(now, transactions.durable.replay)
        kind = type(request)
        if isinstance(request, WorkDone):
            drawn = drawn_producer_id(transactions, request, turn)
            if drawn is not None:
                (again, asker), producer_id = drawn
                RESUMES[type(again)](transactions, again, asker, turn, producer_id)
        elif kind in TOLD:
            TOLD[kind](transactions, request, turn)
        else:
            HANDLERS[kind](transactions, request, context, turn)
        return turn.outcome()

    def fire(self, key: TimerKey, now: Now) -> Outcome:
        """Act on a timer whose deadline has passed."""
        turn = Turn(now, self._transactions.durable.replay)
        FIRES[key.kind](self._transactions, turn)
        return turn.outcome()

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log to the durable state. While loading; live records are applied already."""
        self._transactions.durable.replay(record, producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """A marker in the log of transactions says nothing: its records belong to none."""

    @property
    def has_open_transactions(self) -> bool:
        """Whether records wait for the end of their transaction: none ever does."""
        return False

    def loaded(self, now: Now) -> Outcome:
        """The last record was replayed: have markers written that may be missing, and arm timers."""
        turn = Turn(now, self._transactions.durable.replay)
        load_transactions(self._transactions, turn)
        return turn.outcome()

    def unload(self) -> list[tuple[int, object]]:
        """Give the transactions up: NOT_COORDINATOR for everyone who waits for a producer id. The shard answers
        nothing useful any more."""
        parked = self._transactions.parked
        replies = [
            (waiter, error_response(request, context.api_version, ErrorCode.NOT_COORDINATOR))
            for waiter, (request, context) in parked.items()
        ]
        parked.clear()
        return replies

    def view(self, transactional_id: str, now: Now) -> TransactionView | None:
        """A transactional id as it is now, as values; None when it is not known."""
        transaction = self._transactions.find(transactional_id)
        return None if transaction is None else view_of(transaction, now.wall_ms)

    def transactional_ids(self) -> list[str]:
        """All that are known, oldest first."""
        return list(self._transactions.by_id)

    def open_partitions(self) -> Iterator[tuple[int, TransactionPartition]]:
        """What transactions that are not over have written to, or are about to, with their producer ids."""
        for transaction in self._transactions.by_id.values():
            for partition in transaction.partitions:
                yield transaction.value.producer_id, partition

    def open_ids(self) -> list[str]:
        """Those with a transaction open."""
        return list(self._transactions.open)

    @property
    def states(self) -> Mapping[TransactionState, int]:
        """How many transactional ids are in which state."""
        return self._transactions.states

    @property
    def durable_keys(self) -> int:
        """How many keys have a value in the log."""
        return len(self._transactions.durable)

    def copy_durable(self) -> DurableState:
        """What the log says, as it is now: to be written down while the shard goes on."""
        return self._transactions.durable.copy()

    def durable_state(self) -> dict[str, TransactionLogValue]:
        """What the log says, by transactional id: for comparison with what another shard made of the same
        records."""
        return dict(self._transactions.durable.values)

    def check_invariants(self) -> None:
        """Assert what must hold between calls. Looks at everything: for tests and simulations."""
        check_invariants(self._transactions)
