"""Topics, topics to be created, and the factory of their partitions."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from coordinator.config.topic_configs import TopicValues
from coordinator.core.shared_types import LogFlush
from coordinator.topics.api_error import ApiError
from coordinator.topics.cluster_partition import ClusterPartition, ClusterRecords
from coordinator.topics.data_plane_config import DataPlaneConfig
from coordinator.topics.open_files import OpenFileLimit
from coordinator.topics.partition import HostedPartition, ReadablePartition
from coordinator.topics.topic_name import is_internal
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition, uuid_to_text

ZERO_ID: Final = bytes(16)
# 00…01 is the id of the cluster metadata log; ids that begin with '-' are awkward to type. Kafka skips both.
_RESERVED_IDS: Final = frozenset({ZERO_ID, bytes(15) + b"\x01"})


class NewTopicSpec(NamedTuple):
    """A topic to create: a legal, unused name, the number of partitions, valid overrides, an existing id if it has
    one elsewhere, and the replication factor.
    """

    name: str
    partitions: int
    overrides: Mapping[str, str]
    topic_id: bytes | None = None
    replication_factor: int = 1


class Topic:
    """A topic. `overrides` are its own properties as text; `values` are all effective properties, parsed."""

    __slots__ = (
        "hosted",
        "is_internal",
        "is_needed",
        "name",
        "overrides",
        "partitions",
        "replication_factor",
        "topic_id",
        "values",
    )

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        overrides: dict[str, str],
        values: TopicValues,
        hosted: list[HostedPartition],
        partitions: Sequence[ReadablePartition] | None = None,
        replication_factor: int = 1,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal(name)
        self.is_needed = True
        """Whether a client has requested the coordinator of an internal topic. True for other topics."""
        self.overrides = overrides
        self.values = values
        self.hosted = hosted
        """The partitions that clients produce to: all of the topic's, or none."""
        self.partitions: Sequence[ReadablePartition] = hosted if partitions is None else partitions
        self.replication_factor = replication_factor
        """The replication factor at the creation of the topic. Above 1 the cluster's engine stores the
        records, not one broker's disk."""

    @property
    def is_listed(self) -> bool:
        """Whether requests for all topics list it. Kafka creates an internal topic on first use."""
        return self.is_needed or any(partition.high_watermark > 0 for partition in self.partitions)


class TopicGrowth:
    """The new partitions of a topic until the catalogue's file lists them."""

    __slots__ = ("added", "end", "first", "is_cancelled", "topic")

    def __init__(self, topic: Topic, end: int) -> None:
        """`end` is the new number of partitions."""
        self.topic = topic
        self.first = len(topic.hosted)
        self.end = end
        self.added: list[HostedPartition] = []
        """The opened partitions, and at most one that failed to open."""
        self.is_cancelled = False
        """Whether the partitions are being removed, after an error or with the topic."""

    def cancel(self) -> tuple[list[HostedPartition], int]:
        """Cancel the growth. Return the partitions to remove and the number of reserved ones."""
        if self.is_cancelled:
            return [], 0
        added, self.added, self.is_cancelled = self.added, [], True
        return added, self.end - self.first


CreatedTopics = dict[str, Topic | ApiError | OSError | StorageError]
"""Each new topic, or the error, by name."""

GrownTopics = dict[str, ApiError | OSError | StorageError | None]
"""The error of each topic that could not grow, by name; None for the others."""


class PartitionedTopic(Protocol):
    """The topic of a partition. Its values may have changed when a log is opened."""

    name: str
    topic_id: bytes
    values: TopicValues
    replication_factor: int


class PartitionFactory:
    """Creates the partitions of a data directory's topics."""

    __slots__ = ("_config", "_directory", "_records", "open_files")

    def __init__(
        self,
        directory: DataDirectory,
        config: DataPlaneConfig,
        open_files: OpenFileLimit,
        records: ClusterRecords | None,
    ) -> None:
        """Create the factory.

        Args:
            directory: the data directory.
            config: the configuration.
            open_files: counts open logs.
            records: stores the records of replicated topics; None without a cluster, when only the directory has
                records.
        """
        self._directory = directory
        self._config = config
        self._records = records
        self.open_files = open_files
        """Counts the open logs of the partitions."""

    def create_partition(self, topic: PartitionedTopic, number: int) -> HostedPartition:
        """Create a partition of a topic without opening it."""
        is_flushed_always = self._config.log_flush is LogFlush.ALWAYS
        expiration_ms = self._config.producer_id_expiration_ms
        name = TopicPartition(topic.name, number)
        if topic.replication_factor > 1 and self._records is not None:
            return ClusterPartition(name, expiration_ms, self.open_files, self._records)
        open_log = partial(self._open_log, topic, name, is_flushed_always)
        return HostedPartition(name, open_log, expiration_ms, is_flushed_always, self.open_files)

    def _open_log(self, topic: PartitionedTopic, name: TopicPartition, is_journaled: bool) -> PartitionLog:
        return self._directory.open_log(name, topic.values.log, topic.topic_id, is_journaled=is_journaled)


def random_topic_id() -> bytes:
    """Return a random topic id: a version 4 UUID that Kafka accepts."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if topic_id not in _RESERVED_IDS and not uuid_to_text(topic_id).startswith("-"):
            return topic_id
