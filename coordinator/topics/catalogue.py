"""The topics: names, ids, partitions, properties; kept in one small file beside the logs.

The file is the truth. A change that it does not take has no effect, now or after a restart:

- To create a topic, or partitions, the catalogue makes the directories and then writes the file. A start removes
  directories without records that the file does not have: a change that was not finished has left them.
- To delete a topic, the catalogue takes it out of the file, which keeps its id. With that the topic is deleted.
  Then its directories are removed. A start, or a new topic of that name, removes what the disk keeps.
- Properties act when the file has them.

All of that is done in steps, with other requests in between: clients see a topic while the file has it, and its
name is taken from the first step to the last.
A directory with records that the file does not have (of a real broker) becomes a topic, with the partitions and
properties that the broker's copy of the cluster metadata gives it. Where that says nothing of it, the topic keeps
every record: its retention is not known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from coordinator.config.topic_configs import TopicDefaults
from coordinator.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.topics.catalogue_file import CatalogueFile, CatalogueState, TopicEntry
from coordinator.topics.cluster_partition import ClusterRecords
from coordinator.topics.config import TopicsConfig
from coordinator.topics.found_topics import FoundTopics
from coordinator.topics.group_configs import GroupConfigs
from coordinator.topics.metric_names import MetricNames
from coordinator.topics.new_partitions import NewPartitions, open_each
from coordinator.topics.open_files import OpenFiles
from coordinator.topics.partition import HostedPartition, InternalPartition, Partition
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Work, taken
from coordinator.topics.topic import Created, Grown, NewTopic, Topic
from protocol.errors import ErrorCode
from storage.data_directory import DataDirectory
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.producers.log_producers import LogProducers
from storage.topic_partition import TopicPartition

ChangeOverrides = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Makes a topic's new overrides from the present ones; raises Refusal. Another thread calls it."""


