"""The topics: names, ids, partitions, properties; kept in one small file beside the logs.

The file is the truth and changes first. A topic is created by writing it there and then making its
directories, so that a crash in between leaves a whole topic with empty partitions. It is deleted by taking
it out, leaving its id behind, and then removing the directories; a start finishes what a crash interrupted.
A directory that the file does not know (one of a real broker's) becomes a topic, with the partitions and
properties that the broker's copy of the cluster metadata gives it. Where that says nothing of it, the topic keeps
every record, since nobody knows how long it was meant to.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.config.config_key import InvalidConfig
from coordinator.config.topic_config_keys import TOPIC_CONFIG_KEYS
from coordinator.config.topic_configs import TopicDefaults, TopicValues
from coordinator.names import CONSUMER_OFFSETS, LogFlush
from coordinator.topics.cluster_metadata import ClusterTopic, read_cluster_topics
from coordinator.topics.config import TopicsConfig
from coordinator.topics.partition import HostedPartition, InternalPartition, Partition
from coordinator.topics.topic_name import CLUSTER_METADATA, is_internal, metric_name
from storage.data_directory import CATALOGUE, DataDirectory
from storage.errors import DamagedFile, StorageError
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition
from storage.uuid_text import uuid_from_text, uuid_to_text

VERSION: Final = 1
ZERO_ID: Final = bytes(16)
KEEP_ALL: Final = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "-1"}
# 00…01 names the cluster metadata log; ids whose text begins with '-' are awkward to type. Kafka skips both.
_RESERVED_IDS: Final = frozenset({ZERO_ID, bytes(15) + b"\x01"})


def random_topic_id() -> bytes:
    """A version 4 UUID that Kafka would accept as a topic id."""
    while True:
        raw = bytearray(os.urandom(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if topic_id not in _RESERVED_IDS and not uuid_to_text(topic_id).startswith("-"):
            return topic_id


class NewTopic(NamedTuple):
    """A topic to create: a legal name that is free, how many partitions, valid properties of its own."""

    name: str
    partitions: int
    overrides: Mapping[str, str]


class Topic:
    """One topic. `overrides` are its own properties as text, `values` all that act, parsed."""

    __slots__ = ("hosted", "is_internal", "name", "overrides", "partitions", "topic_id", "values")

    def __init__(
        self,
        name: str,
        topic_id: bytes,
        overrides: dict[str, str],
        values: TopicValues,
        hosted: list[HostedPartition],
        partitions: Sequence[Partition] | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal(name)
        self.overrides = overrides
        self.values = values
        self.hosted = hosted
        """Partitions whose log is owned here: all of them, or none."""
        self.partitions: Sequence[Partition] = hosted if partitions is None else partitions


class Catalogue:
    """All topics, by name and by id."""

    def __init__(self, directory: DataDirectory, config: TopicsConfig, new_id: Callable[[], bytes]) -> None:
        """In: an open data directory; where ids of new topics come from. `load` comes next."""
        self.defaults = TopicDefaults(config.broker_properties)
        self.offsets_partitions = 0
        """How many partitions the cluster of a directory that is taken over has for the groups; 0 for none."""
        self.producer_ids_reserved = 0
        """Ids of producers below this one may have been given out."""
        self._directory = directory
        self._config = config
        self.new_id = new_id
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._metric_names: dict[str, set[str]] = {}
        self._deleted: dict[bytes, str] = {}
        """Topics, name by id, of which directories may still lie there."""
        self.adopted: list[str] = []
        """What `load` made of directories that the file did not know, a line for each topic."""

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Topic]:
        """In order of name."""
        return iter(sorted(self._by_name.values(), key=lambda topic: topic.name))

    def get(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def get_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of that id (16 bytes)."""
        return self._by_id.get(topic_id)

    def partition(self, name: str, number: int) -> Partition | None:
        """A partition by topic name and number."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]

    def collides(self, name: str) -> str | None:
        """A topic, other than the one of that name, that metrics could not tell from it; None when there is
        none.
        """
        return next((other for other in self._metric_names.get(metric_name(name), ()) if other != name), None)

    # Loading and saving

    def load(self) -> None:
        """Reads the file, opens every log, and finishes deletions; `save` is to come next.

        A log that cannot be opened leaves its partition offline. Raises DamagedFile for a file that makes
        no sense, InvalidConfig for a property it cannot hold, OSError.
        """
        counts: dict[str, int] = {}
        ids: dict[str, bytes] = {}
        configs: dict[str, dict[str, str]] = {}
        document = self._directory.read_catalogue()
        if document is not None:
            self._read(document, counts, ids, configs)
        for partition in self._directory.partitions():
            name, number = partition
            if name in (CONSUMER_OFFSETS, CLUSTER_METADATA):
                continue
            topic_id = self._directory.topic_id(partition)
            if self._is_remains(name, topic_id):
                self._remove_remains(partition)
                continue
            if name not in ids:
                ids[name] = topic_id or self.new_id()
            counts[name] = max(counts.get(name, 0), number + 1)
        self._deleted.clear()
        strangers = [name for name in counts if name not in configs]
        cluster = self._cluster_topics() if strangers or document is None else {}
        for name in strangers:
            topic = cluster.get(name)
            known = topic is not None and topic.topic_id == ids[name]
            configs[name], partitions = self._adopt(name, topic if known else None)
            counts[name] = max(counts[name], partitions)
        if CONSUMER_OFFSETS in cluster:
            self.offsets_partitions = cluster[CONSUMER_OFFSETS].partitions
        for name, count in counts.items():
            self._put(name, ids[name], configs[name], count)

    def _cluster_topics(self) -> dict[str, ClusterTopic]:
        try:
            return read_cluster_topics(self._directory.files, self._directory.path)
        except DamagedFile as error:
            self.adopted.append(str(error))
            return {}

    def _adopt(self, name: str, topic: ClusterTopic | None) -> tuple[dict[str, str], int]:
        """Properties and least number of partitions of a topic that the file does not know."""
        if topic is None:
            self.adopted.append(f"{name}: its properties are not known, every record is kept: {KEEP_ALL}")
            return dict(KEEP_ALL), 0
        configs = {key: value for key, value in topic.configs.items() if key in TOPIC_CONFIG_KEYS}
        try:
            self.defaults.parse(configs)
        except InvalidConfig as error:
            self.adopted.append(
                f"{name}: every record is kept, {KEEP_ALL}, because of its properties: {error}"
            )
            return dict(KEEP_ALL), topic.partitions
        self.adopted.append(f"{name}: {topic.partitions} partitions, properties {configs}")
        return configs, topic.partitions

    def _read(
        self,
        document: object,
        counts: dict[str, int],
        ids: dict[str, bytes],
        configs: dict[str, dict[str, str]],
    ) -> None:
        path = f"{self._directory.path}/{CATALOGUE}"
        try:
            fields: Any = document
            if fields["version"] != VERSION:
                raise DamagedFile(path, f"version {fields['version']!r} is not {VERSION}")
            self.producer_ids_reserved = int(fields["producer_ids_reserved"])
            for entry in fields["deleted"]:
                self._deleted[uuid_from_text(entry["topic_id"])] = str(entry["name"])
            for entry in fields["topics"]:
                name = str(entry["name"])
                counts[name] = int(entry["partitions"])
                ids[name] = uuid_from_text(entry["topic_id"])
                configs[name] = {str(key): str(value) for key, value in entry["configs"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedFile(path, f"is not a catalogue of topics: {error!r}") from error

    def _is_remains(self, name: str, topic_id: bytes | None) -> bool:
        """Whether a directory is what is left of a deleted topic. A crash may have taken the file with its
        id.
        """
        if topic_id is None:
            return name in self._deleted.values()
        return topic_id in self._deleted

    def _remove_remains(self, partition: TopicPartition) -> None:
        self._directory.delete_logs({partition: None})

    def save(self) -> None:
        """Writes the file, atomically and durably. Raises OSError."""
        self._directory.write_catalogue(
            {
                "version": VERSION,
                "producer_ids_reserved": self.producer_ids_reserved,
                "deleted": [
                    {"name": name, "topic_id": uuid_to_text(topic_id)}
                    for topic_id, name in self._deleted.items()
                ],
                "topics": [
                    {
                        "name": topic.name,
                        "topic_id": uuid_to_text(topic.topic_id),
                        "partitions": len(topic.partitions),
                        "configs": topic.overrides,
                    }
                    for topic in self
                    if topic.hosted
                ],
            }
        )

    # Changing

    def create(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """A new topic with a name that is legal and free, and valid overrides.

        Raises OSError or StorageError when the disk refuses; the topic then does not exist.
        """
        created = self.create_all([NewTopic(name, partitions, overrides)])[name]
        if isinstance(created, Exception):
            raise created
        return created

    def create_all(self, wanted: Sequence[NewTopic]) -> dict[str, Topic | OSError | StorageError]:
        """New topics, with one write of the file for all: by name what each became, or why it is not there."""
        topics = [self._new(new) for new in wanted]
        for topic in topics:
            self._index(topic)
        try:
            for topic in topics:
                self._finish_deletion(topic.name)
            self.save()
        except (OSError, StorageError) as error:
            for topic in topics:
                self._forget(topic)
            return {topic.name: error for topic in topics}
        results: dict[str, Topic | OSError | StorageError] = {}
        for topic in topics:
            try:
                self._open_new(topic, 0)
            except (OSError, StorageError) as error:
                self.delete_all([topic])
                results[topic.name] = error
            else:
                results[topic.name] = topic
        return results

    def _new(self, new: NewTopic) -> Topic:
        assert new.name not in self._by_name, new.name
        topic = Topic(new.name, self.new_id(), dict(new.overrides), self.defaults.parse(new.overrides), [])
        topic.hosted += [self._hosted(topic, number) for number in range(new.partitions)]
        return topic

    def grow(self, topic: Topic, partitions: int) -> None:
        """Adds partitions until there are `partitions`. Raises OSError, StorageError; it then has what it
        had.
        """
        before = len(topic.hosted)
        assert topic.hosted
        assert partitions > before
        topic.hosted += [self._hosted(topic, number) for number in range(before, partitions)]
        try:
            self.save()
            self._open_new(topic, before)
        except (OSError, StorageError):
            added = topic.hosted[before:]
            del topic.hosted[before:]
            self.save()
            self._directory.delete_logs({part.name: part.log for part in added if part.log is not None})
            raise

    def delete_all(self, topics: Sequence[Topic]) -> None:
        """Removes topics and their records. Raises OSError; a next start then finishes it."""
        for topic in topics:
            self._forget(topic)
            self._deleted[topic.topic_id] = topic.name
        self.save()
        self._directory.delete_logs({part.name: part.log for topic in topics for part in topic.hosted})
        for topic in topics:
            # Gone for good, whatever a crash does: the file may go on naming it until it is next written.
            del self._deleted[topic.topic_id]

    def _finish_deletion(self, name: str) -> None:
        """Removes what an earlier deletion that failed has left. Raises OSError."""
        ids = [topic_id for topic_id, deleted in self._deleted.items() if deleted == name]
        if not ids:
            return
        for partition in self._directory.partitions():
            if partition.topic == name:
                self._remove_remains(partition)
        for topic_id in ids:
            del self._deleted[topic_id]

    def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Replaces a topic's overrides by valid ones; its logs obey from now on. Raises OSError."""
        before = topic.overrides
        values = self.defaults.parse(overrides)
        topic.overrides = dict(overrides)
        try:
            self.save()
        except OSError:
            topic.overrides = before
            raise
        topic.values = values
        for part in topic.hosted:
            if part.log is not None:
                part.log.config = values.log

    def attach(
        self,
        name: str,
        topic_id: bytes,
        overrides: Mapping[str, str],
        partitions: int,
        log: Callable[[int], PartitionLog | None],
        high_watermark: Callable[[int], int],
    ) -> Topic:
        """Makes a topic visible whose logs another part of the server owns; it is not written to the file."""
        assert name not in self._by_name, name
        readable = [
            InternalPartition(TopicPartition(name, n), log, high_watermark) for n in range(partitions)
        ]
        topic = Topic(name, topic_id, dict(overrides), self.defaults.parse(overrides), [], readable)
        self._index(topic)
        return topic

    def hosted(self) -> Iterable[HostedPartition]:
        """Every partition whose log is owned here."""
        for topic in self._by_name.values():
            yield from topic.hosted

    def _put(self, name: str, topic_id: bytes, overrides: dict[str, str], partitions: int) -> None:
        topic = Topic(name, topic_id, overrides, self.defaults.parse(overrides), [])
        topic.hosted += [self._hosted(topic, number) for number in range(partitions)]
        self._index(topic)
        for part in topic.hosted:
            part.open()

    def _hosted(self, topic: Topic, number: int) -> HostedPartition:
        name = TopicPartition(topic.name, number)

        def open_log() -> PartitionLog:
            return self._directory.open_log(name, topic.values.log, topic.topic_id)

        expiration_ms = self._config.producer_id_expiration_ms
        return HostedPartition(name, open_log, expiration_ms, self._config.log_flush is LogFlush.ALWAYS)

    def _open_new(self, topic: Topic, first: int) -> None:
        for part in topic.hosted[first:]:
            part.open()
            if part.failure is not None:
                raise part.failure

    def _index(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._metric_names.setdefault(metric_name(topic.name), set()).add(topic.name)

    def _forget(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        names = self._metric_names[metric_name(topic.name)]
        names.discard(topic.name)
        if not names:
            del self._metric_names[metric_name(topic.name)]
