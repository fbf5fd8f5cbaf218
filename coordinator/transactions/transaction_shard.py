"""The transactions of one `__transaction_state` partition: the interface of the core.

A shard has two halves. The durable half (`transaction_records.py`) is what the log says; only `replay` writes
it, for records that handlers emit and for records that are read from the log. The soft half
(`shard_transactions.py`: markers that are not written yet, waiting requests) is written by the handlers.
After a restart `on_loaded` creates it from the durable half. An ended transaction that may lack markers gets
all of them again, with the coordinator epoch of this load. An open transaction stays open, and its time
counts from its begin. Earlier epochs are forgotten, as in Kafka.

`handle` finds the handler by the class of a request. `transaction.py` says which responses must wait until a
record is durable.

Source: Kafka's `TransactionStateManager.loadTransactionsForTxnTopicPartition`.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from coordinator.core.outcome import NO_PRODUCER_ID, Context, Fact, Now, Outcome, OutcomeBuilder, WorkDone
from coordinator.transactions.add_partitions import add_partitions
from coordinator.transactions.producer_initialization import init_producer_id
from coordinator.transactions.shard_transactions import ShardTransactions, check_invariants, on_producer_id
from coordinator.transactions.transaction import TransactionMetadata, TransactionView, view_transaction
from coordinator.transactions.transaction_admin_requests import describe_transaction, list_transactions
from coordinator.transactions.transaction_end import (
    build_markers_message,
    end_txn,
    on_markers_refused,
    on_markers_written,
    send_markers,
)
from coordinator.transactions.transaction_event_types import MarkersSentAgain, TransactionRecordsSkipped
from coordinator.transactions.transaction_records import DurableTransactions
from coordinator.transactions.transaction_request_rules import build_transaction_error_response
from coordinator.transactions.transaction_requests import (
    AbortTimedOut,
    AddPartitions,
    DescribeTransaction,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    Request,
    Resumable,
    TransactionConfig,
    TransactionPartition,
    TransactionTimerKey,
    TransactionTimerKind,
)
from coordinator.transactions.transaction_state_machine import PREPARE_COMMIT, PREPARED, TransactionState
from coordinator.transactions.transaction_timeouts import (
    abort_timed_out,
    arm_expiration,
    arm_timeouts,
    fire_expiration,
    fire_timeouts,
)
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records.transaction_state import TransactionLogValue

Handler: TypeAlias = Callable[[ShardTransactions, Any, Context, OutcomeBuilder], None]
ResumeHandler: TypeAlias = Callable[[ShardTransactions, Any, Context, OutcomeBuilder, int], None]

REQUEST_HANDLERS: Final[Mapping[type[object], Handler]] = {
    InitProducerIdRequest: init_producer_id,
    AddPartitions: add_partitions,
    EndTxnRequest: end_txn,
    DescribeTransaction: describe_transaction,
    ListTransactions: list_transactions,
}

RESUME_HANDLERS: Final[Mapping[type[Resumable], ResumeHandler]] = {
    InitProducerIdRequest: init_producer_id,
    EndTxnRequest: end_txn,
    AbortTimedOut: abort_timed_out,
}
"""Handlers of requests that may wait for a new producer id; they take it when it is there."""

NOTIFICATION_HANDLERS: Final[
    Mapping[type[object], Callable[[ShardTransactions, Any, OutcomeBuilder], None]]
] = {
    MarkersWritten: on_markers_written,
    MarkersRefused: on_markers_refused,
}
"""Handlers of requests without a reply."""

TIMER_HANDLERS: Final[Mapping[TransactionTimerKind, Callable[[ShardTransactions, OutcomeBuilder], None]]] = {
    TransactionTimerKind.ABORT_TIMED_OUT: fire_timeouts,
    TransactionTimerKind.REMOVE_EXPIRED: fire_expiration,
}


class TransactionShard:
    """All transactions of one partition. Not for several threads; every call returns without waiting."""

    __slots__ = ("_transactions",)

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        """In: the epoch of this load, above those of all before it: markers have it, and older ones are refused."""
        self._transactions = ShardTransactions(config, coordinator_epoch)

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """Act on a request. It is answered among the outcome's replies, or parked until a producer id was drawn for
        it: then a later outcome answers its waiter. Every waiter is answered exactly once; MarkersWritten,
        MarkersRefused and WorkDone have no reply of their own."""
        transactions = self._transactions
        builder = OutcomeBuilder(now, transactions.durable.replay)
        kind = type(request)
        if isinstance(request, WorkDone):
            resumed = on_producer_id(transactions, request, builder)
            if resumed is not None:
                (suspended, suspended_context), producer_id = resumed
                RESUME_HANDLERS[type(suspended)](
                    transactions, suspended, suspended_context, builder, producer_id
                )
        elif kind in NOTIFICATION_HANDLERS:
            NOTIFICATION_HANDLERS[kind](transactions, request, builder)
        else:
            REQUEST_HANDLERS[kind](transactions, request, context, builder)
        return builder.build()

    def fire_timer(self, key: TransactionTimerKey, now: Now) -> Outcome:
        """Act on a timer whose deadline has passed."""
        builder = OutcomeBuilder(now, self._transactions.durable.replay)
        TIMER_HANDLERS[key.kind](self._transactions, builder)
        return builder.build()

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log to the durable state. While loading; live records are applied already."""
        self._transactions.durable.replay(record, producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """A marker in the log of transactions says nothing: its records belong to none."""

    @property
    def has_open_transactions(self) -> bool:
        """Whether records wait for the end of their transaction: none ever does."""
        return False

    def on_loaded(self, now: Now) -> Outcome:
        """The last record was replayed: have markers written that may be missing, and arm timers."""
        builder = OutcomeBuilder(now, self._transactions.durable.replay)
        load_transactions(self._transactions, builder)
        return builder.build()

    def unload(self) -> list[tuple[int, object]]:
        """Give the transactions up: NOT_COORDINATOR for everyone who waits for a producer id. The shard answers
        nothing useful any more."""
        parked = self._transactions.parked
        replies = [
            (
                waiter,
                build_transaction_error_response(request, context.api_version, ErrorCode.NOT_COORDINATOR),
            )
            for waiter, (request, context) in parked.items()
        ]
        parked.clear()
        return replies

    def view_transaction(self, transactional_id: str, now: Now) -> TransactionView | None:
        """A transactional id as it is now, as values; None when it is not known."""
        transaction = self._transactions.find_transaction(transactional_id)
        return None if transaction is None else view_transaction(transaction, now.wall_ms)

    def list_transactional_ids(self) -> list[str]:
        """All known transactional ids, oldest first."""
        return list(self._transactions.by_id)

    def iterate_open_partitions(self) -> Iterator[tuple[int, TransactionPartition]]:
        """What transactions that are not over have written to, or are about to, with their producer ids."""
        for transaction in self._transactions.by_id.values():
            for partition in transaction.partitions:
                yield transaction.value.producer_id, partition

    def list_open_ids(self) -> list[str]:
        """The transactional ids with an open transaction."""
        return list(self._transactions.open)

    @property
    def states(self) -> Mapping[TransactionState, int]:
        """How many transactional ids are in which state."""
        return self._transactions.states

    @property
    def durable_keys(self) -> int:
        """How many keys have a value in the log."""
        return len(self._transactions.durable)

    def copy_durable(self) -> DurableTransactions:
        """What the log says, as it is now: to be written down while the shard goes on."""
        return self._transactions.durable.copy()

    def snapshot_durable(self) -> dict[str, TransactionLogValue]:
        """What the log says, by transactional id: for comparison with what another shard made of the same
        records."""
        return dict(self._transactions.durable.values)

    def check_invariants(self) -> None:
        """Assert what must hold between calls. Looks at everything: for tests and simulations."""
        check_invariants(self._transactions)


def load_transactions(transactions: ShardTransactions, builder: OutcomeBuilder) -> None:
    """Every transactional id that the log knows."""
    assert not transactions.by_id, "a shard is loaded once, before it is used"
    ended = []
    for transactional_id, value in transactions.durable.values.items():
        transaction = TransactionMetadata(transactional_id, value)
        transactions.add_transaction(transaction)
        if transaction.state in PREPARED:
            ended.append(transaction)
    for transaction in ended:
        builder.add_event(
            MarkersSentAgain(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.state is PREPARE_COMMIT,
                len(transaction.partitions),
            )
        )
    builder.messages = [build_markers_message(transactions, one) for one in ended if one.partitions]
    for transaction in ended:
        if not transaction.partitions:
            send_markers(transactions, transaction, builder)
    skipped = Counter(value.version for value in transactions.durable.skipped)
    for version, count in sorted(skipped.items()):
        builder.add_event(TransactionRecordsSkipped(version, count))
    if transactions.open:
        arm_timeouts(transactions, builder)
    if transactions.by_id:
        arm_expiration(transactions, builder)
