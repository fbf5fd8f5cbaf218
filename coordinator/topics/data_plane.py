"""The data plane: every request about topics and their records, one call each, without waiting.

`handle` takes a decoded request and gives back an Answer. Only a Fetch may be parked; it comes back as a
completion of a later call (`handle` of a Produce, `advanced`, `expire`). The server owns the clock, the
connections and the syncing thread; it learns here which logs an answer has to wait for.

Topics that another part of the server owns (the groups' `__consumer_offsets`) are made visible by
`attach_internal`: they are described, listed and read here, and never written.

Batches of transactions come with Produce, the markers at their ends by `write_marker`: when, and with which epoch,
is the transaction coordinator's to say.

What answers a request is imported when the first such request comes: a daemon at rest needs none of it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from secrets import randbelow
from typing import Any, Final, Protocol

from coordinator.cluster.one_broker import OneBroker
from coordinator.cluster.ownership import Ownership
from coordinator.config.consumer_group_properties import ConsumerGroupProperties
from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer, MarkerWritten, PartitionsAdded, TopicChange, TopicCreated
from coordinator.topics.broker_configs import BrokerConfig
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.cluster_partition import ClusterRecords
from coordinator.topics.config import TopicsConfig
from coordinator.topics.consent import AskConsent, Consent
from coordinator.topics.fetch_session import FetchSessions
from coordinator.topics.parked_fetches import ParkedFetch, ParkedFetches
from coordinator.topics.partition import Partition
from coordinator.topics.producer_ids import ProducerIds
from coordinator.topics.steps import Work, nobody_to_ask, taken
from coordinator.topics.sweep import sweep
from coordinator.topics.topic import Topic, random_topic_id
from coordinator.topics.topic_name import is_internal, why_illegal
from coordinator.topics.write_marker import write_marker
from protocol.apis import ApiKey
from protocol.errors import ErrorCode
from protocol.schema import message_info
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.producers.log_producers import LogProducers
from storage.producers.marker import EndMarker
from storage.topic_partition import TopicPartition

Steps = Work[Answer]
"""An answer that takes long: it is there when the steps have been taken, between which others may be answered."""
Completions = Iterable[tuple[int, object]]
"""Parked fetches with their responses, or the Steps to them where those take long, each read when it is asked for:
they need not be in memory all at once."""
Handler = Callable[["DataPlane", Any, Context, Now], Answer | Steps]

ANSWERED_BY: Final[Mapping[ApiKey, str]] = {
    ApiKey.PRODUCE: "produce.answer_produce",
    ApiKey.FETCH: "fetch.answer_fetch",
    ApiKey.LIST_OFFSETS: "list_offsets.answer_list_offsets",
    ApiKey.METADATA: "metadata.answer_metadata",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions.answer_describe_topic_partitions",
    ApiKey.CREATE_TOPICS: "create_topics.answer_create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics.answer_delete_topics",
    ApiKey.CREATE_PARTITIONS: "create_partitions.answer_create_partitions",
    ApiKey.DELETE_RECORDS: "delete_records.answer_delete_records",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs.answer_describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs.answer_alter_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "alter_configs.answer_incremental_alter_configs",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources.answer_list_config_resources",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs.answer_describe_log_dirs",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id.answer_init_producer_id",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers.answer_describe_producers",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments.answer_alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments.answer_list_partition_reassignments",
    ApiKey.ELECT_LEADERS: "elect_leaders.answer_elect_leaders",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch.answer_offset_for_leader_epoch",
}
"""The function for each API, below `coordinator.topics`: a `Handler`, imported when it is first asked for."""

MAX_SESSION_ID: Final = 2**31 - 1


class TopicsDeclaredSmaller(Exception):
    """A topic was declared with fewer partitions than it has."""


def _random_session_id() -> int:
    return 1 + randbelow(MAX_SESSION_ID)


class ParkedAnswers(Protocol):
    """Whoever answers parked fetches in the end."""

    def answer_parked(self, parked: ParkedFetch, monotonic_ms: int) -> Steps:
        """The response, with what there is now."""


class DataPlane:
    """All topics of one process. Not thread-safe; nothing here waits for anything but the disk."""

    def __init__(
        self,
        directory: DataDirectory,
        config: TopicsConfig,
        catalogue: Catalogue,
        random_session_id: Callable[[], int],
        cluster_id: str,
    ) -> None:
        self.catalogue = catalogue
        """Names and ids, partitions, properties: what the server resolves topics with."""
        self.config = config
        self.broker_configs: Iterable[BrokerConfig] = ()
        """The broker's own properties, to be described; set by whoever knows them."""
        self.ownership: Ownership = OneBroker(config.node_id)
        """Which broker leads which partition; another where there are several."""
        self.group_bounds = ConsumerGroupProperties()
        """What bounds the configs of groups; set by the same."""
        self.fetch_room: Callable[[], int] = lambda: self.config.fetch_max_bytes
        """How many bytes of records an answer may have now, beyond its first batch; set by whoever sends them."""
        self.parked = ParkedFetches()
        self.sessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots,
            config.max_incremental_fetch_session_cache_partitions,
            random_session_id,
        )
        self.directory = directory
        self.cluster_id = cluster_id
        self.producer_ids = ProducerIds(catalogue)
        self.put_off: list[OSError] = []
        """What `open` could not write, and does not need."""
        self.fetcher: ParkedAnswers | None = None
        """There since the first Fetch."""
        self._handlers: dict[type[object], Handler] = {}

    @classmethod
    def open(
        cls,
        directory: DataDirectory,
        config: TopicsConfig,
        *,
        new_topic_id: Callable[[], bytes] = random_topic_id,
        random_session_id: Callable[[], int] = _random_session_id,
        records: ClusterRecords | None = None,
    ) -> "DataPlane":
        """Opens every topic in the data directory. A log that cannot be opened leaves its partition
        offline.

        In: where new topic ids (16 bytes) and fetch session ids come from; who has the records of topics with
        replicas, in a cluster. Raises DamagedFile for a catalogue that makes no sense, InvalidConfig for a
        property that cannot hold its value, OSError.
        """
        catalogue = Catalogue(directory, config, new_topic_id, records)
        catalogue.load()
        plane = cls(directory, config, catalogue, random_session_id, directory.meta.cluster_id)
        try:
            catalogue.save()
        except OSError as error:
            if directory.read_catalogue() is None:
                raise
            # The next change of a topic saves it; until then a start finds the same again.
            plane.put_off.append(error)
        for log in plane.logs().values():
            plane.put_off += log.recovery_report.put_off
        return plane

    # Requests

    def handle(
        self,
        request: object,
        context: Context,
        now: Now,
        ask: Callable[[AskConsent], Consent] = nobody_to_ask,
    ) -> Answer:
        """The answer to one request. In: who answers for the coordinators of transactions. Raises KeyError for a
        request that is not the data plane's."""
        answer = self.begin(request, context, now)
        return answer if isinstance(answer, Answer) else taken(answer, now, ask)

    def begin(self, request: object, context: Context, now: Now) -> Answer | Steps:
        """The same, for whoever lets others be answered between the steps of what takes long."""
        handler = self._handlers.get(type(request))
        if handler is None:
            handler = self._handlers[type(request)] = _handler(type(request))
        return handler(self, request, context, now)

    def leads(self, partition: TopicPartition, context: Context) -> bool:
        """Whether the broker that is asked leads a partition."""
        return self.ownership.owns(context.node.node_id, partition)

    def here(self, topic: str, number: int) -> Partition | None:
        """A partition whose records this process reads; None where there is none, and where another process leads
        it: then what is here of it says nothing."""
        found = self.catalogue.partition(topic, number)
        return None if found is None or self.ownership.is_far(found.name) else found

    # Parked fetches

    def interrupted(self, partition: TopicPartition, monotonic_ms: int) -> Completions:
        """Tells that a partition has another leader: the fetches that await it, answered with what there is."""
        return self.complete(self.parked.interrupted_by([partition]), monotonic_ms)

    def advanced(self, topic: str, partition: int, monotonic_ms: int) -> Completions:
        """Tells that a partition's high watermark has moved (its records are durable now, or it is
        internal).
        """
        if not len(self.parked):
            return ()
        return self.complete(self.parked.woken_by(TopicPartition(topic, partition)), monotonic_ms)

    def expire(self, monotonic_ms: int) -> Completions:
        """The fetches whose time is up, answered with what there is."""
        return self.complete(self.parked.expired(monotonic_ms), monotonic_ms)

    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do next (monotonic), None when nothing is parked."""
        return self.parked.next_deadline_ms()

    def drop_waiter(self, waiter: int) -> None:
        """Forgets what a waiter waits for, its connection being gone."""
        self.parked.drop(waiter)

    def complete(self, woken: Sequence[ParkedFetch], monotonic_ms: int) -> Completions:
        """The answers to fetches that are no longer parked, each read when it is asked for."""
        fetcher = self.fetcher
        if fetcher is None or not woken:
            return ()
        return ((parked.context.waiter, _completion(fetcher, parked, monotonic_ms)) for parked in woken)

    # Transactions

    def write_marker(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        marker: EndMarker,
        transaction_version: int,
        now: Now,
    ) -> MarkerWritten:
        """Ends a producer's transaction in a partition whose log is owned here.

        In: the epoch that the marker carries; the level at which the transaction ended (2: its epoch has risen).
        """
        name = TopicPartition(topic, partition)
        written = write_marker(
            self.catalogue, name, producer_id, producer_epoch, marker, transaction_version, now
        )
        if written.error is ErrorCode.NONE:
            written.completions = self.complete(self.parked.woken_by(name), now.monotonic_ms)
        return written

    # Topics

    def declare(self, name: str, partitions: int) -> TopicChange | None:
        """Makes sure at the start that a topic has so many partitions; what that changed.

        Raises ValueError for an illegal name or count, TopicsDeclaredSmaller, TooManyPartitions, OSError,
        StorageError.
        """
        illegal = why_illegal(name)
        if illegal is None and is_internal(name):
            illegal = f"{name} belongs to the server"
        if illegal is None and partitions < 1:
            illegal = f"topic {name} needs at least one partition"
        if illegal is not None:
            raise ValueError(illegal)
        topic = self.catalogue.get(name)
        if topic is None:
            other = self.catalogue.metric_names.collides(name)
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
        problem = taken(self.catalogue.growing({topic: partitions}))[name]
        if problem is not None:
            raise problem
        return PartitionsAdded(name, topic.topic_id, partitions)

    def attach_internal(
        self,
        name: str,
        topic_id: bytes,
        overrides: Mapping[str, str],
        partitions: int,
        log: Callable[[int], PartitionLog | None],
        high_watermark: Callable[[int], int],
        producers: Callable[[int], LogProducers | None],
    ) -> Topic:
        """Makes a topic visible whose logs another part owns; call `advanced` when one of them moves on.

        In: its properties; how many partitions; a partition's log (None: offline), where reading ends in it, and
        its producers (None: not known, so that consumers of committed records wait).
        """
        return self.catalogue.attach(name, topic_id, overrides, partitions, log, high_watermark, producers)

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


def _completion(fetcher: ParkedAnswers, parked: ParkedFetch, monotonic_ms: int) -> object:
    steps = fetcher.answer_parked(parked, monotonic_ms)
    return steps if parked.fetch.is_large else taken(steps).response


def _handler(request: type[object]) -> Handler:
    module, _, function = ANSWERED_BY[ApiKey(message_info(request).api_key)].partition(".")
    handler: Handler = getattr(import_module(f"coordinator.topics.{module}"), function)
    return handler
