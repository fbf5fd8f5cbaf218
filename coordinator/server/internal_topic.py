"""What the data directory and the config make of an internal topic: how many partitions, which id, how its logs are
opened. What runs over it is said elsewhere: `offsets_topic.py`, `transaction_topic.py`."""

from collections.abc import Mapping
from dataclasses import replace

from coordinator.config.properties import Config
from coordinator.config.topic_config_keys import INTERNAL_SEGMENT_BYTES, SEGMENT_BYTES_MIN
from coordinator.names import LogFlush
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic import random_topic_id
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition


class InternalTopicLogs:
    """The logs of one internal topic."""

    def __init__(
        self,
        name: str,
        directory: DataDirectory,
        catalogue: Catalogue,
        config: Config,
        new_partitions: int,
        overrides: Mapping[str, str],
    ) -> None:
        """In: how many partitions it gets where it does not exist yet; its properties. Raises InvalidConfig,
        OSError."""
        there = [part for part in directory.partitions() if part.topic == name]
        # What was acknowledged right after a first start may be in the journal alone.
        found = {*there, *(part for part in directory.journaled() if part.topic == name)}
        self.name = name
        self.is_there = bool(found) or name in catalogue.internal_partitions
        """Whether the directory has it, or is that of a cluster which has it."""
        # What a data directory holds stays where its names hash to, whatever the config says by now.
        count = max((part.partition + 1 for part in found), default=new_partitions)
        self.partitions = max(count, catalogue.internal_partitions.get(name, 0))
        self.new_partitions = self.partitions - len(there)
        """Those that have no directory yet."""
        self.flush = LogFlush(config.log_flush) if config.log_flush else LogFlush.ALWAYS
        self.topic_id = next(filter(None, map(directory.topic_id, found)), None) or random_topic_id()
        self.overrides = dict(overrides)
        self._directory = directory
        self.config = replace(
            catalogue.defaults.parse(self.overrides).log, sync_on_roll=self.flush is LogFlush.ALWAYS
        )

    def open(self, number: int) -> PartitionLog:
        """The log of a partition; may take long. Raises StorageError, OSError."""
        return self._directory.open_log(
            TopicPartition(self.name, number),
            self.config,
            self.topic_id,
            is_journaled=self.flush is LogFlush.ALWAYS,
        )


def segment_bytes(size_bytes: int) -> dict[str, str]:
    """The property of a topic that says how large a segment is. The public one takes no value as small as tests
    want it; Kafka has another one for them."""
    name = INTERNAL_SEGMENT_BYTES.name if size_bytes < SEGMENT_BYTES_MIN else "segment.bytes"
    return {name: str(size_bytes)}
