"""The transactional ids of one shard: their soft state, periodic sweeps, requests for producer ids, and
invariants.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import structs

from coordinator.core.outcome import Context, OutcomeBuilder, Work, WorkDone
from coordinator.transactions.transaction import NO_PRODUCER_ID, NO_TIME, TransactionMetadata, list_partitions
from coordinator.transactions.transaction_event_types import NoProducerId
from coordinator.transactions.transaction_records import DurableTransactions, build_fact, fits_plain_version
from coordinator.transactions.transaction_request_rules import refuse_request
from coordinator.transactions.transaction_requests import (
    EPOCH_BUMP_LEVEL,
    FLEXIBLE_RECORDS_LEVEL,
    PRODUCER_ID,
    AbortTimedOut,
    Resumable,
    SuspendedRequest,
    TransactionConfig,
)
from coordinator.transactions.transaction_state_machine import (
    DEAD,
    EMPTY,
    MAY_EXPIRE,
    ONGOING,
    PREPARED,
    STATUSES,
    TRANSITIONS,
    TransactionState,
)
from protocol.error_codes import ErrorCode
from protocol.records.transaction_state import TransactionLogValue


class ShardTransactions:
    """The state on which the handlers work. `by_id` has every transactional id in the log; unknown ids take no
    memory. `open` has the ids with an open transaction; `states` counts the ids by state.
    """

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
        self.durable = DurableTransactions()
        self.by_id: dict[str, TransactionMetadata] = {}
        self.open: dict[str, None] = {}
        self.states: Counter[TransactionState] = Counter()
        self.parked: dict[int, tuple[Resumable, Context]] = {}
        """Requests that wait for a new producer id, by waiter."""
        self.timeouts = TransactionSweep()
        self.expirations = TransactionSweep()

    def find_transaction(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the transactional id, None if the log does not have it."""
        return self.by_id.get(transactional_id)

    @property
    def bumps_epochs(self) -> bool:
        """Return whether the coordinator aborts a transaction, at a timeout or to fence a producer, by the rules of
        KIP-890: as EndTxn v5 does, with a new producer id if the epochs of the old one are exhausted."""
        return self.config.transaction_version >= EPOCH_BUMP_LEVEL

    def create_transaction(
        self, transactional_id: str, producer_id: int, timeout_ms: int, builder: OutcomeBuilder
    ) -> TransactionMetadata:
        """Create a transactional id with a new producer id, at epoch 0."""
        value = TransactionLogValue(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_timeout_ms=timeout_ms,
            transaction_status=STATUSES[EMPTY],
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=builder.now.wall_ms,
            transaction_start_timestamp_ms=NO_TIME,
            previous_producer_id=producer_id,
        )
        transaction = TransactionMetadata(transactional_id, value)
        self.add_transaction(transaction)
        self._write_value(transaction, value, builder)
        return transaction

    def write_transition(
        self,
        transaction: TransactionMetadata,
        target: TransactionState,
        builder: OutcomeBuilder,
        **changes: Any,
    ) -> None:
        """Write the next record of a transactional id. Fields of the value that are not in `changes` stay."""
        source, value = transaction.state, transaction.value
        assert (source, target) in TRANSITIONS, (transaction.transactional_id, source, target)
        assert target is not DEAD, "whose end is a tombstone"
        changes.setdefault("next_producer_id", NO_PRODUCER_ID)
        self._write_value(
            transaction,
            _replace_fields(
                value,
                transaction_status=STATUSES[target],
                transaction_last_update_timestamp_ms=builder.now.wall_ms,
                previous_producer_id=value.producer_id,
                **changes,
            ),
            builder,
        )
        self.states[source] -= 1
        self.states[target] += 1
        if target is ONGOING:
            self.open.setdefault(transaction.transactional_id, None)
        elif source is ONGOING:
            del self.open[transaction.transactional_id]

    def _write_value(
        self, transaction: TransactionMetadata, value: TransactionLogValue, builder: OutcomeBuilder
    ) -> None:
        transaction.previous_producer_id = value.previous_producer_id
        is_flexible = self.config.transaction_version >= FLEXIBLE_RECORDS_LEVEL
        if not is_flexible:
            plain = _replace_fields(value, previous_producer_id=NO_PRODUCER_ID)
            # The plain form may lose the previous producer id, but not the next producer id or the level.
            value = plain if fits_plain_version(plain) else value
        transaction.set_value(value)
        builder.write_fact(build_fact(transaction.transactional_id, value, is_flexible=is_flexible))

    def add_transaction(self, transaction: TransactionMetadata) -> None:
        """Add a transactional id that is in the log, or is about to be."""
        self.by_id[transaction.transactional_id] = transaction
        self.states[transaction.state] += 1
        if transaction.state is ONGOING:
            self.open[transaction.transactional_id] = None

    def remove_transaction(self, transaction: TransactionMetadata, builder: OutcomeBuilder) -> None:
        """Remove a transactional id permanently."""
        assert transaction.state in MAY_EXPIRE, (transaction.transactional_id, transaction.state)
        builder.write_fact(build_fact(transaction.transactional_id, None))
        del self.by_id[transaction.transactional_id]
        self.states[transaction.state] -= 1


