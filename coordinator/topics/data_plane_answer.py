"""The result of a data plane call, the changes of topics that it reports, and topics that clients asked for
and that do not exist.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic import ZERO_ID
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog


class TopicCreated(Struct, frozen=True):
    """A topic exists now; `automatic` when a Metadata request brought it into being."""

    name: str
    topic_id: bytes
    partitions: int
    automatic: bool = False


class TopicDeleted(Struct, frozen=True):
    """A topic is gone, its offsets with it."""

    name: str
    topic_id: bytes


class FilesLeft(Struct, frozen=True):
    """Files of deleted topics could not be removed; the next start tries again."""

    reason: str


class PartitionsAdded(Struct, frozen=True):
    """A topic grew; `partitions` counts all of them."""

    name: str
    topic_id: bytes
    partitions: int


class ConfigChanged(Struct, frozen=True):
    """The overrides of a topic are now these."""

    name: str
    configs: tuple[tuple[str, str], ...]


class GroupConfigChanged(Struct, frozen=True):
    """The configs that a group has of its own are now these."""

    group_id: str
    configs: tuple[tuple[str, str], ...]


class StoresSet(Struct, frozen=True):
    """Stores of listeners were set to what they are: they are to be read again. The names are those of their
    properties."""

    names: tuple[str, ...]


class PartitionFailed(Struct, frozen=True):
    """A log refused a read or a write; its requests get KAFKA_STORAGE_ERROR until it works again."""

    name: str
    partition: int
    reason: str


class PartitionsRefused(Struct, frozen=True):
    """Topics were not created, or did not grow, because there are no descriptors for their partitions."""

    topics: int
    reason: str


class ReplicationFactorRefused(Struct, frozen=True):
    """Topics were not created, because there are too few brokers for their replicas. `reason` is Kafka's message
    for the first topic."""

    names: tuple[str, ...]
    reason: str


class ReplicationFactorReduced(Struct, frozen=True):
    """A topic was created with fewer replicas than the request asks for, because there are too few brokers."""

    name: str
    asked: int
    replicas: int


class DirectoryFailed(Struct, frozen=True):
    """The data directory did not say what was asked of it."""

    path: str
    reason: str


class SegmentRolled(Struct, frozen=True):
    """A log began a new segment: time to sync the ones before it, as Kafka does then."""

    name: str
    partition: int
    log: PartitionLog


class MarkerRepeated(Struct, frozen=True):
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

MAX_REPORTED_MISSING: Final = 500
"""How many of one request are looked at for a line; no more than those would be told apart."""


class MissingReason(Enum):
    """Why a topic or partition that was asked for is not there, as a clause for people."""

    UNKNOWN = "there is no such topic"
    NO_PARTITION = "the topic has fewer partitions"
    AUTO_CREATION_OFF = (
        "there is no such topic, and auto.create.topics.enable=false keeps it from being created"
    )
    NOT_ALLOWED = (
        "there is no such topic, and the client does not let it be created (allow.auto.create.topics)"
    )
    ILLEGAL_NAME = "no topic can have such a name (1 to 249 ASCII letters, digits, '.', '_' and '-')"
    COLLIDES = "it is not created because another topic differs from it only in '.' and '_'"
    INTERNAL = "it would be a broker's own topic, and is not here"


class MissingTopic(Struct, frozen=True):
    """A client asked for a topic that is not there, by name or (`topic_id` is not empty) by id, or for a
    partition that the topic does not have."""

    name: str
    reason: MissingReason
    partition: int | None = None
    topic_id: bytes = b""


def describe_missing_partition(
    catalogue: Catalogue, name: str, number: int, topic_id: bytes = ZERO_ID
) -> MissingTopic:
    """A partition that is not there: its topic is not, which may have been asked for by id, or it has fewer."""
    if topic_id != ZERO_ID and catalogue.find_topic_by_id(topic_id) is None:
        return MissingTopic("", MissingReason.UNKNOWN, topic_id=topic_id)
    if catalogue.find_topic(name) is None:
        return MissingTopic(name, MissingReason.UNKNOWN)
    return MissingTopic(name, MissingReason.NO_PARTITION, number)


class Answer(Struct):
    """The outcome of one request.

    `response` is a message or one of `coordinator.core.response_status`: BLOCKED for a long-poll Fetch, to
    come later as a completion. `completions`: delayed fetches, as (waiter, response), that this call completed.
    `durable`: the reply waits until each log is synced up to that offset. `unawaited`: logs that are to be
    synced as well, and that no reply waits for. `changes`: what became of topics, for the group core, the log
    lines and the metrics. `missing`: what was asked for and is not there, for the log lines.
    """

    response: object
    completions: Iterable[tuple[int, object]] = ()
    durable: Sequence[tuple[PartitionLog, int]] = ()
    unawaited: Sequence[PartitionLog] = ()
    changes: Sequence[TopicChange] = ()
    missing: Sequence[MissingTopic] = ()


class MarkerWritten(Struct):
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
