"""The transactions of one `__transaction_state` partition: the interface of the core.

A shard has two halves. The durable half (`transaction_records.py`) equals the log; only `replay` writes it, for
records that handlers emit and for records that are read from the log. The handlers write the soft half
(`shard_transactions.py`: unwritten markers, parked requests). After a restart `on_loaded` creates it from the
durable half. An ended transaction that may lack markers gets all of them again, with the coordinator epoch of this
load. An open transaction stays open, and its timeout counts from its start. Previous epochs are forgotten, as in
Kafka.

`handle` finds the handler by the class of a request. `transaction.py` says which responses must wait until a record
is durable.

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
"""Handlers of requests that may wait for a new producer id; each takes the id when it arrives."""

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
    """All transactions of one partition. Not thread-safe; every call returns without waiting."""

    __slots__ = ("_transactions",)

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        """Create an empty shard. `coordinator_epoch` is the epoch of this load, higher than all earlier ones.
        Markers carry it, and partitions refuse markers with an older one.
        """
        self._transactions = ShardTransactions(config, coordinator_epoch)

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """Handle a request.

        The response is in the outcome's replies, or the request is parked until a producer id arrives. Then a later
        outcome answers its waiter. Every waiter is answered exactly once; MarkersWritten, MarkersRefused and
        WorkDone have no reply.
        """
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
        """Handle a timer that fired."""
        builder = OutcomeBuilder(now, self._transactions.durable.replay)
        TIMER_HANDLERS[key.kind](self._transactions, builder)
        return builder.build()

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log to the durable state, during a load. Live records are applied when they are
        written.
        """
        self._transactions.durable.replay(record, producer_id)

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Ignore a marker: the records in the log of transactions belong to no transaction."""

    @property
    def has_open_transactions(self) -> bool:
        """Return False: no records wait for the end of a transaction."""
        return False

    def on_loaded(self, now: Now) -> Outcome:
        """Finish the load after the last record: send markers that may be missing, and arm timers."""
        builder = OutcomeBuilder(now, self._transactions.durable.replay)
        load_transactions(self._transactions, builder)
        return builder.build()

    def unload(self) -> list[tuple[int, object]]:
        """Unload the shard. Returns NOT_COORDINATOR for each request that waits for a producer id. The shard must
        not be used afterwards.
        """
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
        """Return the view of a transactional id, None if it is unknown."""
        transaction = self._transactions.find_transaction(transactional_id)
        return None if transaction is None else view_transaction(transaction, now.wall_ms)

    def list_transactional_ids(self) -> list[str]:
        """Return all known transactional ids, oldest first."""
        return list(self._transactions.by_id)

    def iterate_open_partitions(self) -> Iterator[tuple[int, TransactionPartition]]:
        """Iterate over the partitions of unfinished transactions, with their producer ids. Includes partitions that
        the producer may not have written to yet.
        """
        for transaction in self._transactions.by_id.values():
            for partition in transaction.partitions:
                yield transaction.value.producer_id, partition

    def list_open_ids(self) -> list[str]:
        """Return the transactional ids with an open transaction."""
        return list(self._transactions.open)

    @property
    def states(self) -> Mapping[TransactionState, int]:
        """Return the number of transactional ids by state."""
        return self._transactions.states

    @property
    def durable_keys(self) -> int:
        """Return the number of keys that have a value in the log."""
        return len(self._transactions.durable)

    def copy_durable(self) -> DurableTransactions:
        """Return a copy of the durable state, to write while the shard continues."""
        return self._transactions.durable.copy()

    def snapshot_durable(self) -> dict[str, TransactionLogValue]:
        """Return the durable state by transactional id, for comparison with another shard that replayed the same
        records.
        """
        return dict(self._transactions.durable.values)

    def check_invariants(self) -> None:
        """Raise AssertionError if an invariant is violated. Checks everything: for tests and simulations."""
        check_invariants(self._transactions)


def load_transactions(transactions: ShardTransactions, builder: OutcomeBuilder) -> None:
    """Load every transactional id in the log."""
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
