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
"""A topic and one of its partitions; `__consumer_offsets` where a transaction has offsets of groups."""

PRODUCER_ID: Final = "producer id"
"""The work of drawing a producer id that nobody had. Its argument is a SuspendedRequest; its result is the id."""

TRANSACTION_MARKERS: Final = "transaction markers"
"""Where WriteMarkers go. No topic: none may have that name."""


class AddPartitions(Struct, frozen=True):
    """Take partitions into a transaction, which begins with the first of them; with `verify_only` tell whether it
    has them. `transaction_version` is the level of who asks: 2 for what a broker asks on behalf of a producer
    that adds implicitly, 0 for AddPartitionsToTxn below v4 and AddOffsetsToTxn. Answered with
    AddPartitionsResult."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TransactionPartition]
    verify_only: bool
    transaction_version: int


class AddPartitionsResult(Struct, frozen=True):
    """What became of each partition. PRODUCER_FENCED and TRANSACTION_ABORTABLE stand there whatever the asker's
    version."""

    errors: Mapping[TransactionPartition, ErrorCode]


class DescribeTransaction(Struct, frozen=True):
    """One id of a DescribeTransactions. Answered with a DescribeTransactionsTransactionState."""

    transactional_id: str


class ListTransactions(Struct, frozen=True):
    """The transactional ids that pass every filter. An empty one lets everything through, and so does a negative
    duration, in milliseconds. Answered with a ListTransactionsResponse."""

    state_filters: Sequence[str] = ()
    producer_id_filters: Sequence[int] = ()
    duration_filter: int = -1
    pattern: Callable[[str], bool] | None = None


class WriteMarkers(NamedTuple):
    """Write the markers of an ended transaction, each until it is there. It goes to TRANSACTION_MARKERS; what
    came of it is told with `build_markers_written` and `build_markers_refused`, in as many parts as it takes,
    but once for each partition."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool
    transaction_version: int
    partitions: Sequence[TransactionPartition]

    def build_markers_written(self, partitions: Sequence[TransactionPartition]) -> "MarkersWritten":
        """The notification that these partitions have their marker."""
        return MarkersWritten(
            self.transactional_id, self.producer_id, self.producer_epoch, self.coordinator_epoch, partitions
        )

    def build_markers_refused(
        self, partitions: Sequence[TransactionPartition], error: ErrorCode
    ) -> "MarkersRefused":
        """The notification that these partitions refuse the marker of this coordinator."""
        return MarkersRefused(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            partitions,
            error,
        )


class MarkersWritten(Struct, frozen=True):
    """These partitions have the marker that was asked for, or are gone for good. No reply. `coordinator_epoch`
    tells which load of the coordinator asked: what it is told of another one's markers does not count."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    partitions: Sequence[TransactionPartition]


class MarkersRefused(Struct, frozen=True):
    """These partitions refused the marker with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED: it is
    given up until the next load. No reply."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    partitions: Sequence[TransactionPartition]
    error: ErrorCode


class AbortTimedOut(Struct, frozen=True):
    """Abort a transaction if it has been open for longer than its producer allows. No reply; nobody outside
    asks."""

    transactional_id: str


Resumable: TypeAlias = InitProducerIdRequest | EndTxnRequest | AbortTimedOut


class SuspendedRequest(NamedTuple):
    """A request that is processed again from the start once there is a producer id for it."""

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
    """What a timer is for."""

    ABORT_TIMED_OUT = 0
    REMOVE_EXPIRED = 1


class TransactionTimerKey(NamedTuple):
    """Names a timer. Both are of the whole shard: each looks at a part of its transactions at a time."""

    kind: TransactionTimerKind

    def __str__(self) -> str:
        return self.kind.name.lower()


EPOCH_BUMP_LEVEL: Final = 2
"""The level of `transaction.version` from which on the epoch rises with each end (KIP-890)."""
FLEXIBLE_RECORDS_LEVEL: Final = 1
"""The level of `transaction.version` from which on records have their flexible form."""


class TransactionConfig(Struct, frozen=True, kw_only=True):
    """Properties of Kafka's `TransactionLogConfig` and `TransactionStateManagerConfig`; dots in a property's name
    are underscores here. Defaults and bounds are declared in `coordinator/config`."""

    transaction_max_timeout_ms: int
    transactional_id_expiration_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    message_max_bytes: int
    """Bounds the record of one transaction."""
    transaction_version: int = EPOCH_BUMP_LEVEL
    """The finalized level of the feature: 0, 1 or 2. No property, but a feature of the cluster."""