def _replace_fields(value: Any, **changes: Any) -> TransactionLogValue:
    """Return a copy of a value with changed fields."""
    # The decorator of the class makes it a Struct, but its type does not show that.
    changed: TransactionLogValue = structs.replace(value, **changes)
    return changed


IDS_PER_STEP: Final = 200
"""Transactional ids that one firing of a timer handles. It blocks the event loop no longer than an append does."""


class TransactionSweep:
    """A sweep over transactional ids, with the remaining ones. `is_armed`: the timer is armed, for the next part or
    for the next sweep.
    """

    __slots__ = ("_left", "is_armed")

    def __init__(self) -> None:
        self._left: list[str] = []
        self.is_armed = False

    def __bool__(self) -> bool:
        """Return whether the sweep is in progress."""
        return bool(self._left)

    def start(self, transactional_ids: Iterable[str]) -> None:
        """Start a sweep over these ids, in this order."""
        self._left = list(transactional_ids)
        self._left.reverse()

    def take_next(self) -> list[str]:
        """Take the next ids of the sweep, IDS_PER_STEP at most."""
        taken = self._left[-IDS_PER_STEP:]
        del self._left[-IDS_PER_STEP:]
        taken.reverse()
        return taken

    def put_back(self, transactional_ids: Sequence[str]) -> None:
        """Put ids back that were taken but not processed; they come next."""
        self._left += reversed(transactional_ids)


def request_producer_id(
    transactions: ShardTransactions, request: Resumable, context: Context, builder: OutcomeBuilder
) -> None:
    """Request a producer id, and park the request until the id arrives."""
    if not isinstance(request, AbortTimedOut):
        transactions.parked[context.waiter] = request, context
    builder.add_work(Work(PRODUCER_ID, SuspendedRequest(request, context)))


def on_producer_id(
    transactions: ShardTransactions, done: WorkDone, builder: OutcomeBuilder
) -> tuple[SuspendedRequest, int] | None:
    """Handle an allocated producer id or the failure of its allocation.

    Returns:
        The suspended request to process again, and the id. None without an id: the request is then answered with
        COORDINATOR_NOT_AVAILABLE, and the client retries.
    """
    suspended = done.work.argument
    assert isinstance(suspended, SuspendedRequest), done
    request, context = suspended
    transactions.parked.pop(context.waiter, None)
    if isinstance(request, AbortTimedOut):
        transaction = transactions.find_transaction(request.transactional_id)
        if transaction is not None:
            transaction.awaits_producer_id = False
    if done.error is None:
        assert isinstance(done.result, int), done
        return suspended, done.result
    if not isinstance(request, AbortTimedOut):
        transaction = transactions.find_transaction(request.transactional_id or "")
        detail = NoProducerId(done.error)
        refuse_request(transaction, request, context, ErrorCode.COORDINATOR_NOT_AVAILABLE, builder, detail)
    return None


def check_invariants(transactions: ShardTransactions) -> None:
    """Raise AssertionError with the transactional id if an invariant is violated."""
    values = transactions.durable.values
    assert transactions.by_id.keys() == values.keys(), "the ids in memory and in the log"
    for transactional_id, transaction in transactions.by_id.items():
        assert transactional_id == transaction.transactional_id, transactional_id
        assert transaction.value is values[transactional_id], transactional_id
        _check_transaction(transaction)
    open_ones = {name for name, one in transactions.by_id.items() if one.state is ONGOING}
    assert transactions.open.keys() == open_ones, "the open ones"
    states = Counter(transaction.state for transaction in transactions.by_id.values())
    assert +transactions.states == states, "how many are in which state"
    assert transactions.timeouts.is_armed or not transactions.open, "who looks after timeouts"
    assert transactions.expirations.is_armed or not transactions.by_id, "who looks after expiration"


def _check_transaction(transaction: TransactionMetadata) -> None:
    name, value = transaction.transactional_id, transaction.value
    written = set(list_partitions(value))
    assert len(written) == len(list_partitions(value)), (name, "a partition twice")
    if transaction.state is ONGOING:
        assert transaction.partitions == written, (name, "the partitions of an open transaction")
    elif transaction.state in PREPARED:
        assert transaction.partitions, (name, "nothing to wait for")
        assert transaction.partitions <= written, (name, "the partitions without marker")
    else:
        assert not transaction.partitions, (name, "partitions of no transaction")
        assert not written, (name, "partitions of no transaction in the log")
    has_next = value.next_producer_id != -1
    assert not has_next or transaction.state in PREPARED, (name, "a next producer id that is not due")
