"""The server: opens its parts, serves, runs its periodic jobs, and closes.

    data directory ─▶ data plane ─▶ handlers ─▶ routes ─▶ endpoints ─▶ connections
                  └─▶ runtime (groups) ─┘
Topics that the command line declares exist when the server is ready. Listeners open before the groups are
read; early clients get COORDINATOR_LOAD_IN_PROGRESS.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from coordinator.apis.data_plane_handler import DataPlaneHandler
from coordinator.apis.data_plane_work import DataPlaneServices
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.request_task import RequestTasks
from coordinator.broker.api_routes import create_routes_by_broker
from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.broker_set import BrokerSet
from coordinator.broker.checkpoint_writer import CheckpointWriter
from coordinator.broker.data_directory_errors import is_nearly_full, why_too_small, why_unusable
from coordinator.broker.group_event_log import GroupEventBus, log_expiry
from coordinator.broker.group_executor import create_group_workers
from coordinator.broker.internal_topics import IMAGE_CHANGES, OffsetsTopic, TopicImages, send_group_configs
from coordinator.broker.lazy_transaction_coordinator import LazyTransactionCoordinator
from coordinator.broker.log_cleaner import LogCleaner, list_compactable_logs
from coordinator.broker.server_settings import ServerSettings, create_data_plane_config, list_broker_configs
from coordinator.broker.topic_log_lines import log_changes, log_missing, log_startup_problems
from coordinator.config.config_def import InvalidConfig
from coordinator.core import clock
from coordinator.core.daemon_log import ADDRESS_PERIOD_MS, LogLineLimit, OngoingFailures, format_repeats
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import CONSUMER_OFFSETS, LogFlush
from coordinator.core.time_budget import Budget, RunQueue, TimeBudget
from coordinator.group.group_config import GroupConfig
from coordinator.network.connection_limits import create_connection_limits
from coordinator.network.connections import Connections
from coordinator.network.endpoint import Endpoint, WriteBatcher
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Routes
from coordinator.runtime.engine import Engine
from coordinator.runtime.timers import GroupClock, ProcessClock
from coordinator.runtime.worker_threads import WorkerThreads
from coordinator.security.lazy_security import LazySecurity
from coordinator.topics.data_plane import DataPlane, DeclaredTopicShrinks
from coordinator.topics.data_plane_answer import MissingTopic, StoresSet, TopicChange, TopicDeleted
from coordinator.topics.open_files import TooManyPartitions
from coordinator.topics.topic import random_topic_id
from storage.data_directory import DataDirectory
from storage.files import find_open_files_limit
from storage.log import PartitionLog
from storage.metadata_files import MetaProperties
from storage.storage_errors import StorageError, format_error_reason
from storage.topic_partition import TopicPartition, uuid_to_text

if TYPE_CHECKING:
    from coordinator.cluster.daemon.etcd_cluster import EtcdCluster

_LOG = logging.getLogger("KafkaServer")
CLOSE_TIMEOUT_S: Final = 5.0


class Server:
    """One daemon. Create it in a running event loop, then call `open`, `listen` and at last `close`."""

    def __init__(
        self,
        settings: ServerSettings,
        threads: WorkerThreads | None = None,
        group_clock: GroupClock | None = None,
        cluster: "EtcdCluster | None" = None,
        run_queue: RunQueue | None = None,
    ) -> None:
        """Create a server that is not open yet.

        Args:
            settings: Settings of the server.
            threads: Threads shared by several servers in one process. Their creator closes them.
            group_clock: Clock of the groups, if it differs from the process's clock.
            cluster: The cluster on etcd that this daemon belongs to.
            run_queue: Run queue of the event loop. All servers on one loop must share it: each queue resumes one
                worker in an iteration, so a queue for each server would lengthen the iterations.
        """
        self.settings = settings
        self.cluster = cluster
        self._shared_threads = threads
        self.loop = asyncio.get_running_loop()
        self.metrics = BrokerMetrics()
        self.line_limit = LogLineLimit()
        self.group_events = GroupEventBus(self.metrics, self.line_limit)
        self.arrival = clock.Arrival() if cluster is None else clock.WatchedArrival(cluster.check_session)
        self.disk_failures = OngoingFailures("LogManager")
        """Ongoing disk failures of group logs and of the files next to them."""
        self.group_clock = group_clock or ProcessClock(self.arrival)
        self.topic_listeners: list[Callable[[Sequence[TopicChange]], None]] = []
        """Called with each batch of changes of topics or partitions."""
        self.connections = Connections(self.loop, create_connection_limits(settings.config))
        self.write_batcher = WriteBatcher(self.loop)
        self.run_queue = RunQueue(self.loop) if run_queue is None else run_queue
        self.request_tasks = RequestTasks(self.run_queue, self.arrival)
        self.ready = asyncio.Event()
        """Set when every partition of the groups is loaded, or has failed."""
        self.is_closing = False
        self.brokers = BrokerSet(self)
        self.listeners = self.brokers.listeners[settings.config.node_id]
        """Listeners of the first broker, which usually is the only one."""
        self._periodic_jobs = PeriodicJobs(self.loop, self.run_queue, self.disk_failures)

    @property
    def endpoints(self) -> list[Endpoint]:
        """Endpoints for clients: one for each listener, those of the first broker first."""
        return self.brokers.endpoints

    # Opening

    def open(self) -> None:
        """Open the data directory and the topics. Raises StartFailed."""
        settings, config = self.settings, self.settings.config
        new = MetaProperties(
            settings.cluster_id or uuid_to_text(random_topic_id()),
            config.node_id,
            uuid_to_text(random_topic_id()),
        )
        try:
            self.directory = DataDirectory.open(
                settings.files,
                settings.data_dir,
                new,
                config.log_journal_file_bytes if self.cluster is None else 0,
            )
        except StorageError as error:
            raise StartFailed(why_unusable(settings.files, settings.data_dir, error)) from error
        try:
            self._open_parts()
        except (OSError, StorageError) as error:
            self.abandon()
            raise StartFailed(why_unusable(settings.files, settings.data_dir, error)) from error
        except BaseException:
            self.abandon()
            raise

    def _open_parts(self) -> None:
        settings, config = self.settings, self.settings.config
        owner = self.directory.meta.node_id
        if owner != config.node_id:
            raise StartFailed(f"{settings.data_dir} belongs to node {owner}; node.id says {config.node_id}")
        if self.cluster is not None:
            self.cluster.prepare_directory(self.directory)
        try:
            self.data_plane = DataPlane.open(
                self.directory,
                create_data_plane_config(config, settings.properties, find_open_files_limit()),
                records=None if self.cluster is None else self.cluster.owned_partitions.topics,
            )
            if self.cluster is None:
                self._record_changes(declare_topics(self.data_plane, settings.topics))
        except InvalidConfig as error:
            raise StartFailed(str(error)) from error
        shared = None if self.cluster is None else self.cluster.security
        self.security = LazySecurity(self.directory, config, self.disk_failures, shared)
        self.data_plane.ownership = self.brokers.ownership
        self.data_plane.group_bounds = settings.config
        self.data_plane.broker_configs = list_broker_configs(settings.properties)
        self.data_plane.available_fetch_bytes = self.connections.unread_responses.remaining_bytes
        if settings.initial_topics and self.cluster is None:
            from coordinator.broker.initial_topic_creation import create_initial_topics  # and CreateTopics

            self._record_changes(create_initial_topics(self.data_plane, settings.initial_topics))
        for line in self.data_plane.catalogue.adoption_messages:
            _LOG.warning("Taken over from another broker: %s", line)
        log_startup_problems(self.data_plane)
        self._threads = self._shared_threads or WorkerThreads()
        self.flusher = self._threads.flusher
        self.group_config = config.view(GroupConfig)
        self._open_groups()
        self._check_disk()
        self.checkpoints = CheckpointWriter(self.directory, self.disk_failures)
        kept = self.runtime if config.offsets_history == "keep" else None
        self.cleaner = LogCleaner(
            self.directory,
            self.checkpoints,
            partial(
                list_compactable_logs, self.data_plane.catalogue.iterate_hosted, self.engine.runtimes, kept
            ),
            max(1, config.log_cleaner_backoff_ms),
            self.disk_failures,
            self.run_queue,
        )
        self.routes_by_broker = self._create_routes()
        if self.cluster is not None:
            self.cluster.attach_server(self)
        self.routes = self.routes_by_broker[config.node_id]

    def _check_disk(self) -> None:
        """Make partitions try a write after their load if the start found too little disk space."""
        deferred_errors = self.data_plane.deferred_errors
        for error in deferred_errors:
            count = self.disk_failures.count_failure(error)
            if count:
                _LOG.error(
                    "Not written at the start, and not needed: %s%s",
                    format_error_reason(error),
                    format_repeats(count),
                )
        if deferred_errors or is_nearly_full(self.settings.files, self.settings.data_dir):
            self.engine.require_write_trials()

    def _open_groups(self) -> None:
        settings = self.settings
        self.engine = Engine(
            self.loop, self._threads, settings.files, self.group_clock, self.disk_failures, self._on_loaded
        )
        self.offsets_topic = offsets = OffsetsTopic(
            self.directory, self.data_plane, settings.config, self.group_config
        )
        too_small = why_too_small(settings.files, settings.data_dir, offsets.logs.new_partitions)
        if too_small is not None:
            raise StartFailed(too_small)
        self.topic_images = TopicImages(self.data_plane.catalogue)
        if self.cluster is not None:
            self.cluster.apply_shape(offsets.logs)
        topic = offsets.create_internal_topic(
            self.topic_images.get_current, starts_leader_epochs=settings.brokers > 1
        )
        if self.cluster is not None:
            topic = self.cluster.create_replicated_topic(topic, offsets.logs)
        self.runtime = runtime = self.engine.add_topic(topic)
        self.engine.workers.update(create_group_workers(self.run_queue))
        runtime.timer_listeners.append(log_expiry)
        self.engine.observers.append(self.group_events.observe)
        offsets.attach_to_data_plane(runtime, is_needed=self.cluster is not None)
        self.transactions = LazyTransactionCoordinator(
            self.engine,
            self.directory,
            self.data_plane,
            settings,
            (self.metrics, self.line_limit),
            self.on_topics_changed,
        )
        self.topic_images.refresh()

    def _create_routes(self) -> dict[int, Routes]:
        """Create the handlers and return the routes by node id."""
        self.topics = DataPlaneHandler(
            self.data_plane,
            DataPlaneServices(
                self.loop, self._threads, self.request_tasks, self.checkpoints.write_checkpoint
            ),
            self._threads.flusher,
            self.arrival,
            self.engine.next_waiter,
            self.on_topics_changed,
            self._on_topics_missing,
        )
        self.runtime.readable_listeners.append(
            partial(self.topics.on_internal_topic_advanced, CONSUMER_OFFSETS)
        )
        router = GroupRouter(self.runtime, self.group_config)
        transaction_handlers = self.transactions.connect_handlers(
            self.loop, router, self.topics, self.request_tasks, self.arrival
        )
        return create_routes_by_broker(self, router, transaction_handlers)

    async def listen(self, bound: Mapping[str, Sequence[socket.socket]] = MappingProxyType({})) -> None:
        """Open the listeners and start to load the groups.

        Args:
            bound: Sockets that are already bound, by listener name. The server takes ownership of them.

        Raises:
            StartFailed: A listener could not be opened.
        """
        await self.brokers.listen(bound)
        self._start_periodic_jobs()
        if self.settings.config.log_cleaner_enable:
            self.cleaner.start()
        if self.cluster is not None:
            self.cluster.start()
            return
        for partition in self.runtime.partitions:
            self.engine.open_partition(partition.name)
        self.transactions.start_if_needed()

    def _on_loaded(self) -> None:
        if failed := self.engine.list_failed_partitions():
            _LOG.error("%d partitions of coordinators could not be read", len(failed))
        elif not any(
            (
                self.data_plane.list_failed_partitions(),
                self.data_plane.catalogue.undeleted_partitions,
                self.engine.list_unopened_partitions(),
            )
        ):
            self.directory.drop_deleted_logs()
        if any(log.awaits_recovery_point for log in self.logs().values()):
            self.checkpoints.write_due_checkpoints(self.logs())
        self.transactions.on_groups_read()
        if self.cluster is None:
            self.ready.set()

    # Events

    def _record_changes(self, changes: Sequence[TopicChange]) -> None:
        self.metrics.count_changes(changes)
        log_changes(changes, self.line_limit)

    def on_topics_changed(self, changes: Sequence[TopicChange]) -> None:
        """Record changes of topics, and pass them to groups, listeners and ownership."""
        self._record_changes(changes)
        send_group_configs(self.runtime, changes)
        if any(isinstance(change, StoresSet) for change in changes):
            self.brokers.reload_listeners()
        for change in changes:
            if isinstance(change, TopicDeleted):
                self.brokers.forget_topic(change.name)
        if any(isinstance(change, IMAGE_CHANGES) for change in changes):
            self.runtime.notify_all(self.topic_images.refresh())
            for listener in self.topic_listeners:
                listener(changes)

    def _on_topics_missing(self, missing: Sequence[MissingTopic], context: RequestContext) -> None:
        log_missing(missing, context.api_name, context.client.client_id, context.client.host, self.line_limit)

    # Periodic jobs

    def _start_periodic_jobs(self) -> None:
        config = self.settings.config
        if config.connections_max_idle_ms > 0:
            self._periodic_jobs.run_every(
                max(100, config.connections_max_idle_ms // 4), self.connections.close_idle
            )
        if self.connections.memory.is_bounded:
            stall_ms = self.connections.limits.queued_max_request_stall_ms
            self._periodic_jobs.run_every(stall_ms, self.connections.memory.abort_stalled)
        self._periodic_jobs.run_every(ADDRESS_PERIOD_MS, self.connections.line_limit.log_summary)
        if config.log_flush_offset_checkpoint_interval_ms > 0:
            self._periodic_jobs.run_every(
                config.log_flush_offset_checkpoint_interval_ms, self._write_checkpoints
            )
        self._periodic_jobs.run_in_slices_every(
            config.log_retention_check_interval_ms, self.topics.apply_retention
        )
        self._periodic_jobs.run_every(config.log_retention_check_interval_ms, self.engine.expire_producers)
        if config.log_flush == LogFlush.INTERVAL:
            self._periodic_jobs.run_every(max(1, config.log_flush_interval_ms), self._sync_all)

    def logs(self) -> dict[TopicPartition, PartitionLog]:
        """Return every open log."""
        return {**self.data_plane.list_logs(), **self.engine.list_open_logs()}

    def _write_checkpoints(self) -> None:
        logs = self.logs()
        self.checkpoints.write_due_checkpoints(logs)
        self.flusher.settle_logs(log for log in logs.values() if log.journal is not None and log.is_dirty)
        for states in self.engine.state_keepers:
            states.write_due()

    def _sync_all(self) -> None:
        self.engine.sync_dirty()
        self.topics.sync_dirty_logs()

    # Closing

    async def close(self) -> None:
        """Stop accepting, answer pending requests, write all state, and close. Raises the disk's errors."""
        if self.is_closing:
            return
        self.is_closing = True
        if self.cluster is not None:
            await self.cluster.leave()
        self.brokers.close()
        self._periodic_jobs.stop()
        await self.cleaner.stop()
        await self.engine.shut_down()
        self.transactions.close()
        self.topics.complete_all_fetches()
        self._sync_all()
        await self.flusher.drain(self._find_awaited_logs())
        await self.checkpoints.stop()
        for states in self.engine.state_keepers:
            await states.stop()
        taken = [(states, states.capture_final_states()) for states in self.engine.state_keepers]
        self.engine.fail_waiters()
        # One iteration, in which the write batcher writes the last answers.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self.connections.close_all(CLOSE_TIMEOUT_S)
        for states, last in taken:
            await states.write_final_states(last)
        await self.flusher.drain(self._find_awaited_logs())
        self._close_threads()
        self.request_tasks.stop()
        failed = [*self.data_plane.list_failed_partitions(), *self.data_plane.catalogue.undeleted_partitions]
        failed += self.engine.list_failed_partitions()
        if self.cluster is None:
            failed += self.engine.list_unopened_partitions()
        else:  # its logs are copies
            await self.cluster.close()
        await self.security.stop()
        self.directory.close(self.logs(), failed)

    def _find_awaited_logs(self) -> set[PartitionLog]:
        """Return the logs that a stop waits for: the open ones, and the ones with waiting Produce requests."""
        return {*self.logs().values(), *self.topics.produce_purgatory.awaited_logs}

    def _close_threads(self) -> None:
        if hasattr(self, "topics"):
            self.topics.services.close()
        if self._shared_threads is None:
            self._threads.close()
        else:
            self.engine.stop_listening()
            if hasattr(self, "topics"):
                self.topics.stop_listening()

    def abandon(self) -> None:
        """Stop at once without writing anything, as in a crash or after a failed start."""
        self.brokers.close()
        self._periodic_jobs.stop()
        if self.cluster is not None:
            self.cluster.abandon()
        if hasattr(self, "cleaner"):
            self.cleaner.abandon()
            self.checkpoints.abandon()
        if hasattr(self, "engine"):
            self.engine.abandon()
        if hasattr(self, "_threads"):
            self._close_threads()
        self.directory.abandon()


