"""Read the topics of an adopted Kafka data directory from its copy of the cluster metadata log.

A broker stores partition counts and configs only there. Without them, a compacted topic or one with unlimited
retention would get the default retention and lose records.

`__cluster_metadata-0` contains a log, and snapshots that replace everything before their offset
(`<offset>-<epoch>.checkpoint`, record batches as in a segment). The end may be torn or uncommitted; neither matters
for topics with directories here.

Source: KIP-500, KIP-630, Kafka's `MetadataImage`.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Final, Protocol

from msgspec import Struct, field

from coordinator.topics.topic_name import CLUSTER_METADATA
from protocol.primitives import Malformed
from protocol.records.cluster_metadata import (
    TOPIC_RESOURCE,
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
    decode_metadata_record,
)
from storage.batch import check_crc, decode_records, walk_batches
from storage.files import Files
from storage.segment import LOG_SUFFIX
from storage.storage_errors import CorruptBatch, DamagedFile

_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_SEGMENT: Final = re.compile(r"\d{20}" + re.escape(LOG_SUFFIX))


class MetadataImage(Protocol):
    """The state after replaying records, as far as needed."""

    def replay(self, record: MetadataRecord) -> None:
        """Apply a record of the log."""

    def abort(self) -> None:
        """Roll back an open transaction, if any."""


class ClusterTopic(Struct):
    """A topic of the cluster: its id, its number of partitions, its config overrides."""

    topic_id: bytes
    partitions: int = 0
    configs: dict[str, str] = field(default_factory=dict)


def read_cluster_topics(files: Files, data_directory: str) -> dict[str, ClusterTopic]:
    """Return the cluster's topics by name; empty without a metadata log.

    Raises:
        DamagedFile: the log is malformed.
        OSError: a file cannot be read.
    """
    topics = _ClusterTopicsImage()
    replay_metadata_log(files, data_directory, topics)
    return topics.by_name()


def replay_metadata_log(files: Files, data_directory: str, image: MetadataImage) -> None:
    """Replay all records into an image.

    Raises:
        DamagedFile: the log is malformed.
        OSError: a file cannot be read.
    """
    directory = f"{data_directory}/{CLUSTER_METADATA}-0"
    if not files.is_directory(directory):
        return
    names = sorted(files.listdir(directory))
    offset = 0
    snapshots = [match for match in map(_SNAPSHOT.fullmatch, names) if match]
    if snapshots:
        latest = snapshots[-1]
        offset = int(latest[1])
        _replay_file(files, f"{directory}/{latest[0]}", image, 0)
    for name in filter(_SEGMENT.fullmatch, names):
        _replay_file(files, f"{directory}/{name}", image, offset)
    image.abort()  # a transaction that is open at the end of the log


def _replay_file(files: Files, path: str, image: MetadataImage, first_offset: int) -> None:
    try:
        for offset, record in _decode_records(files.read(path)):
            if offset >= first_offset:
                image.replay(record)
    except (CorruptBatch, Malformed) as error:
        raise DamagedFile(path, f"is not a log of cluster metadata: {error}") from error


def _decode_records(content: bytes) -> Iterator[tuple[int, MetadataRecord]]:
    for position, header in walk_batches(content):
        check_crc(content, position, header)
        if header.is_control:
            continue
        for record in decode_records(content[position : position + header.size_bytes], header):
            decoded = decode_metadata_record(record.value or b"")
            if decoded is not None:
                yield record.offset, decoded


class _ClusterTopicsImage:
    """The topics after replaying records."""

    def __init__(self) -> None:
        self._by_id: dict[bytes, ClusterTopic] = {}
        self._ids: dict[str, bytes] = {}
        self._before_transaction: tuple[dict[bytes, ClusterTopic], dict[str, bytes]] | None = None

    def by_name(self) -> dict[str, ClusterTopic]:
        """Return the topics of the cluster by name."""
        return {name: self._by_id[topic_id] for name, topic_id in self._ids.items()}

    def replay(self, record: MetadataRecord) -> None:
        """Apply a record of the log."""
        match record:
            case TopicRecord():
                self._by_id[record.topic_id] = ClusterTopic(record.topic_id)
                self._ids[record.name] = record.topic_id
            case PartitionRecord():
                topic = self._by_id.get(record.topic_id)
                if topic is not None:
                    topic.partitions = max(topic.partitions, record.partition_id + 1)
            case ConfigRecord():
                self._configure(record)
            case RemoveTopicRecord():
                self._by_id.pop(record.topic_id, None)
                self._ids = {name: known for name, known in self._ids.items() if known != record.topic_id}
            case BeginTransactionRecord():
                self._before_transaction = deepcopy(self._by_id), dict(self._ids)
            case EndTransactionRecord():
                self._before_transaction = None
            case AbortTransactionRecord():
                self.abort()

    def abort(self) -> None:
        """Roll back an open transaction, if any."""
        if self._before_transaction is not None:
            self._by_id, self._ids = self._before_transaction
            self._before_transaction = None

    def _configure(self, record: ConfigRecord) -> None:
        topic_id = self._ids.get(record.resource_name)
        if record.resource_type != TOPIC_RESOURCE or topic_id is None:
            return
        configs = self._by_id[topic_id].configs
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