class Catalogue:
    """All topics, by name and by id."""

    def __init__(
        self,
        directory: DataDirectory,
        config: TopicsConfig,
        new_id: Callable[[], bytes],
        records: ClusterRecords | None = None,
    ) -> None:
        """In: an open data directory; where ids of new topics come from; who has the records of topics with
        replicas, in a cluster. `load` comes next."""
        self.defaults = TopicDefaults(config.broker_properties)
        self.internal_partitions: dict[str, int] = {}
        """How many partitions the cluster of a directory that is taken over has for its coordinators, by topic."""
        self.file = CatalogueFile(directory.write_catalogue)
        self._directory = directory
        self._config = config
        self.new_id = new_id
        self.open_files = OpenFiles(config.max_open_files, config.open_files_reserved)
        self._partitions = NewPartitions(directory, config, self.open_files, records)
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self.metric_names = MetricNames()
        self._new: dict[str, Topic] = {}
        """Topics that are being made, and that nobody sees yet."""
        self._added: dict[str, list[HostedPartition]] = {}
        """Partitions by which topics grow just now; none while those of a refused growth are removed."""
        self._going: set[str] = set()
        """Names of topics that are being deleted."""
        self._configured: list[str] = []
        """Names of topics that are being configured, once for each request."""
        self.group_configs = GroupConfigs(self.file)
        self._removed: set[bytes] = set()
        """Ids of deleted topics of which nothing is left. The file may name them until it is next written."""
        self.left: set[TopicPartition] = set()
        """Partitions that could not be removed: with them there is no clean stop."""
        self.not_removed: OSError | None = None  # why `load` could not finish deletions
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

    # Loading and saving

    def load(self) -> None:
        """Reads the file, opens every log, and finishes deletions as far as the disk allows it; `save` is to come
        next.

        A log that cannot be opened leaves its partition offline. Raises DamagedFile for a file that makes no sense,
        InvalidConfig for a property it cannot hold, OSError."""
        found = FoundTopics(self._directory, self.defaults, self.new_id)
        found.look()
        deleted: Mapping[bytes, str] = {}
        if found.remains:
            try:
                self._directory.delete_logs(dict.fromkeys(found.remains))
            except OSError as error:
                # Starting needs no space. The file goes on naming them, for the next start.
                deleted, self.not_removed = found.deleted, error
        self.internal_partitions, self.adopted = found.internal_partitions, found.adopted
        of_groups = found.internal_directories[CONSUMER_OFFSETS] or self._config.offsets_topic_num_partitions
        # Transactions get their partitions when somebody has one.
        of_transactions = found.internal_directories[TRANSACTION_STATE]
        for name, count in ((CONSUMER_OFFSETS, of_groups), (TRANSACTION_STATE, of_transactions)):
            self.open_files.keep_for_coordinators(max(count, found.internal_partitions.get(name, 0)))
        topics = {
            name: TopicEntry(
                found.ids[name], count, found.configs[name], found.replication_factors.get(name, 1)
            )
            for name, count in found.counts.items()
        }
        self.file.state = CatalogueState(topics, deleted, found.producer_ids_reserved, found.group_configs)
        for name, entry in topics.items():
            self._put(name, entry)

    def save(self) -> None:
        """Writes the file, atomically and durably. Raises OSError."""
        self.file.save()

    @property
    def producer_ids_reserved(self) -> int:
        """Ids of producers below this one may have been given out."""
        return self.file.state.producer_ids_reserved

    def reserving_producer_ids(self, count: int) -> Work[int]:
        """Reserves ids of producers, in a step; the first one after them. Raises OSError, StorageError: then it has
        reserved none."""

        def reserve(state: CatalogueState) -> CatalogueState:
            return state._replace(producer_ids_reserved=state.producer_ids_reserved + count)

        return (yield from self.file.changing(reserve)).producer_ids_reserved

    # Changing

    def is_changing(self, name: str) -> bool:
        """Whether the topic of that name is being created, configured or deleted."""
        return name in self._new or name in self._going or name in self._configured

    def create(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """A new topic with a name that is legal and free, and valid overrides.

        Raises Refusal; OSError or StorageError when the disk refuses. The topic then does not exist.
        """
        created = taken(self.creating([NewTopic(name, partitions, overrides)]))[name]
        if isinstance(created, Exception):
            raise created
        return created

    def creating(self, wanted: Sequence[NewTopic]) -> Work[Created]:
        """New topics, in steps, with one write of the file: by name what each became, or why it is not there.

        In: legal names, each once; valid overrides. A topic is there for others when the file has it.
        """
        topics = []
        for new in wanted:
            topic = Topic(
                new.name,
                new.topic_id or self.new_id(),
                dict(new.overrides),
                self.defaults.parse(new.overrides),
                [],
                replication_factor=new.replication_factor,
            )
            yield from self._partitions.add(topic, topic.hosted, 0, new.partitions)
            topics.append(topic)
        results: Created = {}
        opened: list[Topic] = []
        for topic in topics:
            try:
                self._reserve(topic)
            except Refusal as refusal:
                results[topic.name] = refusal
        for topic in [topic for topic in topics if topic.name not in results]:
            try:
                yield from self._open_new(topic, topic.hosted, self._left_of_deleted(topic.name))
            except (OSError, StorageError) as error:
                results[topic.name] = error
                yield from self._undo(topic)
            else:
                opened.append(topic)
        if not opened:
            return results
        entries = {topic.name: _entry(topic) for topic in opened}
        try:
            yield from self._change(lambda state: state.with_new_topics(entries))
        except (OSError, StorageError) as error:
            for topic in opened:
                results[topic.name] = error
                yield from self._undo(topic)
            return results
        for topic in opened:
            results[topic.name] = topic
            del self._new[topic.name]
            self._by_name[topic.name] = topic
            self._by_id[topic.topic_id] = topic
        return results

    def _change(self, change: Callable[[CatalogueState], CatalogueState]) -> Work[CatalogueState]:
        """As `CatalogueFile.changing`; the file forgets deleted topics whose directories are removed."""
        removed_ids = frozenset(self._removed)
        state = yield from self.file.changing(lambda before: change(before.without_deleted(removed_ids)))
        self._removed -= removed_ids
        return state

    def _reserve(self, topic: Topic) -> None:
        """Nobody else makes a topic of that name, and there are descriptors for it. Raises Refusal."""
        name = topic.name
        if name in self._going or (name in self._added and name not in self._by_name):
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        if name in self._by_name or name in self._new:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        self.open_files.promise(len(topic.hosted))
        self._new[name] = topic
        self.metric_names.add(name)

    def _left_of_deleted(self, name: str) -> list[TopicPartition]:
        """Directories that deleted topics of a name may have left. Raises OSError."""
        if all(name != deleted or key in self._removed for key, deleted in self.file.state.deleted.items()):
            return []
        return [partition for partition in self._directory.partitions() if partition.topic == name]

    def _open_new(
        self, topic: Topic, partitions: Sequence[HostedPartition], left: Sequence[TopicPartition] = ()
    ) -> Work[None]:
        """Makes the directories and logs of new partitions. In: directories of deleted topics of that name. Raises
        OSError, StorageError."""
        names = list(dict.fromkeys([*(partition.name for partition in partitions), *left]))
        yield from self._directory.clear_for(names, topic.topic_id)
        self.left -= set(names)
        yield from open_each(partitions)

    def _undo(self, topic: Topic) -> Work[None]:
        """Removes the directories of a topic whose creation was refused."""
        yield from self._remove(topic.hosted)
        del self._new[topic.name]
        self.metric_names.forget(topic.name)

    def growing(self, wanted: Mapping[Topic, int]) -> Work[Grown]:
        """Adds partitions until topics have so many, in steps, with one write of the file for all. Out: by name why
        a topic has what it had; None for one that has grown.

        Others see new partitions when the file has them.
        """
        lists: dict[Topic, list[HostedPartition]] = {topic: [] for topic in wanted}
        for topic, partitions in wanted.items():
            yield from self._partitions.add(topic, lists[topic], len(topic.hosted), partitions)
        results: Grown = {}
        for topic, added in lists.items():
            try:
                self._reserve_more(topic, added)
            except Refusal as refusal:
                results[topic.name] = refusal
        opened: dict[Topic, list[HostedPartition]] = {}
        for topic in [topic for topic in lists if topic.name not in results]:
            try:
                yield from self._open_new(topic, lists[topic])
            except (OSError, StorageError) as error:
                results[topic.name] = yield from self._undo_growth(topic, lists[topic], error)
            else:
                opened[topic] = lists[topic]
        if not opened:
            return results
        counts = {topic: len(topic.hosted) + len(added) for topic, added in opened.items()}
        try:
            state = yield from self._change(lambda before: _grown(before, counts))
        except (OSError, StorageError) as error:
            for topic, added in opened.items():
                results[topic.name] = yield from self._undo_growth(topic, added, error)
            return results
        for topic, added in opened.items():
            if state.has(topic.name, topic.topic_id) and self._added.get(topic.name) is added:
                topic.hosted += self._added.pop(topic.name)
                results[topic.name] = None
            else:  # it was deleted meanwhile
                results[topic.name] = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return results

    def _reserve_more(self, topic: Topic, added: list[HostedPartition]) -> None:
        """Nobody else lets that topic grow, and there are descriptors for it. Raises Refusal."""
        name = topic.name
        if self._by_name.get(name) is not topic or name in self._going:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name in self._added or not added or len(topic.hosted) != added[0].name.partition:
            raise Refusal(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"Topic '{name}' is growing already.")
        self.open_files.promise(len(added))
        self._added[name] = added

    def _undo_growth(
        self, topic: Topic, added: list[HostedPartition], why: OSError | StorageError
    ) -> Work[Refusal | OSError | StorageError]:
        """Removes partitions by which a topic does not grow; the reason for the client. One that was deleted
        meanwhile went together with them."""
        if self._added.get(topic.name) is not added:
            return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._added[topic.name] = []
        yield from self._remove(added)
        del self._added[topic.name]
        return why

    def deleting(self, topics: Sequence[Topic]) -> Work[tuple[list[Topic], OSError | None]]:
        """Deletes topics and their records, in steps. The deletion is done when the file has them no more.

        Out: the deleted topics, without those that another request deletes; why directories of theirs are left.
        Raises OSError, StorageError: then all of them are as they were."""
        going = [topic for topic in topics if topic.name not in self._going]
        self._going |= {topic.name for topic in going}
        try:
            yield from self._change(
                lambda state: state.without_topics(
                    topic.name for topic in going if state.has(topic.name, topic.topic_id)
                )
            )
            parts: list[HostedPartition] = []
            for topic in going:
                del self._by_name[topic.name]
                del self._by_id[topic.topic_id]
                self.metric_names.forget(topic.name)
                parts += topic.hosted
                if self._added.get(topic.name):
                    parts += self._added.pop(topic.name)
            problem = yield from self._remove(parts)
            if problem is None:
                self._removed |= {topic.topic_id for topic in going}
        finally:
            self._going -= {topic.name for topic in going}
        return going, problem

    def _remove(self, parts: Sequence[HostedPartition]) -> Work[OSError | None]:
        """Closes logs and removes their directories, which needs no space on the disk. Out: the reason where the
        disk keeps some. A start, or new partitions of these names, remove those."""
        self.open_files.gone(len(parts))
        for part in parts:
            part.let_go()
            if part.log is not None:
                yield None
        logs = {part.name: part.log for part in parts}
        # Until they are known to be gone: a stop meanwhile is not a clean one.
        self.left |= {name for name, log in logs.items() if log is not None}
        failures = yield from self._directory.deleting_logs(logs)
        self.left -= logs.keys() - failures.keys()
        return next(iter(failures.values()), None)

    def configuring(self, topic: Topic, change: ChangeOverrides) -> Work[bool]:
        """Changes a topic's overrides, in steps; whether they are others now. Its logs obey when the file has them.
        Raises Refusal, OSError, StorageError: then nothing has changed."""
        name = topic.name

        def changed(state: CatalogueState) -> CatalogueState:
            if not state.has(name, topic.topic_id):
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            entry = state.topics[name]
            return state.with_topics({name: entry._replace(configs=change(entry.configs))})

        self._configured.append(name)
        try:
            yield from self._change(changed)
        finally:
            self._configured.remove(name)
        entry = self.file.state.topics.get(name)
        if entry is None or entry.topic_id != topic.topic_id or entry.configs == topic.overrides:
            return False
        topic.overrides, topic.values = dict(entry.configs), self.defaults.parse(entry.configs)
        for part in (*topic.hosted, *self._added.get(name, ())):
            if part.log is not None:
                part.log.config = topic.values.log
        return True

    def attach(
        self,
        name: str,
        topic_id: bytes,
        overrides: Mapping[str, str],
        partitions: int,
        log: Callable[[int], PartitionLog | None],
        high_watermark: Callable[[int], int],
        producers: Callable[[int], LogProducers | None],
    ) -> Topic:
        """Makes a topic visible whose logs another part of the server owns; it is not written to the file."""
        assert name not in self._by_name, name
        readable = [
            InternalPartition(TopicPartition(name, n), log, high_watermark, producers)
            for n in range(partitions)
        ]
        topic = Topic(name, topic_id, dict(overrides), self.defaults.parse(overrides), [], readable)
        self._index(topic)
        return topic

    def hosted(self) -> Iterator[HostedPartition]:
        """Every partition whose log is owned here, and those that are being made."""
        for topics in (self._by_name, self._new):
            for topic in topics.values():
                yield from topic.hosted
        for added in self._added.values():
            yield from added

    def _put(self, name: str, entry: TopicEntry) -> None:
        topic = Topic(
            name,
            entry.topic_id,
            dict(entry.configs),
            self.defaults.parse(entry.configs),
            [],
            replication_factor=entry.replication_factor,
        )
        for _ in self._partitions.add(topic, topic.hosted, 0, entry.partitions):
            pass
        self._index(topic)
        self.open_files.promised += entry.partitions
        for part in topic.hosted:
            part.open()

    def _index(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.metric_names.add(topic.name)


def _entry(topic: Topic) -> TopicEntry:
    return TopicEntry(topic.topic_id, len(topic.hosted), dict(topic.overrides), topic.replication_factor)


def _grown(state: CatalogueState, counts: Mapping[Topic, int]) -> CatalogueState:
    """With so many partitions of topics, as far as they are there."""
    return state.with_topics(
        {
            topic.name: state.topics[topic.name]._replace(partitions=count)
            for topic, count in counts.items()
            if state.has(topic.name, topic.topic_id)
        }
    )
