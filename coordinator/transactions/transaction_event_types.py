"""Facts worth telling, one class each: log lines and metrics are made from these.

Times are spans, in milliseconds; numbers of partitions count those of `__consumer_offsets` too. Nobody
changes an event.
"""

from coordinator.machine.outcome import Event as MachineEvent
from coordinator.transactions.refusal_facts import RefusalDetail
from protocol.errors import ErrorCode


class Event(MachineEvent):
    """Something happened to a transactional id."""

    transactional_id: str


class ProducerEvent(Event):
    """It is about this producer id, in this epoch."""

    producer_id: int
    producer_epoch: int


class Initialized(ProducerEvent):
    """A producer got its id and epoch; `is_repeat`: it had them, and may not have been told."""

    timeout_ms: int
    is_repeat: bool


class Fenced(ProducerEvent):
    """A transaction was open when a producer with its transactional id began anew: it is aborted, and its
    producer, of this epoch, is out. Told together with a Prepared."""

    open_ms: int
    partitions: int


class TimedOut(ProducerEvent):
    """A transaction was open for longer than its producer had allowed: it is aborted, and its producer, of this
    epoch, is out. Told together with a Prepared."""

    open_ms: int
    timeout_ms: int
    partitions: int


class Began(ProducerEvent):
    """A transaction has its first partitions."""

    partitions: int


class Prepared(ProducerEvent):
    """The outcome of a transaction is settled, by its producer or by the server; the epoch is that of its
    markers."""

    is_committed: bool
    open_ms: int
    partitions: int


class Completed(ProducerEvent):
    """A transaction is over: every partition has its marker. `open_ms` is since it began, `markers_ms` what its
    markers took of that; the epoch is that of the next transaction."""

    is_committed: bool
    open_ms: int
    markers_ms: int
    partitions: int


class MarkersSentAgain(ProducerEvent):
    """The log says that a transaction ended, and not that every partition has its marker: after a load all are
    asked for again."""

    is_committed: bool
    partitions: int


class MarkersGivenUp(ProducerEvent):
    """Partitions will not take the marker of a transaction from this coordinator: it stays as it is until the
    next load. `partitions` is how many these are."""

    error: ErrorCode
    partitions: int


class Expired(ProducerEvent):
    """A transactional id was forgotten: nothing was heard of it for `idle_ms`."""

    idle_ms: int


class Refused(ProducerEvent):
    """A request was answered with an error. `request` is Kafka's name of it, producer id and epoch are those that
    it came with (-1: none), `error` is that of its newest version; `state` is the transactional id's, "" where it
    is unknown or nobody looked; `detail` is None where there is no more to say."""

    request: str
    error: ErrorCode
    state: str
    detail: RefusalDetail | None


class RecordsSkipped(MachineEvent):
    """The log has `count` values of a version that is not known here: those transactional ids are as good as
    unknown, until a producer initializes them again."""

    version: int
    count: int
