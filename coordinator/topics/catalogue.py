"""The topics with their names, ids, partitions and properties, in one small file beside the logs.

The file decides. A change that cannot be written to it has no effect, now or after a restart:

- To create a topic, or partitions, the catalogue makes the directories and then writes the file. A start removes
  directories without records that the file does not list, because an unfinished change has left them.
- To delete a topic, the catalogue takes it out of the file, which keeps its id. This write deletes the
  topic. Then its directories are removed. If that fails, the next start or a new topic of that name removes them.
- Properties take effect after the write of the file.

Other requests run during each await: clients see a topic while the file has it, and its name is reserved from the
validation of the request to the end of the change.
A directory with records that the file does not list (of a Kafka broker) becomes a topic, with the partitions and
properties from the broker's copy of the cluster metadata. If that does not list the topic either, the topic keeps
all records, because its retention is unknown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from coordinator.config.topic_configs import TopicDefaults
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.core.time_budget import run_in_one_step
from coordinator.topics.api_error import ApiError
from coordinator.topics.catalogue_file import CatalogueFile, CatalogueState, GroupConfigs, TopicEntry
from coordinator.topics.cluster_partition import ClusterRecords
from coordinator.topics.data_plane_config import DataPlaneConfig
from coordinator.topics.long_work import IN_ONE_STEP, LongWork, run_directory_steps
from coordinator.topics.open_files import OpenFileLimit
from coordinator.topics.partition import HostedPartition, InternalPartition, ReadablePartition
from coordinator.topics.topic import (
    CreatedTopics,
    GrownTopics,
    NewTopicSpec,
    PartitionFactory,
    Topic,
    TopicGrowth,
)
from coordinator.topics.topic_discovery import TopicDiscovery
from coordinator.topics.topic_name import MetricNameRegistry
from protocol.error_codes import ErrorCode
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.producers.producer_state_manager import ProducerStateManager
from storage.storage_errors import FileClosed, StorageError
from storage.topic_partition import TopicPartition

ChangeOverrides = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Compute the new overrides of a topic from the current ones. Raises ApiError. Called in another thread."""


