"""The data plane: every request about topics and their records.

`begin_request` takes a decoded request. It returns an Answer, or a coroutine function that answers while other
requests run (`long_work.py`). `handle` answers any request in one step. Only a Fetch can be delayed; a later call
returns its response as a completion. The server owns the clock, the connections and the thread that syncs. An
Answer lists the logs that must be synced before its response.

`attach_internal` makes a topic of another component (`__consumer_offsets`) visible: clients can describe, list and
read it here, but not write it.

Produce carries the batches of transactions. The transaction coordinator decides when to write a marker and with
which epoch. A marker ignores the client limits of a topic and needs no known producer and no open transaction; it
also fences older epochs of the producer. Retention periodically removes old segments and idle producers. As in
Kafka an open transaction protects its producer but not its records: retention applies up to the high watermark.

The first request of an API imports its handler, so an idle daemon loads none.

Source: KIP-98, KIP-890, KIP-1228; Kafka's `KafkaApis.handleWriteTxnMarkersRequest`, `ProducerAppendInfo`,
`UnifiedLog.deleteOldSegments`, `ProducerStateManager.removeExpiredProducers`.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from pkgutil import resolve_name
from typing import Any, Final, Protocol

from msgspec import Struct

from coordinator import __name__ as root_package
from coordinator.cluster.partition_ownership import PartitionOwnership, SingleBrokerOwnership
from coordinator.config.consumer_group_properties import ConsumerGroupProperties
from coordinator.core.outcome import Context, Now
from coordinator.core.time_budget import Budget, run_in_one_step
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.cluster_partition import ClusterRecords
from coordinator.topics.data_plane_answer import (
    Answer,
    MarkerRepeated,
    MarkerWritten,
    PartitionFailed,
    PartitionsAdded,
    SegmentRolled,
    TopicChange,
    TopicCreated,
)
from coordinator.topics.data_plane_config import BrokerConfig, DataPlaneConfig
from coordinator.topics.fetch_purgatory import DelayedFetch, FetchPurgatory
from coordinator.topics.fetch_session import FetchSessionCache
from coordinator.topics.long_work import (
    IN_ONE_STEP,
    ONE_STEP_UNLESS_THREAD,
    AddOrVerify,
    LongWork,
    OneStepChangeWork,
    Work,
    reject_transaction,
    run_up_to_thread,
)
from coordinator.topics.partition import ReadablePartition
from coordinator.topics.producer_ids import ProducerIdManager, ReserveProducerIds
from coordinator.topics.topic import Topic, random_topic_id
from coordinator.topics.topic_name import find_name_error, is_internal
from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from protocol.schema import message_info
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.producers.end_transaction_marker import EndMarker, encode_marker
from storage.producers.producer_state import CoordinatorFenced, InvalidProducerEpoch
from storage.producers.producer_state_manager import ProducerStateManager
from storage.storage_errors import StorageError, format_error_reason
from storage.topic_partition import TopicPartition

LongAnswer = Callable[[LongWork], Work[Answer]]
"""Answer a long request while other requests run."""
Completions = Iterable[tuple[int, object]]
"""The waiters of delayed fetches with their responses, or with a `LongAnswer` for long ones. The iterator reads
each response on demand, so that they are not all in memory at once.
"""
Handler = Callable[["DataPlane", Any, Context, Now], Answer | LongAnswer]
LongHandler = Callable[["DataPlane", Any, Context, LongWork], Work[Answer]]

HANDLER_NAMES: Final[Mapping[ApiKey, str]] = {
    ApiKey.PRODUCE: "topics.produce:answer_produce",
    ApiKey.FETCH: "topics.fetch:answer_fetch",
    ApiKey.LIST_OFFSETS: "topics.log_offsets:answer_list_offsets",
    ApiKey.METADATA: "topics.topic_metadata:answer_metadata",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "topics.topic_metadata:answer_describe_topic_partitions",
    ApiKey.CREATE_TOPICS: "topics.topic_creation:answer_create_topics",
    ApiKey.DELETE_TOPICS: "topics.topic_deletion:answer_delete_topics",
    ApiKey.CREATE_PARTITIONS: "topics.topic_creation:answer_create_partitions",
    ApiKey.DELETE_RECORDS: "topics.topic_deletion:answer_delete_records",
    ApiKey.DESCRIBE_CONFIGS: "topics.config_description:answer_describe_configs",
    ApiKey.ALTER_CONFIGS: "topics.config_alteration:answer_alter_configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "topics.config_alteration:answer_incremental_alter_configs",
    ApiKey.LIST_CONFIG_RESOURCES: "topics.config_description:answer_list_config_resources",
    ApiKey.DESCRIBE_LOG_DIRS: "topics.log_directories:answer_describe_log_dirs",
    ApiKey.INIT_PRODUCER_ID: "topics.idempotent_producers:answer_init_producer_id",
    ApiKey.DESCRIBE_PRODUCERS: "topics.idempotent_producers:answer_describe_producers",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        "topics.replica_reassignment:answer_alter_partition_reassignments"
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "topics.replica_reassignment:answer_list_partition_reassignments",
    ApiKey.ELECT_LEADERS: "topics.replica_reassignment:answer_elect_leaders",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "topics.log_offsets:answer_offset_for_leader_epoch",
}
"""The `Handler` or `LongHandler` of each API, below the package `coordinator`. Its module is imported at the first
request."""

MAX_SESSION_ID: Final = 2**31 - 1

_MARKER_ERRORS: Final = {
    InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    CoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}


class DeclaredTopicShrinks(Exception):
    """A topic was declared with fewer partitions than it has."""


def _random_session_id() -> int:
    return 1 + int.from_bytes(os.urandom(8)) % MAX_SESSION_ID


class DataPlaneEnvironment(Struct, frozen=True, eq=False, kw_only=True):
    """The parts of a server that the data plane uses. The defaults are those of a single broker."""

    ownership: PartitionOwnership | None = None
    """The leaders of partitions; None: this broker leads all."""
    records: ClusterRecords | None = None
    """Stores the records of replicated topics in a cluster."""
    reserve_producer_ids: ReserveProducerIds | None = None
    """Reserves blocks of producer ids in a cluster; None: the catalogue does."""
    group_bounds: ConsumerGroupProperties = ConsumerGroupProperties()
    """The bounds of group configs."""
    broker_configs: Iterable[BrokerConfig] = ()
    """The broker's own properties, for DescribeConfigs."""
    available_fetch_bytes: Callable[[], int] | None = None
    """Returns how many bytes of records a response may hold beyond its first batch; None: `fetch.max.bytes`."""


