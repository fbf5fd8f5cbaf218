"""What a refused request offered, against what the transactional id has or the configuration allows."""

from typing import NamedTuple, TypeAlias


class EpochDiffers(NamedTuple):
    """PRODUCER_FENCED (INVALID_PRODUCER_EPOCH in older versions): the epoch is not the present one."""

    sent: int
    current: int


class ProducerIdDiffers(NamedTuple):
    """INVALID_PRODUCER_ID_MAPPING, or PRODUCER_FENCED of an InitProducerId: the producer id is not the present
    one."""

    sent: int
    current: int


class TimeoutOutOfRange(NamedTuple):
    """INVALID_TRANSACTION_TIMEOUT: transaction.max.timeout.ms is the bound; at least 1 is asked for."""

    timeout_ms: int
    max_ms: int


class EndForbidden(NamedTuple):
    """INVALID_TXN_STATE: nothing in this state can be committed, or aborted."""

    state: str
    is_committed: bool


class MarkersOutstanding(NamedTuple):
    """CONCURRENT_TRANSACTIONS: an ended transaction waits for the markers of so many partitions."""

    partitions: int


class AbortsOpenTransaction(NamedTuple):
    """CONCURRENT_TRANSACTIONS of an InitProducerId: it found a transaction open, and is to come again when that
    is aborted."""


class NoProducerId(NamedTuple):
    """COORDINATOR_NOT_AVAILABLE: no new producer id could be drawn."""

    reason: str


class PartitionsMissing(NamedTuple):
    """TRANSACTION_ABORTABLE: so many of the partitions asked about are not in the transaction."""

    partitions: int


class RecordTooLarge(NamedTuple):
    """UNKNOWN_SERVER_ERROR: with so many partitions the record of the transaction would be too large;
    message.max.bytes is the bound."""

    partitions: int
    max_bytes: int


RefusalDetail: TypeAlias = (
    EpochDiffers
    | ProducerIdDiffers
    | TimeoutOutOfRange
    | EndForbidden
    | MarkersOutstanding
    | AbortsOpenTransaction
    | NoProducerId
    | PartitionsMissing
    | RecordTooLarge
)
