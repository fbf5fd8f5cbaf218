"""Partitions that are to be opened, and their opening: one in a step, for there may be thousands of them.

Those of a topic with replicas are not opened here: the engine of a cluster has their records.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Protocol

from coordinator.config.topic_configs import TopicValues
from coordinator.names import LogFlush
from coordinator.topics.cluster_partition import ClusterPartition, ClusterRecords
from coordinator.topics.config import TopicsConfig
from coordinator.topics.open_files import OpenFiles
from coordinator.topics.partition import HostedPartition
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition


class Named(Protocol):
    """The topic that partitions are made for. Its values may be others when a log is opened."""

    name: str
    topic_id: bytes
    values: TopicValues
    replication_factor: int


class NewPartitions:
    """Makes the partitions of a data directory's topics."""

    __slots__ = ("_config", "_directory", "_records", "open_files")

    def __init__(
        self,
        directory: DataDirectory,
        config: TopicsConfig,
        open_files: OpenFiles,
        records: ClusterRecords | None,
    ) -> None:
        """In: who has the records of topics with replicas; None without a cluster, where what the directory has of
        them is all there is."""
        self._directory = directory
        self._config = config
        self._records = records
        self.open_files = open_files
        """Where their logs are counted."""

    def add(self, topic: Named, to: list[HostedPartition], first: int, end: int) -> Iterator[None]:
        """Appends the partitions from `first` to `end` (excluded), none of them opened yet."""
        is_flushed_always = self._config.log_flush is LogFlush.ALWAYS
        for number in range(first, end):
            name = TopicPartition(topic.name, number)
            expiration_ms = self._config.producer_id_expiration_ms
            if topic.replication_factor > 1 and self._records is not None:
                to.append(ClusterPartition(name, expiration_ms, self.open_files, self._records))
            else:
                open_log = partial(self._open_log, topic, name, is_flushed_always)
                to.append(HostedPartition(name, open_log, expiration_ms, is_flushed_always, self.open_files))
            yield

    def _open_log(self, topic: Named, name: TopicPartition, is_journaled: bool) -> PartitionLog:
        return self._directory.open_log(name, topic.values.log, topic.topic_id, is_journaled=is_journaled)


def open_each(partitions: Iterable[HostedPartition]) -> Iterator[None]:
    """Opens them. Raises what the disk does, an OSError or a StorageError."""
    for partition in partitions:
        partition.open()
        if partition.failure is not None:
            raise partition.failure
        yield