SINGLE_BROKER: Final = DataPlaneEnvironment()


class DelayedFetchHandler(Protocol):
    """Completes delayed fetches."""

    async def answer_delayed_fetch(self, delayed: DelayedFetch, monotonic_ms: int, work: LongWork) -> Answer:
        """Return the response of a delayed fetch with the records available now."""


class DataPlane:
    """All topics of one process. Not thread-safe. Only disk I/O blocks."""

    def __init__(
        self,
        directory: DataDirectory,
        config: DataPlaneConfig,
        catalogue: Catalogue,
        random_session_id: Callable[[], int],
        environment: DataPlaneEnvironment,
    ) -> None:
        self.catalogue = catalogue
        """The server resolves names, ids, partitions and properties of topics with it."""
        self.config = config
        self.broker_configs = environment.broker_configs
        self.ownership: PartitionOwnership = environment.ownership or SingleBrokerOwnership(config.node_id)
        """The leaders of partitions."""
        self.group_bounds = environment.group_bounds
        self.available_fetch_bytes = environment.available_fetch_bytes or (lambda: config.fetch_max_bytes)
        self._records = environment.records
        self.fetch_purgatory = FetchPurgatory()
        self.fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            config.max_incremental_fetch_session_cache_partitions,
            random_session_id,
        )
        self.directory = directory
        self.cluster_id = directory.meta.cluster_id
        self.producer_ids = ProducerIdManager(catalogue, environment.reserve_producer_ids)
        catalogue.unassign_replicas = lambda partition: self.ownership.unassign_replicas(partition)
        self.deferred_errors: list[OSError] = []
        """Write errors during `open` that do not prevent the start."""
        self.fetcher: DelayedFetchHandler | None = None
        """Created by the first Fetch."""
        self._handlers: dict[type[object], Handler] = {}

    @classmethod
    def open(
        cls,
        directory: DataDirectory,
        config: DataPlaneConfig,
        *,
        new_topic_id: Callable[[], bytes] = random_topic_id,
        random_session_id: Callable[[], int] = _random_session_id,
        environment: DataPlaneEnvironment = SINGLE_BROKER,
    ) -> "DataPlane":
        """Open every topic in the data directory. A log that cannot be opened leaves its partition offline.

        Args:
            directory: the data directory.
            config: the configuration.
            new_topic_id: returns a new topic id of 16 bytes.
            random_session_id: returns a fetch session id.
            environment: the parts of the server that the data plane uses.

        Raises:
            DamagedFile: the catalogue file is malformed.
            InvalidConfig: a property has an invalid value.
            OSError: the disk failed.
        """
        catalogue = Catalogue(directory, config, new_topic_id, environment.records)
        catalogue.load()
        plane = cls(directory, config, catalogue, random_session_id, environment)
        try:
            catalogue.save()
        except OSError as error:
            if directory.read_catalogue() is None:
                raise
            # The next change of a topic writes the file. Until then each start repeats these steps.
            plane.deferred_errors.append(error)
        for log in plane.list_logs().values():
            plane.deferred_errors += log.recovery_report.postponed_errors
        return plane

    # Requests

    def handle(
        self,
        request: object,
        context: Context,
        now: Now,
        add_or_verify: AddOrVerify = reject_transaction,
    ) -> Answer:
        """Answer a request in one step.

        Args:
            now: the time at which the request arrives; no time passes until the answer.
            add_or_verify: answers for the coordinators of transactions.

        Raises:
            KeyError: the data plane does not serve the API.
        """
        answer = self.begin_request(request, context, now)
        if isinstance(answer, Answer):
            return answer
        work = OneStepChangeWork(now, add_or_verify)
        completed = run_in_one_step(answer(work))
        if work.changes:
            completed.changes = [*work.changes, *completed.changes]
        return completed

    def begin_request(self, request: object, context: Context, now: Now) -> Answer | LongAnswer:
        """Return the answer to a request, or the function that answers one that takes long."""
        handler = self._handlers.get(type(request))
        if handler is None:
            handler = self._handlers[type(request)] = _import_handler(type(request))
        return handler(self, request, context, now)

    def is_leader(self, partition: TopicPartition, context: Context) -> bool:
        """Return whether the broker that received the request leads a partition."""
        return self.ownership.owns(context.node.node_id, partition)

    def find_local_partition(self, topic: str, number: int) -> ReadablePartition | None:
        """Return a partition if this process serves its records.

        Return None if it does not exist or another process leads it, since the local state is then outdated.
        """
        found = self.catalogue.find_partition(topic, number)
        return None if found is None or self.ownership.is_remote(found.name) else found

    def on_replication_failed(self, partition: TopicPartition, log: PartitionLog) -> None:
        """Handle a replicated log with an unknown state in the cluster's store: it must be loaded anew."""
        assert self._records is not None, partition
        self._records.on_failed(partition, log)

    # Delayed fetches

    def on_leader_changed(self, partition: TopicPartition, monotonic_ms: int) -> Completions:
        """Return the fetches that await a partition with a new leader, completed with the available records."""
        return self.complete_fetches(self.fetch_purgatory.pop_interrupted([partition]), monotonic_ms)

    def on_high_watermark_advanced(self, topic: str, partition: int, monotonic_ms: int) -> Completions:
        """Return the fetches that a new high watermark completes (records are durable, or the topic internal)."""
        if not len(self.fetch_purgatory):
            return ()
        return self.complete_fetches(
            self.fetch_purgatory.pop_satisfied(TopicPartition(topic, partition)), monotonic_ms
        )

    def expire_fetches(self, monotonic_ms: int) -> Completions:
        """Return the fetches past their deadline, completed with the available records."""
        return self.complete_fetches(self.fetch_purgatory.pop_expired(monotonic_ms), monotonic_ms)

    def next_deadline_ms(self) -> int | None:
        """Return the next monotonic time at which `expire_fetches` has work; None without delayed fetches."""
        return self.fetch_purgatory.next_deadline_ms()

    def forget_waiter(self, waiter: int) -> None:
        """Forget the delayed fetch of a waiter after its disconnect."""
        self.fetch_purgatory.forget_waiter(waiter)

    def complete_fetches(self, woken: Sequence[DelayedFetch], monotonic_ms: int) -> Completions:
        """Return the answers to fetches that have left the purgatory."""
        fetcher = self.fetcher
        if fetcher is None or not woken:
            return ()
        return (
            (delayed.context.waiter, _build_completion(fetcher, delayed, monotonic_ms)) for delayed in woken
        )

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
        """Write the marker that ends a producer's transaction in a partition of this process.

        Args:
            topic: the name of the topic.
            partition: the number of the partition.
            producer_id: the producer's id.
            producer_epoch: the epoch in the marker.
            marker: the marker's type, commit or abort.
            transaction_version: the version at which the transaction ended; from 2 on its epoch was bumped.
            now: the time of the write.
        """
        name = TopicPartition(topic, partition)
        written = write_marker(
            self.catalogue, name, producer_id, producer_epoch, marker, transaction_version, now
        )
        if written.error is ErrorCode.NONE:
            written.completions = self.complete_fetches(
                self.fetch_purgatory.pop_satisfied(name), now.monotonic_ms
            )
        return written

    # Topics

    def declare_topic(self, name: str, partitions: int) -> TopicChange | None:
        """Create or grow a topic at start so that it has `partitions` partitions. Return the changes.

        Raises:
            ValueError: the name or the count is invalid.
            DeclaredTopicShrinks: the topic has more partitions.
            TooManyPartitions: no file descriptors are left.
            OSError, StorageError: the disk failed.
        """
        illegal = find_name_error(name)
        if illegal is None and is_internal(name):
            illegal = f"{name} is an internal topic"
        if illegal is None and partitions < 1:
            illegal = f"topic {name} needs at least one partition"
        if illegal is not None:
            raise ValueError(illegal)
        topic = self.catalogue.find_topic(name)
        if topic is None:
            other = self.catalogue.metric_names.find_collision(name)
            if other is not None:
                raise ValueError(f"topic name '{name}' collides with topic '{other}'")
            topic = self.catalogue.create_topic(name, partitions, {})
            return TopicCreated(name, topic.topic_id, partitions)
        current = len(topic.partitions)
        if partitions < current:
            raise DeclaredTopicShrinks(
                f"topic {name} has {current} partitions and cannot shrink to {partitions}"
            )
        if partitions == current:
            return None
        problem = run_in_one_step(self.catalogue.grow_topics(IN_ONE_STEP, {topic: partitions}))[name]
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
        producers: Callable[[int], ProducerStateManager | None],
    ) -> Topic:
        """Make a topic with logs of another component visible. That component calls `on_high_watermark_advanced`
        after each advance.

        Args:
            name: the name of the topic.
            topic_id: its id, 16 bytes.
            overrides: its properties.
            partitions: the number of its partitions.
            log: returns a partition's log, or None if it is offline.
            high_watermark: returns a partition's high watermark, where reads end.
            producers: returns a partition's producers. None: unknown, so `read_committed` consumers wait.
        """
        return self.catalogue.attach_topic(
            name, topic_id, overrides, partitions, log, high_watermark, producers
        )

    # Upkeep

    async def apply_retention(self, now_ms: int, budget: Budget) -> Sequence[TopicChange]:
        """Delete the segments and forget the producers that the configuration no longer keeps.

        Args:
            now_ms: The Unix time in milliseconds.
            budget: Awaited between partitions. A partition that is deleted or released meanwhile is left out.

        Returns: a change for each partition in which retention failed.
        """
        return await apply_retention(self.catalogue, now_ms, budget)

    def list_logs(self) -> dict[TopicPartition, PartitionLog]:
        """Return every open log of this process, for checkpoints, syncing and closing."""
        return {part.name: part.log for part in self.catalogue.iterate_hosted() if part.log is not None}

    def list_failed_partitions(self) -> dict[TopicPartition, Exception]:
        """Return the offline partitions with their errors."""
        return {
            part.name: part.failure for part in self.catalogue.iterate_hosted() if part.failure is not None
        }


