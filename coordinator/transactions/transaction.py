"""One transactional id: its durable state, its soft state, and immutable views of both.

**Apply at once, answer when durable.** Kafka's coordinator appends a record first and changes its memory when the
append is acknowledged. In between, the transactional id has a *pending state*, and almost every request about it
gets CONCURRENT_TRANSACTIONS (51). Here a record is applied when it is created. Responses that depend on it are sent
once the log is durable to that point. Kafka's pending states map to these:

- **Empty, Ongoing** (InitProducerId, AddPartitions): no pending state. A request in between is answered as if the
  append were done, a little later than 51 would arrive and without the retry. Two concurrent InitProducerId get two
  consecutive epochs, and the later one counts.
- **PrepareEpochFence** (fencing, by a timeout or by InitProducerId over an open transaction): fencing and aborting
  are one step, so no request can observe the state. The client of an InitProducerId still gets 51 when the abort is
  durable, because it must not get the epoch of the fence; its retry gets the next one.
- **CompleteCommit, CompleteAbort**: pending in Kafka from the decision of the outcome until every marker is
  written. That takes time, and this core cannot answer for other brokers: requests get 51 from PrepareCommit or
  PrepareAbort to the record of the end. In Kafka, too, requests meet the pending state there, not the Prepare*
  below it, so Kafka skips the later checks: an EndTxn v5 or an AddPartitions gets 51 with any producer id and
  epoch, an older EndTxn after the check of both.
- **Dead** (expiration): no pending state. The tombstone is applied, and the id is unknown.
- *A failed append* clears Kafka's pending state; for a fence it leaves the failed-fence flag, so that the epoch
  does not rise again. Here a failed append ends the machine, and the runtime loads it again from the disk.
  Unwritten changes are lost, so there is nothing to clear.

Kafka allocates a producer id while it holds the lock of the transactional id. Here the machine requests one and
continues (`shard_transactions.py`). When the id arrives, the request is processed again from the start: it may meet
another state by then, and is answered as if it had just arrived.

**Order on the disk.** Prepare* is durable before a marker is requested, because messages leave when everything
before them is durable. Markers are durable before Complete* is written, because their writer reports them only
then. A crash in between leaves Prepare* in the log, and the load requests all markers again. No response waits for
Complete*: if it is lost, the markers are written once more.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from coordinator.transactions.transaction_requests import TransactionPartition
from coordinator.transactions.transaction_state_machine import ONGOING, PREPARED, WRITTEN, TransactionState
from protocol.error_codes import ErrorCode
from protocol.records.transaction_state import TransactionLogValue, TransactionPartitions

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 32767
"""No producer gets this epoch: the markers of a transaction with the last epoch of a producer id have it."""
LAST_EPOCH: Final = MAX_EPOCH - 1
"""The last epoch of a producer; its next transaction gets another producer id."""
NO_TIME: Final = -1


class TransactionMetadata:
    """A transactional id. Only `ShardTransactions.write_transition` changes its value."""

    __slots__ = (
        "awaits_producer_id",
        "last_epoch",
        "markers_error",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "state",
        "transactional_id",
        "value",
    )

    def __init__(self, transactional_id: str, value: TransactionLogValue) -> None:
        """Create it from `value`, its newest value in the log."""
        self.transactional_id = transactional_id
        self.set_value(value)
        self.last_epoch = NO_EPOCH
        """The previous epoch, as long as the producer may retry a request with a lost response; -1 after a load, as
        in Kafka.
        """
        self.previous_producer_id = value.previous_producer_id
        """The producer id before the last change. Plain records do not have it."""
        self.partitions: set[TransactionPartition] = set()
        """The partitions of an open transaction, or those of an ended one that still lack their marker."""
        self.markers_error: ErrorCode | None = None
        """The error at which markers were given up until the next load, None if they were not."""
        self.awaits_producer_id = False
        """Whether an abort waits for a new producer id."""
        if self.state is ONGOING or self.state in PREPARED:
            self.partitions.update(list_partitions(value))

    def set_value(self, value: TransactionLogValue) -> None:
        """Set the newest value, which is in the log or about to be."""
        self.value = value
        self.state: TransactionState = WRITTEN[value.transaction_status]
        """The current state."""
        self.producer_id: int = value.producer_id
        """The id of the current producer."""
        self.producer_epoch: int = value.producer_epoch
        """The epoch of the current producer; while markers are under way, the epoch of the markers."""

    @property
    def is_exhausted(self) -> bool:
        """Return whether the producer id has no further epochs."""
        return self.value.producer_epoch >= LAST_EPOCH

    @property
    def start_ms(self) -> int:
        """Return the start of the current or last transaction in Unix time (ms), -1 without a transaction."""
        return self.value.transaction_start_timestamp_ms


def list_partitions(value: TransactionLogValue) -> list[TransactionPartition]:
    """Return the partitions in a value."""
    return [
        (topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    ]


def group_by_topic(partitions: Iterable[TransactionPartition]) -> dict[str, list[int]]:
    """Group partitions by topic, as in records and responses."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def add_to_partitions(
    value: TransactionLogValue, added: Iterable[TransactionPartition]
) -> list[TransactionPartitions]:
    """Return the partitions of a value together with `added`, which must not be in it. Does not change the
    value.
    """
    topics = group_by_topic(added)
    extended = [
        TransactionPartitions(topic=one.topic, partition_ids=[*one.partition_ids, *topics.pop(one.topic)])
        if one.topic in topics
        else one
        for one in value.transaction_partitions or ()
    ]
    return extended + [
        TransactionPartitions(topic=topic, partition_ids=partitions) for topic, partitions in topics.items()
    ]


class TransactionView(Struct, frozen=True, kw_only=True):
    """A transactional id at one moment.

    `state_ms` is the time since the last change. `open_ms` is the time since the start of the transaction, up to
    its last marker, None without one. `partitions` are the partitions of an open transaction, `unmarked` those of
    an ended one without a marker. `markers_error` is the error at which markers were given up until the next load.
    `transaction_version` is the level of the last writer.
    """

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


def view_transaction(transaction: TransactionMetadata, wall_ms: int) -> TransactionView:
    """Return the view of a transactional id at a wall time."""
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
