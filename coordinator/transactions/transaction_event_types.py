"""Events of transactional ids: one class for each, with the details of refusals."""

from typing import NamedTuple, TypeAlias

from coordinator.core.outcome import MachineEvent
from coordinator.core.wire_name import wire_name
from protocol.error_codes import ErrorCode


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


class TransactionEvent(MachineEvent):
    """Something happened to a transactional id."""

    transactional_id: str


class ProducerEvent(TransactionEvent):
    """It is about this producer id, in this epoch."""

    producer_id: int
    producer_epoch: int


@wire_name("Initialized")
class ProducerInitialized(ProducerEvent):
    """A producer got its id and epoch; `is_repeat`: it had them, and may not have been told."""

    timeout_ms: int
    is_repeat: bool


@wire_name("Fenced")
class ProducerFenced(ProducerEvent):
    """A transaction was open when a producer with its transactional id began anew: it is aborted, and its
    producer, of this epoch, is out. Told together with a Prepared."""

    open_ms: int
    partitions: int


@wire_name("TimedOut")
class TransactionTimedOut(ProducerEvent):
    """A transaction was open for longer than its producer had allowed: it is aborted, and its producer, of this
    epoch, is out. Told together with a Prepared."""

    open_ms: int
    timeout_ms: int
    partitions: int


@wire_name("Began")
class TransactionBegan(ProducerEvent):
    """A transaction has its first partitions."""

    partitions: int


@wire_name("Prepared")
class TransactionPrepared(ProducerEvent):
    """The outcome of a transaction is settled, by its producer or by the server; the epoch is that of its
    markers."""

    is_committed: bool
    open_ms: int
    partitions: int


@wire_name("Completed")
class TransactionCompleted(ProducerEvent):
    """A transaction is over: every partition has its marker. `open_ms` is since it began, `markers_ms` what its
    markers took of that; the epoch is that of the next transaction."""

    is_committed: bool
    open_ms: int
    markers_ms: int
    partitions: int


@wire_name("MarkersSentAgain")
class MarkersSentAgain(ProducerEvent):
    """The log says that a transaction ended, and not that every partition has its marker: after a load all are
    asked for again."""

    is_committed: bool
    partitions: int


@wire_name("MarkersGivenUp")
class MarkersGivenUp(ProducerEvent):
    """Partitions will not take the marker of a transaction from this coordinator: it stays as it is until the
    next load. `partitions` is how many these are."""

    error: ErrorCode
    partitions: int


@wire_name("Expired")
class TransactionalIdExpired(ProducerEvent):
    """A transactional id was forgotten: nothing was heard of it for `idle_ms`."""

    idle_ms: int


@wire_name("Refused")
class TransactionRequestRefused(ProducerEvent):
    """A request was answered with an error. `request` is Kafka's name of it, producer id and epoch are those that
    it came with (-1: none), `error` is that of its newest version; `state` is the transactional id's, "" where it
    is unknown or nobody looked; `detail` is None where there is no more to say."""

    request: str
    error: ErrorCode
    state: str
    detail: RefusalDetail | None


@wire_name("RecordsSkipped")
class TransactionRecordsSkipped(MachineEvent):
    """The log has `count` values of a version that is not known here: those transactional ids are as good as
    unknown, until a producer initializes them again."""

    version: int
    count: int