def _build_completion(fetcher: DelayedFetchHandler, delayed: DelayedFetch, monotonic_ms: int) -> object:
    if delayed.fetch.is_large:
        return partial(fetcher.answer_delayed_fetch, delayed, monotonic_ms)
    answer = run_up_to_thread(fetcher.answer_delayed_fetch(delayed, monotonic_ms, ONE_STEP_UNLESS_THREAD))
    return answer.response if isinstance(answer, Answer) else answer


def _import_handler(request: type[object]) -> Handler:
    handler: Any = resolve_name(f"{root_package}.{HANDLER_NAMES[ApiKey(message_info(request).api_key)]}")
    if iscoroutinefunction(handler):
        return partial(_begin_long_answer, handler)
    short_handler: Handler = handler
    return short_handler


def _begin_long_answer(
    handler: LongHandler, plane: DataPlane, request: object, context: Context, _: Now
) -> LongAnswer:
    return partial(handler, plane, request, context)


def write_marker(
    catalogue: Catalogue,
    name: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    marker: EndMarker,
    transaction_version: int,
    now: Now,
) -> MarkerWritten:
    """Write a marker to a partition of clients. The caller completes the delayed fetches."""
    topic = catalogue.find_topic(name.topic)
    if topic is None or not 0 <= name.partition < len(topic.hosted):
        return MarkerWritten(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    partition = topic.hosted[name.partition]
    log = partition.usable_log(now.monotonic_ms)
    if log is None:
        return MarkerWritten(ErrorCode.KAFKA_STORAGE_ERROR)
    producers = partition.producers
    assert producers is not None, name
    try:
        is_repeated = producers.state.check_marker(
            producer_id, producer_epoch, marker.coordinator_epoch, transaction_version
        )
    except (InvalidProducerEpoch, CoordinatorFenced) as error:
        return MarkerWritten(_MARKER_ERRORS[type(error)])
    append_time_ms = now.wall_ms if topic.values.is_log_append_time else None
    batch = encode_marker(marker, producer_id, producer_epoch, now.wall_ms)
    try:
        result = log.append(batch, log_append_time_ms=append_time_ms)
    except (StorageError, OSError) as error:
        return MarkerWritten(
            ErrorCode.KAFKA_STORAGE_ERROR, changes=[PartitionFailed(*name, format_error_reason(error))]
        )
    changes: list[TopicChange] = [SegmentRolled(*name, log)] if result.is_rolled else []
    producers.on_marker_appended(marker, producer_id, producer_epoch, result.base_offset, now.wall_ms)
    if is_repeated:
        changes.append(MarkerRepeated(*name, producer_id, producer_epoch))
    awaited = log if partition.is_flushed_always else None
    return MarkerWritten(ErrorCode.NONE, awaited, result.last_offset + 1, changes)


async def apply_retention(catalogue: Catalogue, now_ms: int, budget: Budget) -> list[TopicChange]:
    """Apply retention to all partitions. `DataPlane.apply_retention` describes the arguments."""
    failed: list[TopicChange] = []
    for part in list(catalogue.iterate_hosted()):
        await budget.checkpoint()
        if part.producers is not None:
            part.producers.state.expire(now_ms)
        log = part.log
        if log is None or log.is_closed or log.failure is not None:
            continue
        try:
            log.apply_retention(now_ms, up_to=part.high_watermark)
        except (StorageError, OSError) as error:
            failed.append(PartitionFailed(*part.name, format_error_reason(error)))
    return failed
