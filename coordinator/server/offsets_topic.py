"""`__consumer_offsets`: the internal topic of groups, as the engine runs it and the data plane shows it."""

from collections.abc import Callable
from dataclasses import replace

from coordinator.config.properties import Config
from coordinator.config.topic_config_keys import INTERNAL_SEGMENT_BYTES, SEGMENT_BYTES_MIN
from coordinator.engine.machine import InternalTopic
from coordinator.group.config import GroupConfig
from coordinator.group.record_codec import GroupRecordCodec
from coordinator.group.refusal import error_response, only_reads
from coordinator.group.shard import Shard
from coordinator.group.topics_image import TopicsImage
from coordinator.names import CONSUMER_OFFSETS, LogFlush
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.topic import random_topic_id
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition


class OffsetsTopic:
    """What the data directory and the config make of it."""

    def __init__(
        self, directory: DataDirectory, data_plane: DataPlane, config: Config, group_config: GroupConfig
    ) -> None:
        """Raises InvalidConfig, OSError."""
        there = [part for part in directory.partitions() if part.topic == CONSUMER_OFFSETS]
        # What was acknowledged right after a first start may be in the journal alone.
        found = {*there, *(part for part in directory.journaled() if part.topic == CONSUMER_OFFSETS)}
        # The groups of a data directory stay where their names hash to, whatever the config says by now.
        count = max((part.partition + 1 for part in found), default=config.offsets_topic_num_partitions)
        self.flush = LogFlush(config.log_flush) if config.log_flush else LogFlush.ALWAYS
        self.partitions = max(count, data_plane.catalogue.offsets_partitions)
        self.new_partitions = self.partitions - len(there)
        """Those that have no directory yet."""
        self.topic_id = next(filter(None, map(directory.topic_id, found)), None) or random_topic_id()
        self.overrides = _overrides(config)
        self.new_shard: Callable[[GroupConfig, TopicsImage], Shard] = Shard
        """Makes the groups of a partition, whenever one is read."""
        self._directory = directory
        self._config = config
        self._group_config = group_config
        self._log_config = replace(
            data_plane.catalogue.defaults.parse(self.overrides).log,
            sync_on_roll=self.flush is LogFlush.ALWAYS,
        )

    def internal_topic(self, topics: Callable[[], TopicsImage]) -> InternalTopic[Shard]:
        """For the engine: a shard of groups in each partition. One that is about to be read knows the topics of
        then, and what they become meanwhile it is told after."""
        return InternalTopic(
            name=CONSUMER_OFFSETS,
            partitions=self.partitions,
            flush=self.flush,
            compression=self._config.offsets_topic_compression_codec,
            codec=GroupRecordCodec(),
            new_machine=lambda number, leader_epoch: self.new_shard(self._group_config, topics()),
            refuse=error_response,
            open_log=self._open_log,
            logger="GroupCoordinator",
            holds="group metadata",
            only_reads=only_reads,
            producer_expiration_ms=self._config.producer_id_expiration_ms,
        )

    def _open_log(self, number: int) -> PartitionLog:
        return self._directory.open_log(
            TopicPartition(CONSUMER_OFFSETS, number),
            self._log_config,
            self.topic_id,
            is_journaled=self.flush is LogFlush.ALWAYS,
        )


def _overrides(config: Config) -> dict[str, str]:
    # The public property takes no value as small as tests want it; Kafka has another one for them.
    is_small = config.offsets_topic_segment_bytes < SEGMENT_BYTES_MIN
    segment_bytes_name = INTERNAL_SEGMENT_BYTES.name if is_small else "segment.bytes"
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        segment_bytes_name: str(config.offsets_topic_segment_bytes),
    }
