"""Inputs of a transaction shard: requests, notifications, timers and configuration."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from coordinator.core.outcome import Context, WorkDone
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest

TransactionPartition: TypeAlias = tuple[str, int]
"""A topic and one of its partitions; `__consumer_offsets` for the offsets of groups."""

PRODUCER_ID: Final = "producer id"
"""The work of allocating a new producer id. Its argument is a SuspendedRequest; its result is the id."""

TRANSACTION_MARKERS: Final = "transaction markers"
"""The destination of WriteMarkers. Not a topic: the name is invalid for topics."""


class AddPartitions(Struct, frozen=True):
    """Add partitions to a transaction, which begins with the first one; with `verify_only` only check that it has
    them.

    `transaction_version` is the level of the sender: 2 for a broker on behalf of a producer that adds implicitly, 0
    for AddPartitionsToTxn below v4 and AddOffsetsToTxn. Answered with AddPartitionsResult.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TransactionPartition]
    verify_only: bool
    transaction_version: int


class AddPartitionsResult(Struct, frozen=True):
    """The result for each partition. It contains PRODUCER_FENCED and TRANSACTION_ABORTABLE even for versions that
    do not know them.
    """

    errors: Mapping[TransactionPartition, ErrorCode]


class DescribeTransaction(Struct, frozen=True):
    """One transactional id of a DescribeTransactions. Answered with a DescribeTransactionsTransactionState."""

    transactional_id: str


class ListTransactions(Struct, frozen=True):
    """List the transactional ids that pass every filter. An empty filter, or a negative duration (ms), passes all.
    Answered with a ListTransactionsResponse.
    """

    state_filters: Sequence[str] = ()
    producer_id_filters: Sequence[int] = ()
    duration_filter: int = -1
    pattern: Callable[[str], bool] | None = None


class WriteMarkers(NamedTuple):
    """Write the markers of an ended transaction, with retries until each one is written.

    Sent to TRANSACTION_MARKERS. The recipient reports one result for each partition, in any number of notifications
    from `build_markers_written` and `build_markers_refused`.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    transaction_version: int
    partitions: Sequence[TransactionPartition]

    def build_markers_written(self, partitions: Sequence[TransactionPartition]) -> "MarkersWritten":
        """Build the notification that these partitions have their marker."""
        return MarkersWritten(
            self.transactional_id, self.producer_id, self.producer_epoch, self.coordinator_epoch, partitions
        )

    def build_markers_refused(
        self, partitions: Sequence[TransactionPartition], error: ErrorCode
    ) -> "MarkersRefused":
        """Build the notification that these partitions refuse the marker of this coordinator."""
        return MarkersRefused(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            partitions,
            error,
        )


class MarkersWritten(Struct, frozen=True):
    """These partitions have the requested marker, or are deleted. No reply. `coordinator_epoch` identifies the load
    of the coordinator that requested it; results for another load are ignored.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    partitions: Sequence[TransactionPartition]


class MarkersRefused(Struct, frozen=True):
    """These partitions refused the marker with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED. The
    coordinator gives it up until the next load. No reply.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    partitions: Sequence[TransactionPartition]
    error: ErrorCode


class AbortTimedOut(Struct, frozen=True):
    """Abort a transaction that has exceeded its producer's timeout. Internal request without a reply."""

    transactional_id: str


Resumable: TypeAlias = InitProducerIdRequest | EndTxnRequest | AbortTimedOut


class SuspendedRequest(NamedTuple):
    """A request to process again from the start when its producer id arrives."""

    request: Resumable
    context: Context


Request: TypeAlias = (
    InitProducerIdRequest
    | EndTxnRequest
    | AddPartitions
    | DescribeTransaction
    | ListTransactions
    | MarkersWritten
    | MarkersRefused
    | WorkDone
)


class TransactionTimerKind(IntEnum):
    """The purpose of a timer."""

    ABORT_TIMED_OUT = 0
    REMOVE_EXPIRED = 1


class TransactionTimerKey(NamedTuple):
    """The key of a timer. Both timers serve the whole shard; each firing handles a part of its transactions."""

    kind: TransactionTimerKind

    def __str__(self) -> str:
        return self.kind.name.lower()


EPOCH_BUMP_LEVEL: Final = 2
"""The `transaction.version` from which on each end bumps the epoch (KIP-890)."""
FLEXIBLE_RECORDS_LEVEL: Final = 1
"""The `transaction.version` from which on records have the flexible form."""


class TransactionConfig(Struct, frozen=True, kw_only=True):
    """Properties of Kafka's `TransactionLogConfig` and `TransactionStateManagerConfig`; dots in a property's name
    are underscores here. Defaults and bounds are declared in `coordinator/config`."""

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    message_max_bytes: int
    """The bound for the record of one transaction."""
    transaction_version: int = EPOCH_BUMP_LEVEL
    """The finalized level of the feature: 0, 1 or 2. A feature of the cluster, not a property."""