class Catalogue:
    """All topics, by name and by id."""

    def __init__(
        self,
        directory: DataDirectory,
        config: DataPlaneConfig,
        new_id: Callable[[], bytes],
        records: ClusterRecords | None = None,
    ) -> None:
        """Create an empty catalogue; call `load` next.

        Args:
            directory: an open data directory.
            config: the configuration.
            new_id: returns a new topic id.
            records: stores the records of replicated topics in a cluster.
        """
        self.defaults = TopicDefaults(config.broker_properties)
        self.internal_partitions: dict[str, int] = {}
        """The number of partitions by internal topic in the cluster of an adopted directory."""
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
        """Topics that are being created and are not visible yet."""
        self._growing: dict[str, TopicGrowth] = {}
        """The topics that are getting new partitions, by name."""
        self._deleting: set[str] = set()
        """Names of topics that are being deleted."""
        self._configuring: list[str] = []
        """Names of topics with a config change in progress, once for each request."""
        self.group_configs = GroupConfigs(self.file)
        self._removed_ids: set[bytes] = set()
        """Ids of fully removed topics. The file may list them until it is next written."""
        self.unassign_replicas: Callable[[TopicPartition], object] = lambda partition: None
        """Revoke the assignment of a reserved partition that is not created after all."""
        self.undeleted_partitions: set[TopicPartition] = set()
        """Partitions with directories that could not be removed. They prevent a clean shutdown."""
        self.removal_error: OSError | None = None  # the reason why `load` could not finish deletions
        self.adoption_messages: list[str] = []
        """A log line for each topic that `load` created from directories that the file did not list."""

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Topic]:
        """Iterate in order of name."""
        return iter(sorted(self._by_name.values(), key=lambda topic: topic.name))

    def listed(self) -> list[Topic]:
        """Return the topics that requests for all topics get, in order of name."""
        return [topic for topic in self if topic.is_listed]

    def find_topic(self, name: str) -> Topic | None:
        """Return the topic of that name."""
        return self._by_name.get(name)

    def find_topic_by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with that id (16 bytes)."""
        return self._by_id.get(topic_id)

    def find_partition(self, name: str, number: int) -> ReadablePartition | None:
        """Return a partition by topic name and number."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]

    # Loading and saving

    def load(self) -> None:
        """Read the file, open every log, and finish deletions as far as the disk allows. Call `save` next.

        A log that cannot be opened leaves its partition offline.

        Raises:
            DamagedFile: the file is malformed.
            InvalidConfig: a property has an invalid value.
            OSError: the disk failed.
        """
        found = TopicDiscovery(self._directory, self.defaults, self.new_id)
        found.discover()
        deleted: Mapping[bytes, str] = {}
        if found.leftovers:
            try:
                self._directory.delete_logs(dict.fromkeys(found.leftovers))
            except OSError as error:
                # A start must not need disk space. The file lists the deleted topics until the next start.
                deleted, self.removal_error = found.deleted, error
        self.internal_partitions, self.adoption_messages = found.internal_partitions, found.adoption_messages
        of_groups = found.internal_directories[CONSUMER_OFFSETS] or self._config.offsets_topic_num_partitions
        # The first transaction creates the partitions of the transaction log.
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
        """Write the file atomically and durably.

        Raises:
            OSError: the disk failed.
        """
        self.file.save()

    @property
    def producer_ids_reserved(self) -> int:
        """Producer ids below this one may be in use."""
        return self.file.state.producer_ids_reserved

    async def reserve_producer_ids(self, work: LongWork, first: int, count: int) -> int:
        """Reserve producer ids, unless a higher block is reserved already. Return the first unreserved id.

        Raises:
            OSError, StorageError: the disk failed; nothing is reserved.
        """

        def reserve(state: CatalogueState) -> CatalogueState:
            if state.producer_ids_reserved != first:
                return state
            return state._replace(producer_ids_reserved=first + count)

        return (await self.file.change_state(work, reserve)).producer_ids_reserved

    # Changes

    def is_changing(self, name: str) -> bool:
        """Return whether the topic of that name is being created, configured or deleted."""
        return name in self._creating or name in self._deleting or name in self._configuring

    def create_topic(self, name: str, partitions: int, overrides: Mapping[str, str]) -> Topic:
        """Create a topic with a legal, unused name and valid overrides. Blocks; only for the start of a daemon.

        Raises:
            ApiError: the topic cannot be created.
            OSError, StorageError: the disk failed; the topic does not exist.
        """
        new = NewTopicSpec(name, partitions, overrides)
        created = run_in_one_step(self.create_topics(IN_ONE_STEP, [new]))[name]
        if isinstance(created, Exception):
            raise created
        return created

    async def create_topics(self, work: LongWork, wanted: Sequence[NewTopicSpec]) -> CreatedTopics:
        """Reserve and create topics. Return by name each new topic or the reason for its failure.

        Names must be legal and distinct, overrides valid.
        """
        results: CreatedTopics = {}
        reserved: dict[Topic, int] = {}
        for new in wanted:
            try:
                reserved[self.reserve_topic(new)] = new.partitions
            except ApiError as refusal:
                results[new.name] = refusal
            await work.checkpoint()
        return results | await self.create_reserved(work, reserved)

    def reserve_topic(self, new: NewTopicSpec) -> Topic:
        """Reserve the name of a new topic and descriptors for its partitions. Clients see the topic only after
        `create_reserved`, which the caller must call in any case.

        Raises:
            ApiError: the topic cannot be created.
        """
        name = new.name
        if name in self._deleting or (name in self._growing and name not in self._by_name):
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        if name in self._by_name or name in self._creating:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        self.open_files.reserve_partitions(new.partitions)
        topic = Topic(
            name,
            new.topic_id or self.new_id(),
            dict(new.overrides),
            self.defaults.parse(new.overrides),
            [],
            replication_factor=new.replication_factor,
        )
        self._creating[name] = topic
        self.metric_names.add_topic(name)
        return topic

    async def create_reserved(self, work: LongWork, reserved: Mapping[Topic, int]) -> CreatedTopics:
        """Create the topics with reserved names and their partitions, with one write of the file. Topics become
        visible with that write. Return by name each new topic or the reason for its failure.
        """
        results: CreatedTopics = {}
        opened: list[Topic] = []
        for topic, partitions in reserved.items():
            try:
                await self._remove_leftovers(work, topic, partitions)
                for number in range(partitions):
                    self._open_partition(topic, number, topic.hosted)
                    await work.checkpoint()
            except (OSError, StorageError) as error:
                results[topic.name] = error
                await self._undo_creation(work, topic, partitions)
            else:
                opened.append(topic)
        if not opened:
            return results
        entries = {topic.name: _build_entry(topic) for topic in opened}
        try:
            await self._change_file(work, lambda state: state.with_new_topics(entries))
        except (OSError, StorageError) as error:
            for topic in opened:
                results[topic.name] = error
                await self._undo_creation(work, topic, reserved[topic])
            return results
        for topic in opened:
            results[topic.name] = topic
            del self._creating[topic.name]
            self._by_name[topic.name] = topic
            self._by_id[topic.topic_id] = topic
        return results

    async def _change_file(
        self, work: LongWork, change: Callable[[CatalogueState], CatalogueState]
    ) -> CatalogueState:
        """Change the state of the file. The new state omits fully removed topics."""
        removed_ids = frozenset(self._removed_ids)
        state = await self.file.change_state(work, lambda before: change(before.without_deleted(removed_ids)))
        self._removed_ids -= removed_ids
        return state

    async def _remove_leftovers(self, work: LongWork, topic: Topic, partitions: int) -> None:
        """Remove directories and checkpoint entries that earlier topics of the same name left behind.

        Raises:
            OSError: the disk failed.
        """
        names = dict.fromkeys(TopicPartition(topic.name, number) for number in range(partitions))
        names |= dict.fromkeys(self._find_leftover_directories(topic.name))
        await run_directory_steps(work, self._directory.remove_former_topics(names, topic.topic_id))
        self.undeleted_partitions -= names.keys()

    def _find_leftover_directories(self, name: str) -> list[TopicPartition]:
        """Find directories that deleted topics of a name may have left behind.

        Raises:
            OSError: the disk failed.
        """
        if all(
            name != deleted or key in self._removed_ids for key, deleted in self.file.state.deleted.items()
        ):
            return []
        return [partition for partition in self._directory.list_partitions() if partition.topic == name]

    def _open_partition(self, topic: Topic, number: int, partitions: list[HostedPartition]) -> None:
        """Create the directory and the log of a new partition and append it to `partitions`.

        Raises:
            OSError, StorageError: the disk failed.
        """
        partition = self._partitions.create_partition(topic, number)
        partitions.append(partition)
        partition.open()
        if partition.failure is not None:
            raise partition.failure

    async def _undo_creation(self, work: LongWork, topic: Topic, partitions: int) -> None:
        """Remove the rest of a topic that could not be created. `partitions` is the number reserved."""
        await self._remove_partitions(work, topic.hosted, partitions)
        for number in range(partitions):
            self.unassign_replicas(TopicPartition(topic.name, number))
        del self._creating[topic.name]
        self.metric_names.remove_topic(topic.name)

    async def grow_topics(self, work: LongWork, wanted: Mapping[Topic, int]) -> GrownTopics:
        """Reserve and add partitions up to the wanted totals. Return by name the reason for a failure, or None on
        success.
        """
        results: GrownTopics = {}
        for topic, partitions in wanted.items():
            try:
                self.reserve_growth(topic, partitions)
            except ApiError as refusal:
                results[topic.name] = refusal
            await work.checkpoint()
        reserved = {topic: count for topic, count in wanted.items() if topic.name not in results}
        return results | await self.grow_reserved(work, reserved)

    def reserve_growth(self, topic: Topic, partitions: int) -> None:
        """Reserve the growth of a topic to a total of `partitions`, with descriptors, against concurrent changes.
        The caller must call `grow_reserved` in any case.

        Raises:
            ApiError: the topic cannot grow.
        """
        name = topic.name
        if self._by_name.get(name) is not topic or name in self._deleting:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name in self._growing or partitions <= len(topic.hosted):
            raise ApiError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"Topic '{name}' is growing already.")
        self.open_files.reserve_partitions(partitions - len(topic.hosted))
        self._growing[name] = TopicGrowth(topic, partitions)

    async def grow_reserved(self, work: LongWork, reserved: Mapping[Topic, int]) -> GrownTopics:
        """Add the partitions of reserved growths, with one write of the file. Return by name the reason for a
        failure, or None on success.

        New partitions become visible with that write. Deleting a topic cancels its growth; its name stays reserved
        until the growth has ended.
        """
        results: GrownTopics = {}
        opened: list[TopicGrowth] = []
        for growth in [self._growing[topic.name] for topic in reserved]:
            try:
                await self._open_growth(work, growth)
            except (OSError, StorageError) as error:
                results[growth.topic.name] = await self._undo_growth(work, growth, error)
            else:
                opened.append(growth)
        if not opened:
            return results
        counts = {growth.topic: growth.end for growth in opened}
        try:
            state = await self._change_file(work, lambda before: _apply_growth(before, counts))
        except (OSError, StorageError) as error:
            for growth in opened:
                results[growth.topic.name] = await self._undo_growth(work, growth, error)
            return results
        while gone := [growth for growth in opened if not _is_growing(growth, state)]:
            for growth in gone:
                opened.remove(growth)
                deleted = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                results[growth.topic.name] = await self._undo_growth(work, growth, deleted)
        # No await follows: the caller publishes the changes before another request sees them.
        for growth in opened:
            growth.topic.hosted += growth.added
            del self._growing[growth.topic.name]
            results[growth.topic.name] = None
        return results

    async def _open_growth(self, work: LongWork, growth: TopicGrowth) -> None:
        """Create the directories and logs of a topic's new partitions.

        Raises:
            OSError: the disk failed.
            StorageError: the disk failed, or the topic was deleted meanwhile.
        """
        topic = growth.topic
        names = [TopicPartition(topic.name, number) for number in range(growth.first, growth.end)]
        await run_directory_steps(work, self._directory.remove_former_topics(names, topic.topic_id))
        self.undeleted_partitions -= set(names)
        for name in names:
            if growth.is_cancelled:
                raise FileClosed(str(name), "is deleted")
            self._open_partition(topic, name.partition, growth.added)
            await work.checkpoint()

    async def _undo_growth(
        self, work: LongWork, growth: TopicGrowth, error: ApiError | OSError | StorageError
    ) -> ApiError | OSError | StorageError:
        """Remove the partitions of a failed growth, unless a deletion of the topic removes them. Return the error
        for the client.
        """
        if growth.is_cancelled:
            error = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            await self._remove_partitions(work, *growth.cancel())
        name = growth.topic.name
        for number in range(growth.first, growth.end):
            self.unassign_replicas(TopicPartition(name, number))
        del self._growing[name]
        return error

    async def delete_topics(
        self, work: LongWork, topics: Sequence[Topic]
    ) -> tuple[list[Topic], OSError | None]:
        """Delete existing topics and their records. Writing the file completes the deletion.

        Return the deleted topics, except the ones that another request is deleting, and the error that kept some of
        their directories on the disk.

        Raises:
            OSError, StorageError: the disk failed; no topic has changed.
        """
        going = [topic for topic in topics if topic.name not in self._deleting]
        self._deleting |= {topic.name for topic in going}
        try:
            await self._change_file(
                work,
                lambda state: state.without_topics(
                    topic.name for topic in going if state.has_topic(topic.name, topic.topic_id)
                ),
            )
            parts: list[HostedPartition] = []
            reserved = 0
            for topic in going:
                del self._by_name[topic.name]
                del self._by_id[topic.topic_id]
                self.metric_names.remove_topic(topic.name)
                parts += topic.hosted
                reserved += len(topic.hosted)
                growth = self._growing.get(topic.name)
                if growth is not None:
                    added, added_count = growth.cancel()
                    parts += added
                    reserved += added_count
            problem = await self._remove_partitions(work, parts, reserved)
            if problem is None:
                self._removed_ids |= {topic.topic_id for topic in going}
        finally:
            self._deleting -= {topic.name for topic in going}
        return going, problem

    async def _remove_partitions(
        self, work: LongWork, parts: Sequence[HostedPartition], reserved: int
    ) -> OSError | None:
        """Close logs and remove their directories, which needs no disk space. Return the error if some remain; the
        next start, or new partitions of these names, remove them. `reserved` is the number of reserved partitions.
        """
        self.open_files.release_partitions(reserved)
        for part in parts:
            part.close_for_deletion()
            if part.log is not None:
                await work.checkpoint()
        logs = {part.name: part.log for part in parts}
        # A shutdown before their removal is confirmed is not clean.
        self.undeleted_partitions |= {name for name, log in logs.items() if log is not None}
        failures = await run_directory_steps(work, self._directory.delete_logs_stepwise(logs))
        self.undeleted_partitions -= logs.keys() - failures.keys()
        return next(iter(failures.values()), None)

    async def configure_topic(self, work: LongWork, topic: Topic, change: ChangeOverrides) -> bool:
        """Change a topic's overrides. Return whether they differ now. Its logs apply them after the write of the
        file.

        Raises:
            ApiError, OSError, StorageError: nothing has changed.
        """
        name = topic.name

        def change_entry(state: CatalogueState) -> CatalogueState:
            if not state.has_topic(name, topic.topic_id):
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            entry = state.topics[name]
            return state.with_topics({name: entry._replace(configs=change(entry.configs))})

        self._configuring.append(name)
        try:
            await self._change_file(work, change_entry)
        finally:
            self._configuring.remove(name)
        entry = self.file.state.topics.get(name)
        if entry is None or entry.topic_id != topic.topic_id or entry.configs == topic.overrides:
            return False
        topic.overrides, topic.values = dict(entry.configs), self.defaults.parse(entry.configs)
        growth = self._growing.get(name)
        for part in (*topic.hosted, *(growth.added if growth is not None else ())):
            if part.log is not None:
                part.log.change_config(topic.values.log)
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
        """Make a topic with logs of another component visible. The file does not list it."""
        assert name not in self._by_name, name
        readable = [
            InternalPartition(TopicPartition(name, n), log, high_watermark, producers)
            for n in range(partitions)
        ]
        topic = Topic(name, topic_id, dict(overrides), self.defaults.parse(overrides), [], readable)
        self._index_topic(topic)
        return topic

    def iterate_hosted(self) -> Iterator[HostedPartition]:
        """Yield the partitions with logs of this daemon, including those of topics and growths in progress."""
        for topics in (self._by_name, self._creating):
            for topic in topics.values():
                yield from topic.hosted
        for growth in self._growing.values():
            yield from growth.added

    def _load_topic(self, name: str, entry: TopicEntry) -> None:
        topic = Topic(
            name,
            entry.topic_id,
            dict(entry.configs),
            self.defaults.parse(entry.configs),
            [],
            replication_factor=entry.replication_factor,
        )
        topic.hosted += [
            self._partitions.create_partition(topic, number) for number in range(entry.partitions)
        ]
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


def _is_growing(growth: TopicGrowth, state: CatalogueState) -> bool:
    """Return whether the topic of a growth still exists after the write of the file."""
    return state.has_topic(growth.topic.name, growth.topic.topic_id) and not growth.is_cancelled


def _apply_growth(state: CatalogueState, counts: Mapping[Topic, int]) -> CatalogueState:
    """Return the state with the new partition counts of its topics."""
    return state.with_topics(
        {
            topic.name: state.topics[topic.name]._replace(partitions=count)
            for topic, count in counts.items()
            if state.has_topic(topic.name, topic.topic_id)
        }
    )
