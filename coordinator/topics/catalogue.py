"""The topics: names, ids, partitions, properties; kept in one small file beside the logs.

The file is the truth and changes first. A topic is created by writing it there and then making its
directories, so that a crash in between leaves a whole topic with empty partitions. It is deleted by taking
it out, leaving its id behind, and then removing the directories; a start finishes what a crash interrupted.
All of that is done in steps, with requests of others in between: a topic is seen from when its last partition
is open until its removal begins, and its name is taken from the first step to the last.
A directory that the file does not know (one of a real broker's) becomes a topic, with the partitions and
properties that the broker's copy of the cluster metadata gives it. Where that says nothing of it, the topic keeps
every record, since nobody knows how long it was meant to.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress

from coordinator.config.topic_configs import TopicDefaults
from coordinator.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.topics.cluster_partition import ClusterRecords
from coordinator.topics.config import TopicsConfig
from coordinator.topics.found_topics import FoundTopics, document
from coordinator.topics.group_configs import GroupConfigs
from coordinator.topics.metric_names import MetricNames
from coordinator.topics.new_partitions import NewPartitions, open_each
from coordinator.topics.open_files import OpenFiles
from coordinator.topics.partition import HostedPartition, InternalPartition, Partition
from coordinator.topics.refusal import Refusal
from coordinator.topics.steps import Work, taken, written
from coordinator.topics.topic import Created, Drafted, Grown, NewTopic, Topic
from protocol.errors import ErrorCode
from storage.data_directory import DataDirectory
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.producers.log_producers import LogProducers
from storage.topic_partition import TopicPartition


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
        self.producer_ids_reserved = 0
        """Ids of producers below this one may have been given out."""
        self._directory = directory
        self._config = config
        self.drafted: Drafted = directory.draft_catalogue
        self.new_id = new_id
        self.open_files = OpenFiles(config.max_open_files, config.open_files_reserved)
        self._partitions = NewPartitions(directory, config, self.open_files, records)
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self.metric_names = MetricNames()
        self._new: dict[str, Topic] = {}
        """Topics that are being made, and that nobody sees yet."""
        self._added: dict[str, list[HostedPartition]] = {}
        """Partitions by which topics grow just now."""
        self._going: set[str] = set()
        """Names of topics that are being removed, and that nobody sees any more."""
        self.group_configs = GroupConfigs(self.saving)
        self._deleted: dict[bytes, str] = {}
        """Topics, name by id, of which directories may still lie there."""
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
        if found.remains:
            try:
                self._directory.delete_logs(dict.fromkeys(found.remains))
            except OSError as error:
                # Starting needs no space. The file goes on naming them, for the next start or a topic of that name.
                self._deleted, self.not_removed = found.deleted, error
        self.producer_ids_reserved = found.producer_ids_reserved
        self.group_configs.by_group.update(found.group_configs)
        self.internal_partitions, self.adopted = found.internal_partitions, found.adopted
        of_groups = found.internal_directories[CONSUMER_OFFSETS] or self._config.offsets_topic_num_partitions
        # Transactions get their partitions when somebody has one.
        of_transactions = found.internal_directories[TRANSACTION_STATE]
        for name, count in ((CONSUMER_OFFSETS, of_groups), (TRANSACTION_STATE, of_transactions)):
            self.open_files.keep_for_coordinators(max(count, found.internal_partitions.get(name, 0)))
        for name, count in found.counts.items():
            factor = found.replication_factors.get(name, 1)
            self._put(name, found.ids[name], found.configs[name], count, factor)

    def save(self) -> None:
        """Writes the file, atomically and durably. Raises OSError."""
        self._draft()()

    def saving(self) -> Work[None]:
        """The same in a step of its own, elsewhere: the disk may take its time."""
        yield from written([self._draft()])

    def _draft(self) -> Callable[[], None]:
        topics = sorted((*self._by_name.values(), *self._new.values()), key=lambda topic: topic.name)
        counts = {
            topic: len(topic.hosted) + len(self._added.get(topic.name, ()))
            for topic in topics
            if topic.hosted
        }
        return self.drafted(
            document(counts, self._deleted, self.producer_ids_reserved, self.group_configs.by_group)
        )

    # Changing

    def is_changing(self, name: str) -> bool:
        """Whether the topic of that name is being made or removed."""
        return name in self._new or name in self._going

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

        In: legal names, each once; valid overrides. A topic is there for others when its last partition is open.
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
        for topic in topics:
            try:
                self._reserve(topic)
            except Refusal as refusal:
                results[topic.name] = refusal
        topics = [topic for topic in topics if topic.name not in results]
        refused = topics
        try:
            yield from self._finish_deletions({topic.name for topic in topics})
            if topics:
                yield from self.saving()
        except (OSError, StorageError) as error:
            results |= {topic.name: error for topic in topics}
        else:
            refused = []
            for topic in topics:
                try:
                    yield from open_each(topic.hosted)
                except (OSError, StorageError) as error:
                    results[topic.name] = error
                    refused.append(topic)
                else:
                    results[topic.name] = topic
                    del self._new[topic.name]
                    self._by_name[topic.name] = topic
                    self._by_id[topic.topic_id] = topic
        if refused:
            yield from self._undo(refused)
        return results

    def _reserve(self, topic: Topic) -> None:
        """Nobody else makes a topic of that name, and there are descriptors for it. Raises Refusal."""
        name = topic.name
        if name in self._going:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        if name in self._by_name or name in self._new:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        self.open_files.promise(len(topic.hosted))
        self._new[name] = topic
        self._deleted.pop(topic.topic_id, None)  # a cluster has refused to delete it
        self.metric_names.add(name)

    def _undo(self, topics: Sequence[Topic]) -> Work[None]:
        """Takes back topics that could not be made. What the disk does not let go of is removed when a topic of
        that name is made again, or by a next start: the file says so as soon as it can be written again."""
        for topic in topics:
            del self._new[topic.name]
            self.metric_names.forget(topic.name)
            self._deleted[topic.topic_id] = topic.name
        with suppress(OSError, StorageError):
            yield from self._remove(topics, [part for topic in topics for part in topic.hosted])

    def growing(self, wanted: Mapping[Topic, int]) -> Work[Grown]:
        """Adds partitions until topics have so many, in steps, with one write of the file for all. Out: by name why
        a topic has what it had; None for one that has grown.

        Others see new partitions when the last one of their topic is open.
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
        lists = {topic: added for topic, added in lists.items() if topic.name not in results}
        try:
            if lists:
                yield from self.saving()
        except OSError as error:
            results |= {topic.name: error for topic in lists}
        else:
            for topic, added in lists.items():
                results[topic.name] = yield from self._open_more(topic, added)
        refused = [
            part
            for topic, added in lists.items()
            if results[topic.name] is not None and self._added.get(topic.name) is added
            for part in self._added.pop(topic.name)
        ]
        if refused:
            with suppress(OSError, StorageError):
                yield from self._remove((), refused)
        return results

    def _reserve_more(self, topic: Topic, added: list[HostedPartition]) -> None:
        """Nobody else lets that topic grow, and there are descriptors for it. Raises Refusal."""
        name = topic.name
        if self._by_name.get(name) is not topic:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if name in self._added or not added or len(topic.hosted) != added[0].name.partition:
            raise Refusal(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"Topic '{name}' is growing already.")
        self.open_files.promise(len(added))
        self._added[name] = added

    def _open_more(
        self, topic: Topic, added: list[HostedPartition]
    ) -> Work[Refusal | OSError | StorageError | None]:
        """Opens what is added to a topic, and shows it; why not, where that fails."""
        steps = open_each(added)
        while self._added.get(topic.name) is added:
            try:
                next(steps)
            except StopIteration:
                topic.hosted += self._added.pop(topic.name)
                return None
            except (OSError, StorageError) as error:
                return error
            yield None
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)  # deleted meanwhile, and what was added with it

    def deleting(self, topics: Sequence[Topic]) -> Work[None]:
        """Removes topics and their records, in steps, the first of which takes them all from everybody's sight.

        Raises OSError; a next start then finishes it.
        """
        parts: list[HostedPartition] = []
        for topic in topics:
            del self._by_name[topic.name]
            del self._by_id[topic.topic_id]
            self.metric_names.forget(topic.name)
            self._deleted[topic.topic_id] = topic.name
            parts += [*topic.hosted, *self._added.pop(topic.name, ())]
        yield from self._remove(topics, parts)

    def _remove(self, topics: Sequence[Topic], parts: Sequence[HostedPartition]) -> Work[None]:
        """Closes logs, which takes no descriptor, then writes the file without them and removes the directories.
        In: topics that are gone with them. Raises OSError."""
        self._going |= {topic.name for topic in topics}
        self.open_files.gone(len(parts))
        try:
            for part in parts:
                part.let_go()
                if part.log is not None:
                    yield None
            yield from self.saving()
            yield from written(self._directory.deleting_logs({part.name: part.log for part in parts}))
            for topic in topics:
                # Gone for good, whatever a crash does: the file may go on naming it until it is next written.
                del self._deleted[topic.topic_id]
        except BaseException:
            # Not closed as a clean stop closes them, and perhaps still there.
            self.left |= {part.name for part in parts if part.log is not None}
            raise
        finally:
            self._going -= {topic.name for topic in topics}

    def _finish_deletions(self, names: Container[str]) -> Work[None]:
        """Removes what earlier deletions that failed have left of topics of these names. Raises OSError."""
        ids = [topic_id for topic_id, deleted in self._deleted.items() if deleted in names]
        if not ids:
            return
        left = {self._deleted[topic_id] for topic_id in ids}
        remains = [partition for partition in self._directory.partitions() if partition.topic in left]
        yield from written(self._directory.deleting_logs(dict.fromkeys(remains)))
        for topic_id in ids:
            del self._deleted[topic_id]

    def configuring(self, topic: Topic, overrides: Mapping[str, str]) -> Work[None]:
        """Replaces a topic's overrides by valid ones, in steps; its logs obey when that is on the disk. What comes
        meanwhile builds on `next_overrides`. Raises OSError."""
        values = self.defaults.parse(overrides)
        wanted = topic.next_overrides = dict(overrides)
        try:
            yield from self.saving()
        except OSError:
            if topic.next_overrides is wanted:
                topic.next_overrides = topic.overrides
            raise
        topic.overrides, topic.values = wanted, values
        for part in (*topic.hosted, *self._added.get(topic.name, ())):
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

    def _put(
        self, name: str, topic_id: bytes, overrides: dict[str, str], partitions: int, factor: int
    ) -> None:
        values = self.defaults.parse(overrides)
        topic = Topic(name, topic_id, overrides, values, [], replication_factor=factor)
        for _ in self._partitions.add(topic, topic.hosted, 0, partitions):
            pass
        self._index(topic)
        self.open_files.promised += partitions
        for part in topic.hosted:
            part.open()

    def _index(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self.metric_names.add(topic.name)
