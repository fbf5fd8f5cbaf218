"""Events of transactional ids, one class each, with the details of refusals."""

from typing import NamedTuple, TypeAlias

from coordinator.core.outcome import MachineEvent
from coordinator.core.wire_name import wire_name
from protocol.error_codes import ErrorCode


class EpochDiffers(NamedTuple):
    """PRODUCER_FENCED (INVALID_PRODUCER_EPOCH in older versions): the epoch is not the current one."""

    sent: int
    current: int


class ProducerIdDiffers(NamedTuple):
    """INVALID_PRODUCER_ID_MAPPING, or PRODUCER_FENCED of an InitProducerId: the producer id is not the current
    one.
    """

    sent: int
    current: int


class TimeoutOutOfRange(NamedTuple):
    """INVALID_TRANSACTION_TIMEOUT: the timeout must be between 1 and transaction.max.timeout.ms."""

    timeout_ms: int
    max_ms: int


class EndForbidden(NamedTuple):
    """INVALID_TXN_STATE: the transaction cannot be committed (or aborted) in this state."""

    state: str
    is_committed: bool


class MarkersOutstanding(NamedTuple):
    """CONCURRENT_TRANSACTIONS: an ended transaction waits for the markers of `partitions` partitions."""

    partitions: int


class AbortsOpenTransaction(NamedTuple):
    """CONCURRENT_TRANSACTIONS of an InitProducerId: a transaction is open; the client must retry after its
    abort.
    """


class NoProducerId(NamedTuple):
    """COORDINATOR_NOT_AVAILABLE: the allocation of a producer id failed."""

    reason: str


class PartitionsMissing(NamedTuple):
    """TRANSACTION_ABORTABLE: `partitions` of the partitions to verify are not in the transaction."""

    partitions: int


class RecordTooLarge(NamedTuple):
    """UNKNOWN_SERVER_ERROR: with `partitions` partitions the record of the transaction would exceed
    message.max.bytes.
    """

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
    """Base of all events about a transactional id."""

    transactional_id: str


class ProducerEvent(TransactionEvent):
    """Base of the events about a producer id and epoch."""

    producer_id: int
    producer_epoch: int


@wire_name("Initialized")
class ProducerInitialized(ProducerEvent):
    """A producer got its id and epoch. `is_repeat`: it had them already and repeats the request."""

    timeout_ms: int
    is_repeat: bool


@wire_name("Fenced")
class ProducerFenced(ProducerEvent):
    """A producer started while a transaction of its transactional id was open.

    The transaction is aborted and its producer, with this epoch, is fenced. A TransactionPrepared accompanies this
    event.
    """

    open_ms: int
    partitions: int


@wire_name("TimedOut")
class TransactionTimedOut(ProducerEvent):
    """A transaction exceeded the timeout of its producer.

    The transaction is aborted and its producer, with this epoch, is fenced. A TransactionPrepared accompanies this
    event.
    """

    open_ms: int
    timeout_ms: int
    partitions: int


@wire_name("Began")
class TransactionBegan(ProducerEvent):
    """The first partitions were added to a transaction."""

    partitions: int


@wire_name("Prepared")
class TransactionPrepared(ProducerEvent):
    """The producer or the server decided the outcome of a transaction. The epoch is that of the markers."""

    is_committed: bool
    open_ms: int
    partitions: int


@wire_name("Completed")
class TransactionCompleted(ProducerEvent):
    """Every partition of a transaction has its marker. `open_ms` is the time since its start, of which `markers_ms`
    was spent on markers. The epoch is that of the next transaction.
    """

    is_committed: bool
    open_ms: int
    markers_ms: int
    partitions: int


@wire_name("MarkersSentAgain")
class MarkersSentAgain(ProducerEvent):
    """After a load, all markers of an ended transaction are sent again, because the log does not show that every
    partition has its marker.
    """

    is_committed: bool
    partitions: int


@wire_name("MarkersGivenUp")
class MarkersGivenUp(ProducerEvent):
    """`partitions` partitions refuse the marker of a transaction from this coordinator. The transaction stays
    unchanged until the next load.
    """

    error: ErrorCode
    partitions: int


@wire_name("Expired")
class TransactionalIdExpired(ProducerEvent):
    """A transactional id expired after `idle_ms` without a request."""

    idle_ms: int


@wire_name("Refused")
class TransactionRequestRefused(ProducerEvent):
    """A request was answered with an error.

    `request` is Kafka's name of the request. Producer id and epoch are from the request (-1: none), and `error` is
    the error in the newest version. `state` is the state of the transactional id, "" if it is unknown or the check
    ran before the lookup. `detail` is None without details.
    """

    request: str
    error: ErrorCode
    state: str
    detail: RefusalDetail | None


@wire_name("RecordsSkipped")
class TransactionRecordsSkipped(MachineEvent):
    """The log has `count` values of the unknown version `version`. Their transactional ids are treated as unknown
    until a producer initializes them again.
    """

    version: int
    count: int
