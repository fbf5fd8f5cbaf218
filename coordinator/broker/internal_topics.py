"""Internal topics: their logs, partition count and id from the data directory and the config; the internal topic of
`__consumer_offsets` for the runtime and the data plane; and the images of topics that groups use.

An existing internal topic keeps its partition count even if the config changes, because its keys are hashed over
it. `TopicChangePublisher` passes changes of topics on.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.topic_log_lines import log_changes
from coordinator.config.properties import Config
from coordinator.config.topic_config_keys import INTERNAL_SEGMENT_BYTES, SEGMENT_BYTES_MIN
from coordinator.core.daemon_log import LogLineLimit
from coordinator.core.outcome import Context, Now
from coordinator.core.shared_types import CONSUMER_OFFSETS, LogFlush
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.group.group_request_rules import build_group_error_response, is_read_only
from coordinator.group.group_requests import GroupConfigsChanged, TopicsChanged
from coordinator.group.group_shard import GroupShard
from coordinator.group.topics_image import TopicImage, TopicsImage
from coordinator.runtime.machine import InternalTopic
from coordinator.runtime.runtime import Runtime
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import (
    GroupConfigChanged,
    PartitionsAdded,
    TopicChange,
    TopicCreated,
    TopicDeleted,
)
from coordinator.topics.topic import random_topic_id
from protocol.partitioner import partition_for
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

NO_CLIENT: Final = Context(0, 0, "", "")
"""The context of a request without an answer."""
IMAGE_CHANGES: Final[tuple[type[TopicChange], ...]] = (TopicCreated, TopicDeleted, PartitionsAdded)
"""Changes that require a new image."""

OnTopicsChanged = Callable[[Sequence[TopicChange]], None]
"""Takes a batch of changes of topics or partitions."""


class InternalTopicShape(NamedTuple):
    """The partition count and the id of an internal topic in a cluster."""

    partitions: int
    topic_id: bytes
    new_partitions: int
    """Number of partitions that need room on this disk."""


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
        shape: InternalTopicShape | None = None,
    ) -> None:
        """Find or define an internal topic.

        Args:
            name: Name of the topic.
            directory: Data directory.
            catalogue: Catalogue of topics.
            config: Configuration of the broker.
            new_partitions: Number of partitions of a new topic.
            overrides: Properties of the topic.
            shape: Shape of the topic in a cluster, which has its logs; None: the data directory has them.

        Raises:
            InvalidConfig: A property is invalid.
            OSError: The data directory cannot be read.
        """
        there = [part for part in directory.list_partitions() if part.topic == name]
        # Records that were acknowledged right after a first start may be only in the journal.
        found = {*there, *(part for part in directory.list_journaled_partitions() if part.topic == name)}
        self.name = name
        self.exists = bool(found) or name in catalogue.internal_partitions
        """Whether the directory has the topic, or belongs to a cluster that has it."""
        # Existing keys stay in the partitions that their hashes selected, even if the config has changed.
        count = max((part.partition + 1 for part in found), default=new_partitions)
        self.partitions = max(count, catalogue.internal_partitions.get(name, 0))
        self.new_partitions = self.partitions - len(there)
        """Number of partitions without a directory."""
        self.flush = LogFlush(config.log_flush) if config.log_flush else LogFlush.ALWAYS
        self.topic_id = next(filter(None, map(directory.find_topic_id, found)), None) or random_topic_id()
        if shape is not None:
            self.partitions, self.topic_id, self.new_partitions = shape
        self.overrides = dict(overrides)
        self._directory = directory
        self.config = replace(
            catalogue.defaults.parse(self.overrides).log, sync_on_roll=self.flush is LogFlush.ALWAYS
        )

    def open_log(self, number: int) -> PartitionLog:
        """Open the log of a partition, which may take long. Raises StorageError, OSError."""
        return self._directory.open_log(
            TopicPartition(self.name, number),
            self.config,
            self.topic_id,
            is_journaled=self.flush is LogFlush.ALWAYS,
        )


def create_segment_config(size_bytes: int) -> dict[str, str]:
    """Return the property for a segment size in bytes. The public property rejects the small sizes of tests; Kafka
    has an internal one for them.
    """
    name = INTERNAL_SEGMENT_BYTES.name if size_bytes < SEGMENT_BYTES_MIN else "segment.bytes"
    return {name: str(size_bytes)}


class OffsetsTopic:
    """`__consumer_offsets`: its logs, and the groups in each of its partitions."""

    def __init__(
        self,
        directory: DataDirectory,
        data_plane: DataPlane,
        config: Config,
        group_config: GroupConfig,
        shape: InternalTopicShape | None = None,
    ) -> None:
        """Define the topic, with its shape in a cluster. Raises InvalidConfig, OSError."""
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            **create_segment_config(config.offsets_topic_segment_bytes),
        }
        self.logs = InternalTopicLogs(
            CONSUMER_OFFSETS,
            directory,
            data_plane.catalogue,
            config,
            config.offsets_topic_num_partitions,
            overrides,
            shape,
        )
        self._config = config
        self._data_plane = data_plane
        self._catalogue = data_plane.catalogue
        self._group_config = group_config
        self._consumer_config = config.view(ConsumerGroupConfig)

    def create_internal_topic(self, topics: Callable[[], TopicsImage]) -> InternalTopic[GroupShard]:
        """Return the internal topic for the engine, with a group shard in each partition.

        A shard starts with the topics at the time of its load and gets all later changes.

        Args:
            topics: Returns the current topics.
        """
        return InternalTopic(
            name=CONSUMER_OFFSETS,
            partitions=self.logs.partitions,
            flush=self.logs.flush,
            compression=self._config.offsets_topic_compression_codec,
            codec=GroupRecordCodec(),
            new_machine=lambda number, leader_epoch: self._create_machine(number, topics()),
            build_error_response=build_group_error_response,
            open_log=self.logs.open_log,
            logger="GroupCoordinator",
            contents_label="group metadata",
            is_read_only=is_read_only,
            producer_expiration_ms=self._config.producer_id_expiration_ms,
        )

    def attach_to_data_plane(self, runtime: Runtime[GroupShard], *, is_needed: bool) -> None:
        """Attach the engine's logs to the data plane. `is_needed` lists the topic from the start."""
        topic = self._data_plane.attach_internal(
            CONSUMER_OFFSETS,
            self.logs.topic_id,
            self.logs.overrides,
            self.logs.partitions,
            lambda number: runtime.partitions[number].log,
            lambda number: runtime.partitions[number].readable_offset,
            lambda number: runtime.partitions[number].producers,
        )
        topic.is_needed = is_needed

    def _create_machine(self, number: int, topics: TopicsImage) -> GroupShard:
        shard = GroupShard(self._group_config, topics, self._consumer_config)
        for group_id, overrides in self._catalogue.group_configs.by_group.items():
            if partition_for(group_id, self.logs.partitions) == number:
                shard.handle(GroupConfigsChanged(group_id, overrides), NO_CLIENT, Now(0, 0))
        return shard


