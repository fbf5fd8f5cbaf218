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
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.topics.api_error import ApiError
from coordinator.topics.catalogue_file import CatalogueFile, CatalogueState, GroupConfigs, TopicEntry
from coordinator.topics.cluster_partition import ClusterRecords
from coordinator.topics.data_plane_config import DataPlaneConfig
from coordinator.topics.open_files import OpenFileLimit
from coordinator.topics.partition import HostedPartition, InternalPartition, ReadablePartition
from coordinator.topics.stepwise_work import StepGenerator, run_steps
from coordinator.topics.topic import (
    CreatedTopics,
    GrownTopics,
    NewTopicSpec,
    PartitionFactory,
    Topic,
    open_partitions,
)
from coordinator.topics.topic_discovery import TopicDiscovery
from coordinator.topics.topic_name import MetricNameRegistry
from protocol.error_codes import ErrorCode
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.producers.producer_state_manager import ProducerStateManager
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

ChangeOverrides = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Makes a topic's new overrides from the present ones; raises ApiError. Another thread calls it."""


class Catalogue:
    """All topics, by name and by id."""

    def __init__(
        self,
        directory: DataDirectory,
        config: DataPlaneConfig,
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
        self.open_files = OpenFileLimit(config.max_open_files, config.open_files_reserved)
        self._partitions = PartitionFactory(directory, config, self.open_files, records)
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self.metric_names = MetricNameRegistry()
        self._creating: dict[str, Topic] = {}
        """Topics that are being made, and that nobody sees yet."""
        self._growing: dict[str, list[HostedPartition]] = {}
        """Partitions by which topics grow just now; none while those of a refused growth are removed."""
        self._deleting: set[str] = set()
        """Names of topics that are being deleted."""
        self._configuring: list[str] = []
        """Names of topics that are being configured, once for each request."""
        self.group_configs = GroupConfigs(self.file)
        self._removed_ids: set[bytes] = set()
        """Ids of deleted topics of which nothing is left. The file may name them until it is next written."""
        self.undeleted_partitions: set[TopicPartition] = set()
        """Partitions that could not be removed: with them there is no clean stop."""
        self.removal_error: OSError | None = None  # why `load` could not finish deletions
        self.adoption_messages: list[str] = []
        """What `load` made of directories that the file did not know, a line for each topic."""

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Topic]:
        """In order of name."""
        return iter(sorted(self._by_name.values(), key=lambda topic: topic.name))

    def listed(self) -> list[Topic]:
        """Return the topics that requests for all topics get, in order of name."""
        return [topic for topic in self if topic.is_listed]

    def find_topic(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._by_name.get(name)

    def find_topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of that id (16 bytes)."""
        return self._by_id.get(topic_id)

    def find_partition(self, name: str, number: int) -> ReadablePartition | None:
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
        found = TopicDiscovery(self._directory, self.defaults, self.new_id)
        found.discover()
        deleted: Mapping[bytes, str] = {}
        if found.leftovers:
            try:
                self._directory.delete_logs(dict.fromkeys(found.leftovers))
            except OSError as error:
                # Starting needs no space. The file goes on naming them, for the next start.
                deleted, self.removal_error = found.deleted, error
        self.internal_partitions, self.adoption_messages = found.internal_partitions, found.adoption_messages
        of_groups = found.internal_directories[CONSUMER_OFFSETS] or self._config.offsets_topic_num_partitions
        # Transactions get their partitions when somebody has one.
        of_transactions = found.internal_directories[TRANSACTION_STATE]
        for name, count in ((CONSUMER_OFFSETS, of_groups), (TRANSACTION_STATE, of_transactions)):
            self.open_files.reserve_for_coordinators(max(count, found.internal_partitions.get(name, 0)))
        topics = {
            name: TopicEntry(
                found.ids[name], count, found.configs[name], found.replication_factors.get(name, 1)
            )
            for name, count in found.counts.items()
        }
        self.file.state = CatalogueState(topics, deleted, found.producer_ids_reserved, found.group_configs)
        for name, entry in topics.items():
            self._load_topic(name, entry)

    def save(self) -> None:
        """Writes the file, atomically and durably. Raises OSError."""
        self.file.save()

    @property
    def producer_ids_reserved(self) -> int:
        """Ids of producers below this one may have been given out."""
        return self.file.state.producer_ids_reserved

    def reserve_producer_ids(self, count: int) -> StepGenerator[int]:
        """Reserves ids of producers, in a step; the first one after them. Raises OSError, StorageError: then it has
        reserved none."""

        def reserve(state: CatalogueState) -> CatalogueState:
            return state._replace(producer_ids_reserved=state.producer_ids_reserved + count)

        return (yield from self.file.change_state(reserve)).producer_ids_reserved

    # Changing

    def is_changing(self, name: str) -> bool:
        """Whether the topic of that name is being created, configured or deleted."""
        return name in self._creating or name in self._deleting or name in self._configuring

    def create_topic(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """A new topic with a name that is legal and free, and valid overrides.

        Raises ApiError; OSError or StorageError when the disk refuses. The topic then does not exist.
        """
        created = run_steps(self.create_topics([NewTopicSpec(name, partitions, overrides)]))[name]
        if isinstance(created, Exception):
            raise created
        return created

    def create_topics(self, wanted: Sequence[NewTopicSpec]) -> StepGenerator[CreatedTopics]:
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
            yield from self._partitions.add_partitions(topic, topic.hosted, 0, new.partitions)
            topics.append(topic)
        results: CreatedTopics = {}
        opened: list[Topic] = []
        for topic in topics:
            try:
                self._reserve_topic(topic)
            except ApiError as refusal:
                results[topic.name] = refusal
        for topic in [topic for topic in topics if topic.name not in results]:
            try:
                yield from self._open_partitions(
                    topic, topic.hosted, self._find_leftover_directories(topic.name)
                )
            except (OSError, StorageError) as error:
                results[topic.name] = error
                yield from self._undo_creation(topic)
            else:
                opened.append(topic)
        if not opened:
            return results
        entries = {topic.name: _build_entry(topic) for topic in opened}
        try:
            yield from self._change_file(lambda state: state.with_new_topics(entries))
        except (OSError, StorageError) as error:
            for topic in opened:
                results[topic.name] = error
                yield from self._undo_creation(topic)
            return results
        for topic in opened:
            results[topic.name] = topic
            del self._creating[topic.name]
            self._by_name[topic.name] = topic
            self._by_id[topic.topic_id] = topic
        return results

    def _change_file(
        self, change: Callable[[CatalogueState], CatalogueState]
    ) -> StepGenerator[CatalogueState]:
        """Change the state of the file. It forgets deleted topics whose directories are removed."""
        removed_ids = frozenset(self._removed_ids)
        state = yield from self.file.change_state(lambda before: change(before.without_deleted(removed_ids)))
        self._removed_ids -= removed_ids
        return state

    def _reserve_topic(self, topic: Topic) -> None:
        """Nobody else makes a topic of that name, and there are descriptors for it. Raises ApiError."""
        name = topic.name
        if name in self._deleting or (name in self._growing and name not in self._by_name):
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        if name in self._by_name or name in self._creating:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        self.open_files.reserve_partitions(len(topic.hosted))
        self._creating[name] = topic
        self.metric_names.add_topic(name)

    def _find_leftover_directories(self, name: str) -> list[TopicPartition]:
        """Directories that deleted topics of a name may have left. Raises OSError."""
        if all(
            name != deleted or key in self._removed_ids for key, deleted in self.file.state.deleted.items()
        ):
            return []
        return [partition for partition in self._directory.list_partitions() if partition.topic == name]

    def _open_partitions(
        self, topic: Topic, partitions: Sequence[HostedPartition], left: Sequence[TopicPartition] = ()
    ) -> StepGenerator[None]:
        """Makes the directories and logs of new partitions. In: directories of deleted topics of that name. Raises
        OSError, StorageError."""
        names = list(dict.fromkeys([*(partition.name for partition in partitions), *left]))
        yield from self._directory.remove_former_topics(names, topic.topic_id)
        self.undeleted_partitions -= set(names)
        yield from open_partitions(partitions)

    def _undo_creation(self, topic: Topic) -> StepGenerator[None]:
        """Removes the directories of a topic whose creation was refused."""
        yield from self._remove_partitions(topic.hosted)
        del self._creating[topic.name]
        self.metric_names.remove_topic(topic.name)

    def grow_topics(self, wanted: Mapping[Topic, int]) -> StepGenerator[GrownTopics]:
        """Adds partitions until topics have so many, in steps, with one write of the file for all. Out: by name why
        a topic has what it had; None for one that has grown.

        Others see new partitions when the file has them.
        """
        lists: dict[Topic, list[HostedPartition]] = {topic: [] for topic in wanted}
        for topic, partitions in wanted.items():
            yield from self._partitions.add_partitions(topic, lists[topic], len(topic.hosted), partitions)
        results: GrownTopics = {}
        for topic, added in lists.items():
            try:
                self._reserve_growth(topic, added)
            except ApiError as refusal:
                results[topic.name] = refusal
        opened: dict[Topic, list[HostedPartition]] = {}
        for topic in [topic for topic in lists if topic.name not in results]:
            try:
                yield from self._open_partitions(topic, lists[topic])
            except (OSError, StorageError) as error:
                results[topic.name] = yield from self._undo_growth(topic, lists[topic], error)
            else:
                opened[topic] = lists[topic]
        if not opened:
            return results
        counts = {topic: len(topic.hosted) + len(added) for topic, added in opened.items()}
        try:
            state = yield from self._change_file(lambda before: _apply_growth(before, counts))
        except (OSError, StorageError) as error:
            for topic, added in opened.items():
                results[topic.name] = yield from self._undo_growth(topic, added, error)
            return results
        for topic, added in opened.items():
            if state.has_topic(topic.name, topic.topic_id) and self._growing.get(topic.name) is added:
                topic.hosted += self._growing.pop(topic.name)
                results[topic.name] = None
            else:  # it was deleted meanwhile
                results[topic.name] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return results

    def _reserve_growth(self, topic: Topic, added: list[HostedPartition]) -> None:
        """Nobody else lets that topic grow, and there are descriptors for it. Raises ApiError."""
        name = topic.name
        if self._by_name.get(name) is not topic or name in self._deleting:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name in self._growing or not added or len(topic.hosted) != added[0].name.partition:
            raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"Topic '{name}' is growing already.")
        self.open_files.reserve_partitions(len(added))
        self._growing[name] = added

    def _undo_growth(
        self, topic: Topic, added: list[HostedPartition], error: OSError | StorageError
    ) -> StepGenerator[ApiError | OSError | StorageError]:
        """Removes partitions by which a topic does not grow; the reason for the client. One that was deleted
        meanwhile went together with them."""
        if self._growing.get(topic.name) is not added:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._growing[topic.name] = []
        yield from self._remove_partitions(added)
        del self._growing[topic.name]
        return error

    def delete_topics(self, topics: Sequence[Topic]) -> StepGenerator[tuple[list[Topic], OSError | None]]:
        """Deletes topics and their records, in steps. The deletion is done when the file has them no more.

        Out: the deleted topics, without those that another request deletes; why directories of theirs are left.
        Raises OSError, StorageError: then all of them are as they were."""
        going = [topic for topic in topics if topic.name not in self._deleting]
        self._deleting |= {topic.name for topic in going}
        try:
            yield from self._change_file(
                lambda state: state.without_topics(
                    topic.name for topic in going if state.has_topic(topic.name, topic.topic_id)
                )
            )
            parts: list[HostedPartition] = []
            for topic in going:
                del self._by_name[topic.name]
                del self._by_id[topic.topic_id]
                self.metric_names.remove_topic(topic.name)
                parts += topic.hosted
                if self._growing.get(topic.name):
                    parts += self._growing.pop(topic.name)
            problem = yield from self._remove_partitions(parts)
            if problem is None:
                self._removed_ids |= {topic.topic_id for topic in going}
        finally:
            self._deleting -= {topic.name for topic in going}
        return going, problem

    def _remove_partitions(self, parts: Sequence[HostedPartition]) -> StepGenerator[OSError | None]:
        """Closes logs and removes their directories, which needs no space on the disk. Out: the reason where the
        disk keeps some. A start, or new partitions of these names, remove those."""
        self.open_files.release_partitions(len(parts))
        for part in parts:
            part.close_for_deletion()
            if part.log is not None:
                yield None
        logs = {part.name: part.log for part in parts}
        # Until they are known to be gone: a stop meanwhile is not a clean one.
        self.undeleted_partitions |= {name for name, log in logs.items() if log is not None}
        failures = yield from self._directory.delete_logs_stepwise(logs)
        self.undeleted_partitions -= logs.keys() - failures.keys()
        return next(iter(failures.values()), None)

    def configure_topic(self, topic: Topic, change: ChangeOverrides) -> StepGenerator[bool]:
        """Changes a topic's overrides, in steps; whether they are others now. Its logs obey when the file has them.
        Raises ApiError, OSError, StorageError: then nothing has changed."""
        name = topic.name

        def change_entry(state: CatalogueState) -> CatalogueState:
            if not state.has_topic(name, topic.topic_id):
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            entry = state.topics[name]
            return state.with_topics({name: entry._replace(configs=change(entry.configs))})

        self._configuring.append(name)
        try:
            yield from self._change_file(change_entry)
        finally:
            self._configuring.remove(name)
        entry = self.file.state.topics.get(name)
        if entry is None or entry.topic_id != topic.topic_id or entry.configs == topic.overrides:
            return False
        topic.overrides, topic.values = dict(entry.configs), self.defaults.parse(entry.configs)
        for part in (*topic.hosted, *self._growing.get(name, ())):
            if part.log is not None:
                part.log.config = topic.values.log
        return True

    def attach_topic(
        self,
        name: str,
        topic_id: bytes,
        overrides: Mapping[str, str],
        partitions: int,
        log: Callable[[int], PartitionLog | None],
        high_watermark: Callable[[int], int],
        producers: Callable[[int], ProducerStateManager | None],
    ) -> Topic:
        """Makes a topic visible whose logs another part of the server owns; it is not written to the file."""
        assert name not in self._by_name, name
        readable = [
            InternalPartition(TopicPartition(name, n), log, high_watermark, producers)
            for n in range(partitions)
        ]
        topic = Topic(name, topic_id, dict(overrides), self.defaults.parse(overrides), [], readable)
        self._index_topic(topic)
        return topic

    def iterate_hosted(self) -> Iterator[HostedPartition]:
        """Every partition whose log is owned here, and those that are being made."""
        for topics in (self._by_name, self._creating):
            for topic in topics.values():
                yield from topic.hosted
        for added in self._growing.values():
            yield from added

    def _load_topic(self, name: str, entry: TopicEntry) -> None:
        topic = Topic(
            name,
            entry.topic_id,
            dict(entry.configs),
            self.defaults.parse(entry.configs),
            [],
            replication_factor=entry.replication_factor,
        )
        for _ in self._partitions.add_partitions(topic, topic.hosted, 0, entry.partitions):
            pass
        self._index_topic(topic)
        self.open_files.reserved += entry.partitions
        for part in topic.hosted:
            part.open()

    def _index_topic(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.metric_names.add_topic(topic.name)


def _build_entry(topic: Topic) -> TopicEntry:
    return TopicEntry(topic.topic_id, len(topic.hosted), dict(topic.overrides), topic.replication_factor)


def _apply_growth(state: CatalogueState, counts: Mapping[Topic, int]) -> CatalogueState:
    """With so many partitions of topics, as far as they are there."""
    return state.with_topics(
        {
            topic.name: state.topics[topic.name]._replace(partitions=count)
            for topic, count in counts.items()
            if state.has_topic(topic.name, topic.topic_id)
        }
    )