def declare_topics(data_plane: DataPlane, topics: Iterable[tuple[str, int]]) -> list[TopicChange]:
    """Create topics, or add partitions to them, and return the changes.

    Args:
        data_plane: Topics of the server.
        topics: Names and numbers of partitions.

    Raises:
        StartFailed: A declaration is invalid.
        StorageError, OSError: The disk failed.
    """
    changes: list[TopicChange] = []
    for name, partitions in topics:
        try:
            change = data_plane.declare_topic(name, partitions)
        except (ValueError, DeclaredTopicShrinks, TooManyPartitions) as error:
            raise StartFailed(f"topic {name}:{partitions}: {error}") from error
        if change is not None:
            changes.append(change)
    return changes


class PeriodicJobs:
    """Work that repeats at intervals. A disk failure is logged, and the next interval repeats the work."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, run_queue: RunQueue, failures: OngoingFailures
    ) -> None:
        self._loop = loop
        self._run_queue = run_queue
        self._failures = failures
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self._tasks: dict[object, asyncio.Task[None]] = {}

    def run_every(self, interval_ms: int, work: Callable[[], None]) -> None:
        """Call a function after each interval."""

        def run() -> None:
            self._timers[work] = self._loop.call_later(interval_ms / 1000, run)
            try:
                work()
            except (OSError, StorageError) as error:
                self._report_failure(error)

        self._timers[work] = self._loop.call_later(interval_ms / 1000, run)

    def run_in_slices_every(
        self, interval_ms: int, work: Callable[[Budget], Coroutine[Any, Any, None]]
    ) -> None:
        """Run a coroutine after each interval, in slices of time. Two runs of it never overlap."""

        def run() -> None:
            self._timers[work] = self._loop.call_later(interval_ms / 1000, run)
            if work not in self._tasks:
                task = self._tasks[work] = self._loop.create_task(work(TimeBudget(self._run_queue)))
                task.add_done_callback(partial(self._on_task_done, work))

        self._timers[work] = self._loop.call_later(interval_ms / 1000, run)

    def _on_task_done(self, work: object, task: "asyncio.Task[None]") -> None:
        del self._tasks[work]
        problem = None if task.cancelled() else task.exception()
        if isinstance(problem, OSError | StorageError):
            self._report_failure(problem)
        elif problem is not None:
            _LOG.error("Upkeep failed", exc_info=problem)

    def _report_failure(self, error: OSError | StorageError) -> None:
        count = self._failures.count_failure(error)
        if count:
            _LOG.error(
                "Upkeep failed, and is tried again: %s%s", format_error_reason(error), format_repeats(count)
            )

    def stop(self) -> None:
        """Begin no more work, and cancel the coroutines at their next checkpoint."""
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks.values():
            task.cancel()
