"""What a call into the data plane gives back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from coordinator.topics.missing import TopicMissing
from protocol.errors import ErrorCode
from storage.log import PartitionLog


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic exists now; `automatic` when a Metadata request brought it into being."""

    name: str
    topic_id: bytes
    partitions: int
    automatic: bool = False


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic is gone, its offsets with it."""

    name: str
    topic_id: bytes


@dataclass(frozen=True, slots=True)
class FilesLeft:
    """Files of deleted topics could not be removed; the next start tries again."""

    reason: str


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A topic grew; `partitions` counts all of them."""

    name: str
    topic_id: bytes
    partitions: int


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The overrides of a topic are now these."""

    name: str
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GroupConfigChanged:
    """The configs that a group has of its own are now these."""

    group_id: str
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StoresSet:
    """Stores of listeners were set to what they are: they are to be read again. The names are those of their
    properties."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionFailed:
    """A log refused a read or a write; its requests get KAFKA_STORAGE_ERROR until it works again."""

    name: str
    partition: int
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionsRefused:
    """Topics were not created, or did not grow, because there are no descriptors for their partitions."""

    topics: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReplicationFactorRefused:
    """Topics were not created, because there are too few brokers for their replicas. `reason` is Kafka's message
    for the first topic."""

    names: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ReplicationFactorReduced:
    """A topic was created with fewer replicas than the request asks for, because there are too few brokers."""

    name: str
    asked: int
    replicas: int


@dataclass(frozen=True, slots=True)
class DirectoryFailed:
    """The data directory did not say what was asked of it."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class SegmentRolled:
    """A log began a new segment: time to sync the ones before it, as Kafka does then."""

    name: str
    partition: int
    log: PartitionLog


@dataclass(frozen=True, slots=True)
class MarkerRepeated:
    """A marker that a partition had already was written once more."""

    name: str
    partition: int
    producer_id: int
    producer_epoch: int


TopicChange = (
    TopicCreated
    | TopicDeleted
    | FilesLeft
    | PartitionsAdded
    | ConfigChanged
    | GroupConfigChanged
    | StoresSet
    | PartitionFailed
    | PartitionsRefused
    | ReplicationFactorRefused
    | ReplicationFactorReduced
    | DirectoryFailed
    | SegmentRolled
    | MarkerRepeated
)


@dataclass(slots=True)
class Answer:
    """The outcome of one request.

    `response` is a message or one of `coordinator.answers`: PARKED for a long-poll Fetch, to come later as a
    completion. `completions`: parked fetches, as (waiter, response), that this call released. `durable`: the
    reply waits until each log is synced up to that offset. `unawaited`: logs that are to be synced as well, and
    that no reply waits for. `changes`: what became of topics, for the group core, the log lines and the metrics.
    `missing`: what was asked for and is not there, for the log lines.
    """

    response: object
    completions: Iterable[tuple[int, object]] = ()
    durable: Sequence[tuple[PartitionLog, int]] = ()
    unawaited: Sequence[PartitionLog] = ()
    changes: Sequence[TopicChange] = ()
    missing: Sequence[TopicMissing] = ()


@dataclass(slots=True)
class MarkerWritten:
    """What became of a marker.

    `error`: NONE; UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR, after which it may be tried again;
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED. `log`: has to be synced up to `end_offset` before the
    marker counts as written; None where nothing is to be waited for. `changes`, `completions`: as of an Answer.
    """

    error: ErrorCode
    log: PartitionLog | None = None
    end_offset: int = -1
    changes: Sequence[TopicChange] = ()
    completions: Iterable[tuple[int, object]] = ()