def send_group_configs(runtime: Runtime[GroupShard], changes: Sequence[TopicChange]) -> None:
    """Send changed configs to their groups."""
    for change in changes:
        if isinstance(change, GroupConfigChanged):
            request = GroupConfigsChanged(change.group_id, dict(change.configs))
            runtime.receive_message(change.group_id, request)


class TopicImages:
    """The current image of topics, shared by all partitions of the groups and replaced after each change."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.listeners: list[OnTopicsChanged] = []
        """Called with each batch of changes after which the image is another one."""
        self._catalogue = catalogue
        self._current = self._create_image(0)

    def get_current(self) -> TopicsImage:
        """Return the current topics."""
        return self._current

    def refresh(self) -> TopicsChanged:
        """Create a new image, and return the change that groups need."""
        before, self._current = self._current, self._create_image(self._current.version)
        return TopicsChanged(self._current, before.find_deleted(self._current))

    def on_topics_changed(self, runtime: Runtime[GroupShard], changes: Sequence[TopicChange]) -> None:
        """Send the new image to all groups, and notify the listeners."""
        if any(isinstance(change, IMAGE_CHANGES) for change in changes):
            runtime.notify_all(self.refresh())
            for listener in self.listeners:
                listener(changes)

    def _create_image(self, version: int) -> TopicsImage:
        topics = [TopicImage(topic.name, topic.topic_id, len(topic.partitions)) for topic in self._catalogue]
        return TopicsImage(topics, version + 1)


class TopicChangePublisher:
    """Counts and logs changes of topics, and passes each batch to the listeners in their order."""

    def __init__(self, metrics: BrokerMetrics, line_limit: LogLineLimit) -> None:
        self.listeners: list[OnTopicsChanged] = []
        self._metrics = metrics
        self._line_limit = line_limit

    def record_changes(self, changes: Sequence[TopicChange]) -> None:
        """Count and log changes that no listener needs, because the server is not open yet."""
        self._metrics.count_changes(changes)
        log_changes(changes, self._line_limit)

    def publish_changes(self, changes: Sequence[TopicChange]) -> None:
        """Count and log changes, and call the listeners."""
        self.record_changes(changes)
        for listener in self.listeners:
            listener(changes)
