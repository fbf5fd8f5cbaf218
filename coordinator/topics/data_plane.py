"""The data plane: every request about topics and their records, one call each, without waiting.

`handle` takes a decoded request and gives back an Answer. Only a Fetch may be parked; it comes back as a
completion of a later call (`handle` of a Produce, `advanced`, `expire`). The server owns the clock, the
connections and the syncing thread; it learns here which logs an answer has to wait for.

Topics that another part of the server owns (the groups' `__consumer_offsets`) are made visible by
`attach_internal`: they are described, listed and read here, and never written.

What answers a request is imported when the first such request comes: a daemon at rest needs none of it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from secrets import randbelow
from typing import TYPE_CHECKING, Final

from coordinator.answers import PARKED
from coordinator.topics.answer import (
    Answer,
    PartitionsAdded,
    TopicChange,
    TopicCreated,
    TopicDeleted,
    TopicsContext,
)
from coordinator.topics.broker_configs import BrokerConfig
from coordinator.topics.catalogue import Catalogue, Topic, random_topic_id
from coordinator.topics.config import TopicsConfig
from coordinator.topics.fetch_session import FetchSessions
from coordinator.topics.parked_fetches import ParkedFetch, ParkedFetches
from coordinator.topics.producer_ids import ProducerIds
from coordinator.topics.sweep import sweep
from coordinator.topics.topic_name import is_internal, why_illegal
from storage.checkpoint import TopicPartition
from storage.data_directory import DataDirectory
from storage.log import PartitionLog

if TYPE_CHECKING:
    from coordinator.topics.fetch import Fetcher
    from coordinator.topics.produce import Producer
    from protocol.messages.alter_configs import AlterConfigsRequest
    from protocol.messages.create_partitions import CreatePartitionsRequest
    from protocol.messages.create_topics import CreateTopicsRequest
    from protocol.messages.delete_records import DeleteRecordsRequest
    from protocol.messages.delete_topics import DeleteTopicsRequest
    from protocol.messages.describe_configs import DescribeConfigsRequest
    from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
    from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
    from protocol.messages.fetch import FetchRequest
    from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
    from protocol.messages.init_producer_id import InitProducerIdRequest
    from protocol.messages.list_config_resources import ListConfigResourcesRequest
    from protocol.messages.list_offsets import ListOffsetsRequest
    from protocol.messages.metadata import MetadataRequest
    from protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
    from protocol.messages.produce import ProduceRequest

Completions = Iterable[tuple[int, object]]
"""Parked fetches with their answers, each read when it is asked for: they need not be in memory all at once."""
Handler = Callable[..., Answer]

MAX_SESSION_ID: Final = 2**31 - 1


class TopicsDeclaredSmaller(Exception):
    """A topic was declared with fewer partitions than it has."""


def _random_session_id() -> int:
    return 1 + randbelow(MAX_SESSION_ID)


class DataPlane:
    """All topics of one process. Not thread-safe; nothing here waits for anything but the disk."""

    def __init__(
        self,
        directory: DataDirectory,
        config: TopicsConfig,
        catalogue: Catalogue,
        random_session_id: Callable[[], int],
    ) -> None:
        self.catalogue = catalogue
        """Names and ids, partitions, properties: what the server resolves topics with."""
        self.config = config
        self.broker_configs: Iterable[BrokerConfig] = ()
        """The broker's own properties, to be described; set by whoever knows them."""
        self.fetch_room: Callable[[], int] = lambda: self.config.fetch_max_bytes
        """How many bytes of records an answer may have now, beyond its first batch; set by whoever sends them."""
        self.parked = ParkedFetches()
        self.sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, random_session_id)
        self._directory = directory
        self._producer_ids = ProducerIds(catalogue)
        self._producer: Producer | None = None
        self._fetcher: Fetcher | None = None
        self._handlers: dict[str, Handler] = {
            "ProduceRequest": self._produce,
            "FetchRequest": self._fetch,
            "ListOffsetsRequest": self._list_offsets,
            "MetadataRequest": self._metadata,
            "DescribeTopicPartitionsRequest": self._describe_topic_partitions,
            "CreateTopicsRequest": self._create_topics,
            "DeleteTopicsRequest": self._delete_topics,
            "CreatePartitionsRequest": self._create_partitions,
            "DeleteRecordsRequest": self._delete_records,
            "DescribeConfigsRequest": self._describe_configs,
            "AlterConfigsRequest": self._alter_configs,
            "IncrementalAlterConfigsRequest": self._incremental_alter_configs,
            "ListConfigResourcesRequest": self._list_config_resources,
            "DescribeLogDirsRequest": self._describe_log_dirs,
            "InitProducerIdRequest": self._init_producer_id,
            "OffsetForLeaderEpochRequest": self._offset_for_leader_epoch,
        }

    @classmethod
    def open(
        cls,
        directory: DataDirectory,
        config: TopicsConfig,
        *,
        new_topic_id: Callable[[], bytes] = random_topic_id,
        random_session_id: Callable[[], int] = _random_session_id,
    ) -> "DataPlane":
        """Opens every topic in the data directory. A log that cannot be opened leaves its partition
        offline.

        In: where new topic ids (16 bytes) and fetch session ids come from. Raises DamagedFile for a
        catalogue that makes no sense, InvalidConfig for a property that cannot hold its value, OSError.
        """
        catalogue = Catalogue(directory, config, new_topic_id)
        catalogue.load()
        return cls(directory, config, catalogue, random_session_id)

    # Requests

    def handle(self, request: object, context: TopicsContext, now_ms: int, monotonic_ms: int) -> Answer:
        """The answer to one request. Times: wall clock and monotonic milliseconds.

        Raises KeyError for a request that is not the data plane's.
        """
        return self._handlers[type(request).__name__](request, context, now_ms, monotonic_ms)

    def _produce(
        self, request: "ProduceRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        if self._producer is None:
            from coordinator.topics.produce import Producer

            self._producer = Producer(self.catalogue)
        answer, appended = self._producer.answer(request, context, now_ms, monotonic_ms)
        if appended and len(self.parked):
            # Those whose records must reach the disk first are woken by `advanced`.
            names = [part.name for part in appended if not part.is_flushed_always]
            woken = [parked for name in names for parked in self.parked.woken_by(name)]
            answer.completions = self._complete(woken, monotonic_ms)
        return answer

    def _fetch(
        self, request: "FetchRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        if self._fetcher is None:
            from coordinator.topics.fetch import Fetcher

            self._fetcher = Fetcher(self.catalogue, self.config, self.sessions, self.parked, self.fetch_room)
        response = self._fetcher.answer(request, context, monotonic_ms)
        failures, self._fetcher.failures = self._fetcher.failures, []
        missing, self._fetcher.missing = self._fetcher.missing, []
        return Answer(PARKED if response is None else response, changes=failures, missing=missing)

    def _list_offsets(
        self, request: "ListOffsetsRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.list_offsets import answer_list_offsets

        return answer_list_offsets(self.catalogue, request, context, now_ms)

    def _metadata(
        self, request: "MetadataRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.metadata import answer_metadata

        return answer_metadata(self.catalogue, self.config, request, context)

    def _describe_topic_partitions(
        self,
        request: "DescribeTopicPartitionsRequest",
        context: TopicsContext,
        now_ms: int,
        monotonic_ms: int,
    ) -> Answer:
        from coordinator.topics.describe_topic_partitions import answer_describe_topic_partitions

        return Answer(answer_describe_topic_partitions(self.catalogue, self.config, request, context))

    def _create_topics(
        self, request: "CreateTopicsRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.create_topics import answer_create_topics

        return answer_create_topics(self.catalogue, self.config, request, context)

    def _delete_topics(
        self, request: "DeleteTopicsRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.delete_topics import answer_delete_topics

        before = {topic.name: topic for topic in self.catalogue}
        answer = answer_delete_topics(self.catalogue, self.config, request, context)
        gone = [before[change.name] for change in answer.changes if isinstance(change, TopicDeleted)]
        names = [part.name for topic in gone for part in topic.partitions]
        answer.completions = self._complete(self.parked.interrupted_by(names), monotonic_ms)
        return answer

    def _create_partitions(
        self, request: "CreatePartitionsRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.create_partitions import answer_create_partitions

        return answer_create_partitions(self.catalogue, self.config, request, context)

    def _delete_records(
        self, request: "DeleteRecordsRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.delete_records import answer_delete_records

        response, moved = answer_delete_records(self.catalogue, request)
        logs = {part.name: part.log for part in moved if part.log is not None}
        if logs:
            self._directory.write_checkpoints(logs)
        return Answer(response)

    def _describe_configs(
        self, request: "DescribeConfigsRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.describe_configs import answer_describe_configs

        broker_configs = self.broker_configs
        return Answer(answer_describe_configs(self.catalogue, self.config, broker_configs, request, context))

    def _alter_configs(
        self, request: "AlterConfigsRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.alter_configs import answer_alter_configs

        return answer_alter_configs(self.catalogue, request, context)

    def _incremental_alter_configs(
        self,
        request: "IncrementalAlterConfigsRequest",
        context: TopicsContext,
        now_ms: int,
        monotonic_ms: int,
    ) -> Answer:
        from coordinator.topics.alter_configs import answer_incremental_alter_configs

        return answer_incremental_alter_configs(self.catalogue, request, context)

    def _list_config_resources(
        self, request: "ListConfigResourcesRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.list_config_resources import answer_list_config_resources

        return Answer(answer_list_config_resources(self.catalogue, request, context))

    def _describe_log_dirs(
        self, request: "DescribeLogDirsRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.describe_log_dirs import answer_describe_log_dirs

        return answer_describe_log_dirs(self.catalogue, self._directory, request)

    def _init_producer_id(
        self, request: "InitProducerIdRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.init_producer_id import answer_init_producer_id

        return Answer(answer_init_producer_id(self._producer_ids, request))

    def _offset_for_leader_epoch(
        self, request: "OffsetForLeaderEpochRequest", context: TopicsContext, now_ms: int, monotonic_ms: int
    ) -> Answer:
        from coordinator.topics.offset_for_leader_epoch import answer_offset_for_leader_epoch

        return Answer(answer_offset_for_leader_epoch(self.catalogue, request))

    # Parked fetches

    def advanced(self, topic: str, partition: int, monotonic_ms: int) -> Completions:
        """Tells that a partition's high watermark has moved (its records are durable now, or it is
        internal).
        """
        if not len(self.parked):
            return ()
        return self._complete(self.parked.woken_by(TopicPartition(topic, partition)), monotonic_ms)

    def expire(self, monotonic_ms: int) -> Completions:
        """The fetches whose time is up, answered with what there is."""
        return self._complete(self.parked.expired(monotonic_ms), monotonic_ms)

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do next (monotonic), None when nothing is parked."""
        return self.parked.next_deadline_ms()

    def drop_waiter(self, waiter: int) -> None:
        """Forgets what a waiter waits for, its connection being gone."""
        self.parked.drop(waiter)

    def _complete(self, woken: Sequence[ParkedFetch], monotonic_ms: int) -> Completions:
        fetcher = self._fetcher
        if fetcher is None or not woken:
            return ()
        return ((parked.context.waiter, fetcher.answer_parked(parked, monotonic_ms)) for parked in woken)

    # Topics

    def declare(self, name: str, partitions: int) -> TopicChange | None:
        """Makes sure at the start that a topic has so many partitions; what that changed.

        Raises ValueError for an illegal name or count, TopicsDeclaredSmaller, OSError, StorageError.
        """
        problem = why_illegal(name)
        if problem is None and is_internal(name):
            problem = f"{name} belongs to the server"
        if problem is None and partitions < 1:
            problem = f"topic {name} needs at least one partition"
        if problem is not None:
            raise ValueError(problem)
        topic = self.catalogue.get(name)
        if topic is None:
            other = self.catalogue.collides(name)
            if other is not None:
                raise ValueError(f"topic name '{name}' collides with topic '{other}'")
            topic = self.catalogue.create(name, partitions, {})
            return TopicCreated(name, topic.topic_id, partitions)
        current = len(topic.partitions)
        if partitions < current:
            raise TopicsDeclaredSmaller(
                f"topic {name} has {current} partitions and cannot shrink to {partitions}"
            )
        if partitions == current:
            return None
        self.catalogue.grow(topic, partitions)
        return PartitionsAdded(name, topic.topic_id, partitions)

    def attach_internal(
        self,
        name: str,
        topic_id: bytes,
        overrides: Mapping[str, str],
        partitions: int,
        log: Callable[[int], PartitionLog | None],
        high_watermark: Callable[[int], int],
    ) -> Topic:
        """Makes a topic visible whose logs another part owns; call `advanced` when one of them moves on.

        In: its properties; how many partitions; a partition's log (None: offline), and where reading ends
        in it.
        """
        return self.catalogue.attach(name, topic_id, overrides, partitions, log, high_watermark)

    # Upkeep

    def sweep(self, now_ms: int) -> Sequence[TopicChange]:
        """Retention of records and of idle producers; what failed. Every
        `log.retention.check.interval.ms`.
        """
        return sweep(self.catalogue, now_ms)

    def logs(self) -> dict[TopicPartition, PartitionLog]:
        """Every open log that is owned here, for checkpoints, syncing and closing."""
        return {part.name: part.log for part in self.catalogue.hosted() if part.log is not None}

    def failed(self) -> dict[TopicPartition, Exception]:
        """The partitions that are offline, and why."""
        return {part.name: part.failure for part in self.catalogue.hosted() if part.failure is not None}
