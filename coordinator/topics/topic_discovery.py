"""Discover topics at start: the topics of the catalogue file and directories that it does not list.

Such a directory belongs to a broker that used the data directory before, or to a change that failed or that a crash
interrupted. In the first case that broker's copy of the cluster metadata lists the partition, or the log has
records. The start removes all other directories.
"""

from collections.abc import Callable
from typing import Any, Final

from coordinator.config.config_def import InvalidConfig
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.config.topic_configs import TopicDefaults
from coordinator.core.shared_types import COORDINATOR_TOPICS
from coordinator.topics.catalogue_file import CATALOGUE_VERSION
from coordinator.topics.kafka_metadata_log import ClusterTopic, read_cluster_topics
from coordinator.topics.topic_name import CLUSTER_METADATA
from storage.data_directory import CATALOGUE, DataDirectory
from storage.storage_errors import DamagedFile
from storage.topic_partition import TopicPartition, uuid_from_text

KEEP_ALL: Final = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}

OWN_PRODUCER_IDS: Final = 1 << 40
"""The first producer id of this daemon in a directory that a cluster uses as well. The cluster assigns ids from 0
and does not know the ids assigned here. If two producers had the same id, the broker would take the first batches
of one for duplicates of the other: acknowledge them without appending.
"""


class TopicDiscovery:
    """All topics of a data directory before their logs are opened."""

    def __init__(
        self, directory: DataDirectory, defaults: TopicDefaults, new_id: Callable[[], bytes]
    ) -> None:
        """`directory` is open; `new_id` returns ids for topics without one. Call `discover` next."""
        self.counts: dict[str, int] = {}
        """The number of partitions by topic."""
        self.ids: dict[str, bytes] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.replication_factors: dict[str, int] = {}
        """The replication factors of topics with records in the cluster's engine."""
        self.group_configs: dict[str, dict[str, str]] = {}
        """The config overrides of groups by id."""
        self.producer_ids_reserved = 0
        self.internal_partitions: dict[str, int] = {}
        """The number of partitions by internal topic in the cluster of an adopted directory."""
        self.internal_directories = dict.fromkeys(COORDINATOR_TOPICS, 0)
        """The partitions of these topics that have a directory."""
        self.adoption_messages: list[str] = []
        """A log line for each topic that was created from directories that the file does not list."""
        self.leftovers: list[TopicPartition] = []
        """Directories left by a deletion or by an unfinished change."""
        self.deleted: dict[bytes, str] = {}
        """The names of deleted topics by id that may have left directories."""
        self._unknown: dict[str, list[TopicPartition]] = {}
        """Directories missing in the file, by topic."""
        self._directory = directory
        self._defaults = defaults
        self._new_id = new_id

    def discover(self) -> None:
        """Discover the topics.

        Raises:
            DamagedFile: the file is malformed.
            OSError: the disk failed.
        """
        document = self._directory.read_catalogue()
        if document is not None:
            self._read_document(document)
        for partition in self._directory.list_partitions():
            self._examine_directory(partition)
        cluster = self._cluster_topics() if self._unknown or document is None else {}
        for name, partitions in self._unknown.items():
            self._classify_directories(name, partitions, cluster.get(name), is_new=document is None)
        unknown_topics = [name for name in self.counts if name not in self.configs]
        for name in unknown_topics:
            topic = cluster.get(name)
            known = topic is not None and topic.topic_id == self.ids[name]
            self.configs[name], count = self._adopt_topic(name, topic if known else None)
            self.counts[name] = max(self.counts[name], count)
        if unknown_topics or self._directory.files.is_directory(
            f"{self._directory.path}/{CLUSTER_METADATA}-0"
        ):
            self.producer_ids_reserved = max(self.producer_ids_reserved, OWN_PRODUCER_IDS)
        for name in COORDINATOR_TOPICS:
            if name in cluster:
                self.internal_partitions[name] = cluster[name].partitions

    def _examine_directory(self, partition: TopicPartition) -> None:
        name, number = partition
        if name in COORDINATOR_TOPICS:
            self.internal_directories[name] += 1
        if name in COORDINATOR_TOPICS or name == CLUSTER_METADATA:
            return
        try:
            topic_id = self._directory.find_topic_id(partition)
        except OSError:
            topic_id = None  # opening the log reports the reason
        if self._is_leftover(name, topic_id):
            self.leftovers.append(partition)
            return
        if name not in self.ids:
            self.ids[name] = topic_id or self._new_id()
        if number >= self.counts.get(name, 0):
            self._unknown.setdefault(name, []).append(partition)

    def _classify_directories(
        self, name: str, partitions: list[TopicPartition], topic: ClusterTopic | None, *, is_new: bool
    ) -> None:
        """Classify directories missing in the file as partitions of a topic or as leftovers.

        `topic` is the topic in the metadata of the broker that used the directory before. `is_new`: the file does
        not exist yet.

        The journal does not decide this: the file lists a topic before the topic gets its first record, so that
        journaled records of a topic that the file does not list belong to a deleted topic.
        """
        count = max(number for _, number in partitions) + 1
        is_known = topic is not None and topic.topic_id == self.ids[name] and topic.partitions >= count
        if is_new or is_known or not all(map(self._directory.is_unused, partitions)):
            self.counts[name] = max(self.counts.get(name, 0), count)
        else:
            self.leftovers += partitions

    def _is_leftover(self, name: str, topic_id: bytes | None) -> bool:
        """Return whether a directory is left from a deleted topic. A crash may have removed the file with its topic
        id.
        """
        if topic_id is None:
            return name in self.deleted.values()
        return topic_id in self.deleted

    def _cluster_topics(self) -> dict[str, ClusterTopic]:
        try:
            return read_cluster_topics(self._directory.files, self._directory.path)
        except DamagedFile as error:
            self.adoption_messages.append(str(error))
            return {}

    def _adopt_topic(self, name: str, topic: ClusterTopic | None) -> tuple[dict[str, str], int]:
        """Return the properties and the minimum number of partitions of a topic missing in the file."""
        if topic is None:
            self.adoption_messages.append(
                f"{name}: its properties are unknown, so all records are kept: {KEEP_ALL}"
            )
            return dict(KEEP_ALL), 0
        configs = {key: value for key, value in topic.configs.items() if key in TOPIC_CONFIG_KEYS}
        try:
            self._defaults.parse(configs)
        except InvalidConfig as error:
            self.adoption_messages.append(
                f"{name}: all records are kept, {KEEP_ALL}, because its properties are invalid: {error}"
            )
            return dict(KEEP_ALL), topic.partitions
        self.adoption_messages.append(f"{name}: {topic.partitions} partitions, properties {configs}")
        return configs, topic.partitions

    def _read_document(self, document: object) -> None:
        path = f"{self._directory.path}/{CATALOGUE}"
        try:
            fields: Any = document
            if fields["version"] != CATALOGUE_VERSION:
                raise DamagedFile(path, f"version {fields['version']!r} is not {CATALOGUE_VERSION}")
            self.producer_ids_reserved = int(fields["producer_ids_reserved"])
            for entry in fields["deleted"]:
                self.deleted[uuid_from_text(entry["topic_id"])] = str(entry["name"])
            for entry in fields["topics"]:
                name = str(entry["name"])
                if name in COORDINATOR_TOPICS:
                    continue  # adopted by a version without transactions
                self.counts[name] = int(entry["partitions"])
                self.ids[name] = uuid_from_text(entry["topic_id"])
                if "replication_factor" in entry:
                    self.replication_factors[name] = int(entry["replication_factor"])
                self.configs[name] = {str(key): str(value) for key, value in entry["configs"].items()}
            for group_id, configs in fields.get("groups", {}).items():
                self.group_configs[str(group_id)] = {str(key): str(value) for key, value in configs.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedFile(path, f"is not a catalogue of topics: {error!r}") from error
