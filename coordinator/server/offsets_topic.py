"""`__consumer_offsets`: the internal topic of groups, as the engine runs it and the data plane shows it."""

from collections.abc import Callable, Sequence
from typing import Final

from coordinator.config.properties import Config
from coordinator.engine.machine import InternalTopic
from coordinator.engine.runtime import Runtime
from coordinator.group.config import GroupConfig
from coordinator.group.consumer.config import ConsumerGroupConfig
from coordinator.group.record_codec import GroupRecordCodec
from coordinator.group.refusal import error_response, only_reads
from coordinator.group.requests import GroupConfigsChanged
from coordinator.group.shard import Shard
from coordinator.group.topics_image import TopicsImage
from coordinator.machine.outcome import Context, Now
from coordinator.names import CONSUMER_OFFSETS
from coordinator.server.internal_topic import InternalTopicLogs, segment_bytes
from coordinator.topics.answer import GroupConfigChanged, TopicChange
from coordinator.topics.data_plane import DataPlane
from protocol.partitioner import partition_for
from storage.data_directory import DataDirectory

NOBODY: Final = Context(0, 0, "", "")
"""Whoever wants no answer."""


class OffsetsTopic:
    """What the data directory and the config make of it."""

    def __init__(
        self, directory: DataDirectory, data_plane: DataPlane, config: Config, group_config: GroupConfig
    ) -> None:
        """Raises InvalidConfig, OSError."""
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            **segment_bytes(config.offsets_topic_segment_bytes),
        }
        self.logs = InternalTopicLogs(
            CONSUMER_OFFSETS,
            directory,
            data_plane.catalogue,
            config,
            config.offsets_topic_num_partitions,
            overrides,
        )
        self.new_shard: Callable[[GroupConfig, TopicsImage, ConsumerGroupConfig], Shard] = Shard
        """Makes the groups of a partition, whenever one is read."""
        self._config = config
        self._data_plane = data_plane
        self._catalogue = data_plane.catalogue
        self._group_config = group_config
        self._consumer_config = config.view(ConsumerGroupConfig)

    def internal_topic(
        self, topics: Callable[[], TopicsImage], *, begins_epochs: bool = False
    ) -> InternalTopic[Shard]:
        """For the engine: a shard of groups in each partition. One that is about to be read knows the topics of
        then, and what they become meanwhile it is told after. In: whether each reading is a new leader epoch."""
        return InternalTopic(
            name=CONSUMER_OFFSETS,
            partitions=self.logs.partitions,
            flush=self.logs.flush,
            compression=self._config.offsets_topic_compression_codec,
            codec=GroupRecordCodec(),
            new_machine=lambda number, leader_epoch: self._new_machine(number, topics()),
            refuse=error_response,
            open_log=self.logs.open,
            logger="GroupCoordinator",
            holds="group metadata",
            only_reads=only_reads,
            begins_epochs=begins_epochs,
            producer_expiration_ms=self._config.producer_id_expiration_ms,
        )

    def show(self, runtime: Runtime[Shard]) -> None:
        """Have the data plane show what the engine runs."""
        self._data_plane.attach_internal(
            CONSUMER_OFFSETS,
            self.logs.topic_id,
            self.logs.overrides,
            self.logs.partitions,
            lambda number: runtime.partitions[number].log,
            lambda number: runtime.partitions[number].readable_offset,
            lambda number: runtime.partitions[number].producers,
        )

    def _new_machine(self, number: int, topics: TopicsImage) -> Shard:
        shard = self.new_shard(self._group_config, topics, self._consumer_config)
        for group_id, overrides in self._catalogue.group_configs.by_group.items():
            if partition_for(group_id, self.logs.partitions) == number:
                shard.handle(GroupConfigsChanged(group_id, overrides), NOBODY, Now(0, 0))
        return shard


def tell_group_configs(runtime: Runtime[Shard], changes: Sequence[TopicChange]) -> None:
    """Tell groups which configs of their own they have now."""
    for change in changes:
        if isinstance(change, GroupConfigChanged):
            told = GroupConfigsChanged(change.group_id, dict(change.configs))
            runtime.receive(change.group_id, told)
