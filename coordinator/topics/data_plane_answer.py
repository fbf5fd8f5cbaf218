"""The result of a data plane call, its topic changes, and the missing topics that clients requested."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, Protocol

from msgspec import Struct

from coordinator.topics.topic import ZERO_ID
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog


class TopicCreated(Struct, frozen=True):
    """A topic was created; `automatic` if a Metadata request caused it."""

    name: str
    topic_id: bytes
    partitions: int
    automatic: bool = False


class TopicDeleted(Struct, frozen=True):
    """A topic was deleted with its committed offsets."""

    name: str
    topic_id: bytes


class FilesLeft(Struct, frozen=True):
    """Files of deleted topics could not be removed. The next start tries again."""

    reason: str


class PartitionsAdded(Struct, frozen=True):
    """A topic has new partitions; `partitions` is the new total."""

    name: str
    topic_id: bytes
    partitions: int


class ConfigChanged(Struct, frozen=True):
    """The new overrides of a topic."""

    name: str
    configs: tuple[tuple[str, str], ...]


class GroupConfigChanged(Struct, frozen=True):
    """The new config overrides of a group."""

    group_id: str
    configs: tuple[tuple[str, str], ...]


class StoresSet(Struct, frozen=True):
    """A request set key or trust stores of listeners, so that they must be reloaded. `names` are property names."""

    names: tuple[str, ...]


class PartitionFailed(Struct, frozen=True):
    """A log refused a read or a write; its requests get KAFKA_STORAGE_ERROR until it works again."""

    name: str
    partition: int
    reason: str


class PartitionsRefused(Struct, frozen=True):
    """File descriptors were missing for new topics or partitions, so they were not created."""

    topics: int
    reason: str


class ReplicationFactorRefused(Struct, frozen=True):
    """Topics were not created for lack of brokers. `reason` is Kafka's message for the first topic."""

    names: tuple[str, ...]
    reason: str


class ReplicationFactorReduced(Struct, frozen=True):
    """A topic was created with fewer replicas than requested, because the cluster has too few brokers."""

    name: str
    asked: int
    replicas: int


class DirectoryFailed(Struct, frozen=True):
    """An operation on the data directory failed."""

    path: str
    reason: str


class SegmentRolled(Struct, frozen=True):
    """A log rolled to a new segment. As in Kafka the earlier segments must be synced."""

    name: str
    partition: int
    log: PartitionLog


class MarkerRepeated(Struct, frozen=True):
    """A marker that the partition already had was written again."""

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

MAX_REPORTED_MISSING: Final = 500
"""The maximum number of missing topics of one request that are examined for log lines."""


class MissingReason(Enum):
    """The reason why a requested topic or partition is missing, as a clause for log lines."""

    UNKNOWN = "the topic does not exist"
    NO_PARTITION = "the topic has fewer partitions"
    AUTO_CREATION_OFF = "the topic does not exist, and auto.create.topics.enable=false prevents its creation"
    NOT_ALLOWED = (
        "the topic does not exist, and the client does not allow its creation (allow.auto.create.topics)"
    )
    ILLEGAL_NAME = "the name is not valid for a topic (1 to 249 ASCII letters, digits, '.', '_' and '-')"
    COLLIDES = "it is not created because another topic differs from it only in '.' and '_'"
    INTERNAL = "it is the name of an internal topic that does not exist here"


class MissingTopic(Struct, frozen=True):
    """A client requested a missing topic, by name or by id (`topic_id` is not empty), or a missing partition of a
    topic.
    """

    name: str
    reason: MissingReason
    partition: int | None = None
    topic_id: bytes = b""


class TopicLookup(Protocol):
    """The lookups of the catalogue that describe a missing partition."""

    def find_topic(self, name: str) -> object | None:
        """Return a topic by its name."""

    def find_topic_by_id(self, topic_id: bytes) -> object | None:
        """Return a topic by its id."""


def describe_missing_partition(
    catalogue: TopicLookup, name: str, number: int, topic_id: bytes = ZERO_ID
) -> MissingTopic:
    """Describe a missing partition: its topic is unknown, by name or id, or has fewer partitions."""
    if topic_id != ZERO_ID and catalogue.find_topic_by_id(topic_id) is None:
        return MissingTopic("", MissingReason.UNKNOWN, topic_id=topic_id)
    if catalogue.find_topic(name) is None:
        return MissingTopic(name, MissingReason.UNKNOWN)
    return MissingTopic(name, MissingReason.NO_PARTITION, number)


class Answer(Struct):
    """The outcome of one request.

    `response`: a message or a constant of `coordinator.core.response_status`; BLOCKED for a long-poll Fetch; its
    response is a later completion. `completions`: the delayed fetches that this call completed, as (waiter,
    response). `durable`: the logs, with the offsets that must be synced before the reply is sent. `unawaited`:
    further logs to sync without delaying a reply. `changes`: changes of topics, for the group core, log lines and
    metrics. `missing`: the missing topics that the request named, for log lines.
    """

    response: object
    completions: Iterable[tuple[int, object]] = ()
    durable: Sequence[tuple[PartitionLog, int]] = ()
    unawaited: Sequence[PartitionLog] = ()
    changes: Sequence[TopicChange] = ()
    missing: Sequence[MissingTopic] = ()


class MarkerWritten(Struct):
    """The result of writing a marker.

    `error`: NONE; UNKNOWN_TOPIC_OR_PARTITION or KAFKA_STORAGE_ERROR, which can be retried; INVALID_PRODUCER_EPOCH
    or TRANSACTION_COORDINATOR_FENCED. `log`: must be synced up to `end_offset` before the marker counts as written;
    None if no sync is needed. `changes`, `completions`: see `Answer`.
    """

    error: ErrorCode
    log: PartitionLog | None = None
    end_offset: int = -1
    changes: Sequence[TopicChange] = ()
    completions: Iterable[tuple[int, object]] = ()
