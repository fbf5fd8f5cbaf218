"""Creates the parts of a server and connects them.

    data directory ─▶ data plane ─▶ handlers ─▶ routes ─▶ endpoints ─▶ connections
                  └─▶ runtime (groups) ─┘
No other module does so. Each part registers its `close` and `abandon` in `ServerExits` when it is created, so that
a failed start ends the open parts. Topics that the settings declare exist when the server is open.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct, field

from coordinator.apis.data_plane_handler import DataPlaneHandler
from coordinator.apis.data_plane_work import DataPlaneServices
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.request_task import RequestTasks
from coordinator.broker.api_routes import RouteServices, create_routes_by_broker
from coordinator.broker.broker_listeners import BrokerSet
from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.checkpoint_writer import CheckpointWriter
from coordinator.broker.data_directory_errors import is_nearly_full, why_too_small, why_unusable
from coordinator.broker.group_event_log import GroupEventBus, log_expiry
from coordinator.broker.group_executor import create_group_workers
from coordinator.broker.internal_topics import (
    OffsetsTopic,
    TopicChangePublisher,
    TopicImages,
    send_group_configs,
)
from coordinator.broker.lazy_transaction_coordinator import LazyTransactionCoordinator
from coordinator.broker.log_cleaner import LogCleaner, list_compactable_logs
from coordinator.broker.server import PeriodicJobs, Server, ServerExits
from coordinator.broker.server_settings import ServerSettings, create_data_plane_config, list_broker_configs
from coordinator.broker.services import ClusterMembership, SingleBrokerMembership
from coordinator.broker.topic_log_lines import log_missing, log_startup_problems
from coordinator.broker.transaction_services import TransactionServices
from coordinator.config.config_def import InvalidConfig
from coordinator.core.clock import Arrival
from coordinator.core.daemon_log import LogLineLimit, OngoingFailures, format_repeats
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.core.time_budget import RunQueue
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_shard import GroupShard
from coordinator.network.connection_limits import create_connection_limits
from coordinator.network.connections import Connections
from coordinator.network.endpoint import WriteBatcher
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Routes
from coordinator.runtime.engine import Engine
from coordinator.runtime.runtime import Runtime
from coordinator.runtime.timers import GroupClock, ProcessClock
from coordinator.runtime.worker_threads import WorkerThreads
from coordinator.security.lazy_security import LazySecurity
from coordinator.topics.data_plane import DataPlane, DataPlaneEnvironment
from coordinator.topics.data_plane_answer import MissingTopic
from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from coordinator.topics.topic import random_topic_id
from storage.data_directory import DataDirectory
from storage.files import find_open_files_limit
from storage.metadata_files import MetaProperties
from storage.storage_errors import StorageError, format_error_reason
from storage.topic_partition import uuid_to_text

_LOG: Final = logging.getLogger("KafkaServer")


def open_server(
    settings: ServerSettings,
    *,
    threads: WorkerThreads | None = None,
    group_clock: GroupClock | None = None,
    membership: ClusterMembership | None = None,
    run_queue: RunQueue | None = None,
) -> Server:
    """Open a server in a running event loop.

    Args:
        settings: Settings of the server.
        threads: Threads shared by several servers in one process. Their creator closes them.
        group_clock: Clock of the groups, if it differs from the process's clock.
        membership: The cluster on etcd that this daemon belongs to; None: the brokers of the settings.
        run_queue: Run queue of the event loop. All servers on one loop must share it: each queue resumes one
            worker in an iteration, so a queue for each server would lengthen the iterations.

    Raises:
        StartFailed: The data directory or a setting is not usable.
    """
    loop = asyncio.get_running_loop()
    if membership is None:
        membership = create_local_membership(settings)
    arrival = membership.create_arrival()
    root = CompositionRoot(
        settings=settings,
        membership=membership,
        loop=loop,
        arrival=arrival,
        group_clock=ProcessClock(arrival) if group_clock is None else group_clock,
        run_queue=RunQueue(loop) if run_queue is None else run_queue,
        shared_threads=threads,
    )
    directory = root.open_directory()
    try:
        return root.open_server(directory)
    except (OSError, StorageError) as error:
        root.exits.abandon()
        raise StartFailed(why_unusable(settings.files, settings.data_dir, error)) from error
    except InvalidConfig as error:
        root.exits.abandon()
        raise StartFailed(str(error)) from error
    except BaseException:
        root.exits.abandon()
        raise


def create_local_membership(settings: ServerSettings) -> ClusterMembership:
    """Return the membership of the brokers of one process."""
    if settings.brokers == 1:
        return SingleBrokerMembership(settings)
    from coordinator.broker.in_process_membership import InProcessMembership  # for several brokers only

    return InProcessMembership(settings)


class _Storage(Struct, frozen=True, eq=False):
    directory: DataDirectory
    connections: Connections
    topic_changes: TopicChangePublisher
    data_plane: DataPlane
    security: LazySecurity


class _Workers(Struct, frozen=True, eq=False):
    request_tasks: RequestTasks
    threads: WorkerThreads
    checkpoints: CheckpointWriter


class _GroupParts(Struct, frozen=True, eq=False):
    config: GroupConfig
    events: GroupEventBus
    engine: Engine
    offsets_topic: OffsetsTopic
    images: TopicImages
    runtime: Runtime[GroupShard]


class _Handlers(Struct, frozen=True, eq=False):
    topics: DataPlaneHandler
    transactions: LazyTransactionCoordinator


class CompositionRoot(Struct, frozen=True, eq=False, kw_only=True):
    """Creates the parts of one server, in the order in which they need each other."""

    settings: ServerSettings
    membership: ClusterMembership
    loop: asyncio.AbstractEventLoop
    arrival: Arrival
    group_clock: GroupClock
    run_queue: RunQueue
    shared_threads: WorkerThreads | None
    exits: ServerExits = field(default_factory=ServerExits)
    metrics: BrokerMetrics = field(default_factory=BrokerMetrics)
    line_limit: LogLineLimit = field(default_factory=LogLineLimit)
    disk_failures: OngoingFailures = field(default_factory=lambda: OngoingFailures("LogManager"))

    def open_directory(self) -> DataDirectory:
        """Open the data directory, and lock it. Raises StartFailed."""
        settings, config = self.settings, self.settings.config
        new = MetaProperties(
            settings.cluster_id or uuid_to_text(random_topic_id()),
            config.node_id,
            uuid_to_text(random_topic_id()),
        )
        journal_file_bytes = self.membership.find_journal_file_bytes(config.log_journal_file_bytes)
        try:
            return DataDirectory.open(settings.files, settings.data_dir, new, journal_file_bytes)
        except StorageError as error:
            raise StartFailed(why_unusable(settings.files, settings.data_dir, error)) from error

    def open_server(self, directory: DataDirectory) -> Server:
        """Open all parts over a data directory. After an error the caller abandons `exits`.

        Raises:
            StartFailed, InvalidConfig: A setting is not usable.
            StorageError, OSError: The disk failed.
        """
        self.exits.push(close=lambda: server.close_directory(), abandon=directory.abandon)
        self.exits.push(abandon=self.membership.abandon)
        storage = self._open_storage(directory)
        self.exits.push(close=storage.security.stop)
        self.exits.push(close=self.membership.close)
        workers = self._create_workers(directory)
        groups = self._open_groups(storage, workers)
        handlers = self._create_handlers(storage, workers, groups)
        self.exits.push(close=lambda: server.drain(), abandon=storage.connections.abort_all)
        server = self._create_server(storage, workers, groups, handlers)
        storage.topic_changes.listeners += [
            partial(send_group_configs, server.runtime),
            server.brokers.on_topics_changed,
            partial(server.topic_images.on_topics_changed, server.runtime),
        ]
        server.engine.loaded_listeners.append(server.on_coordinators_loaded)
        self.membership.connect_services(server)
        return server

    # Storage

    def _open_storage(self, directory: DataDirectory) -> _Storage:
        owner, config = directory.meta.node_id, self.settings.config
        if owner != config.node_id:
            raise StartFailed(
                f"{self.settings.data_dir} belongs to node {owner}, but node.id is {config.node_id}: set "
                f"node.id={owner}, or use another log.dirs"
            )
        self.membership.prepare_directory(directory)
        connections = Connections(self.loop, create_connection_limits(config))
        topic_changes = TopicChangePublisher(self.metrics, self.line_limit)
        data_plane = self._open_data_plane(directory, connections, topic_changes)
        security = LazySecurity(directory, config, self.disk_failures, self.membership.security_storage)
        return _Storage(directory, connections, topic_changes, data_plane, security)

    def _open_data_plane(
        self, directory: DataDirectory, connections: Connections, topic_changes: TopicChangePublisher
    ) -> DataPlane:
        """Open the topics, and create the declared ones."""
        settings, membership = self.settings, self.membership
        data_plane = DataPlane.open(
            directory,
            create_data_plane_config(settings.config, settings.properties, find_open_files_limit()),
            environment=DataPlaneEnvironment(
                ownership=membership.ownership,
                records=membership.topic_records,
                reserve_producer_ids=membership.reserve_producer_ids,
                group_bounds=settings.config,
                broker_configs=list_broker_configs(settings.properties),
                available_fetch_bytes=connections.unread_responses.remaining_bytes,
            ),
        )
        for changes in membership.create_topics_at_start(data_plane):
            topic_changes.record_changes(changes)
        for line in data_plane.catalogue.adoption_messages:
            _LOG.warning("Taken over from another broker: %s", line)
        log_startup_problems(data_plane)
        return data_plane

    # Groups

    def _create_workers(self, directory: DataDirectory) -> _Workers:
        request_tasks = RequestTasks(self.run_queue, self.arrival)
        self.exits.push(close=request_tasks.stop)
        threads = self.shared_threads
        if threads is None:
            threads = WorkerThreads()
            self.exits.push(close=threads.close, abandon=threads.close)
        checkpoints = CheckpointWriter(directory, self.disk_failures)
        self.exits.push(abandon=checkpoints.abandon)
        return _Workers(request_tasks, threads, checkpoints)

    def _open_groups(self, storage: _Storage, workers: _Workers) -> _GroupParts:
        settings, membership = self.settings, self.membership
        config = settings.config.view(GroupConfig)
        engine = Engine(self.loop, workers.threads, settings.files, self.group_clock, self.disk_failures)
        if self.shared_threads is not None:
            self.exits.push(close=engine.stop_listening, abandon=engine.stop_listening)
        self.exits.push(abandon=engine.abandon)
        offsets_topic = OffsetsTopic(
            storage.directory,
            storage.data_plane,
            settings.config,
            config,
            membership.find_offsets_topic_shape(),
        )
        too_small = why_too_small(settings.files, settings.data_dir, offsets_topic.logs.new_partitions)
        if too_small is not None:
            raise StartFailed(too_small)
        images = TopicImages(storage.data_plane.catalogue)
        topic = offsets_topic.create_internal_topic(images.get_current)
        runtime = membership.add_internal_topic(engine, topic, offsets_topic.logs)
        engine.workers.update(create_group_workers(self.run_queue))
        runtime.timer_listeners.append(log_expiry)
        events = GroupEventBus(self.metrics, self.line_limit)
        engine.observers.append(events.observe)
        offsets_topic.attach_to_data_plane(runtime, is_needed=membership.lists_offsets_topic)
        images.refresh()
        self._require_write_trials(storage.data_plane, engine)
        return _GroupParts(config, events, engine, offsets_topic, images, runtime)

    def _require_write_trials(self, data_plane: DataPlane, engine: Engine) -> None:
        """Require a trial append of each partition after its load if the start found too little disk space."""
        for error in data_plane.deferred_errors:
            count = self.disk_failures.count_failure(error)
            if count:
                _LOG.error(
                    "Skipped a write at the start that can be made later: %s%s",
                    format_error_reason(error),
                    format_repeats(count),
                )
        if data_plane.deferred_errors or is_nearly_full(self.settings.files, self.settings.data_dir):
            engine.require_write_trials()

    # Handlers

    def _create_handlers(self, storage: _Storage, workers: _Workers, groups: _GroupParts) -> _Handlers:
        def add_or_verify(request: AddOrVerifyRequest) -> asyncio.Future[AddOrVerifyResult]:
            return transactions.add_or_verify_partitions(request)

        def on_topics_missing(missing: Sequence[MissingTopic], context: RequestContext) -> None:
            client = context.client
            log_missing(missing, context.api_name, client.client_id, client.host, self.line_limit)

        work = DataPlaneServices(
            self.loop,
            workers.threads,
            workers.request_tasks,
            workers.checkpoints.write_checkpoint,
            add_or_verify,
            storage.topic_changes.publish_changes,
        )
        self.exits.push(close=work.close, abandon=work.close)
        topics = DataPlaneHandler(
            storage.data_plane,
            work,
            self.membership.route_durability(workers.threads.flusher),
            self.arrival,
            groups.engine.next_waiter,
            on_topics_missing,
        )
        if self.shared_threads is not None:
            self.exits.push(close=topics.stop_listening, abandon=topics.stop_listening)
        groups.runtime.readable_listeners.append(partial(topics.on_internal_topic_advanced, CONSUMER_OFFSETS))
        transactions = LazyTransactionCoordinator(
            TransactionServices(
                settings=self.settings,
                loop=self.loop,
                directory=storage.directory,
                engine=groups.engine,
                data_plane=storage.data_plane,
                groups=GroupRouter(groups.runtime, groups.config),
                topics=topics,
                tasks=workers.request_tasks,
                arrival=self.arrival,
                metrics=self.metrics,
                line_limit=self.line_limit,
                on_topics_changed=storage.topic_changes.publish_changes,
                cluster=self.membership,
            )
        )
        return _Handlers(topics, transactions)

    def _create_cleaner(self, storage: _Storage, workers: _Workers, groups: _GroupParts) -> LogCleaner:
        config, catalogue = self.settings.config, storage.data_plane.catalogue
        kept = groups.runtime if config.offsets_history == "keep" else None
        cleaner = LogCleaner(
            storage.directory,
            workers.checkpoints,
            partial(list_compactable_logs, catalogue.iterate_hosted, groups.engine.runtimes, kept),
            max(1, config.log_cleaner_backoff_ms),
            self.disk_failures,
            self.run_queue,
        )
        self.exits.push(close=cleaner.stop, abandon=cleaner.abandon)
        return cleaner

    def _create_routes(
        self,
        storage: _Storage,
        tasks: RequestTasks,
        groups: _GroupParts,
        handlers: _Handlers,
        node_ids: Iterable[int],
    ) -> dict[int, Routes]:
        return create_routes_by_broker(
            RouteServices(
                config=self.settings.config,
                cluster_id=storage.directory.meta.cluster_id,
                runtime=groups.runtime,
                group_config=groups.config,
                topics=handlers.topics,
                data_plane=storage.data_plane,
                tasks=tasks,
                transactions=handlers.transactions,
                security=storage.security,
                membership=self.membership,
            ),
            node_ids,
        )

    def _create_server(
        self, storage: _Storage, workers: _Workers, groups: _GroupParts, handlers: _Handlers
    ) -> Server:
        first = self.settings.config.node_id
        brokers = BrokerSet(range(first, first + self.settings.brokers))
        routes = self._create_routes(storage, workers.request_tasks, groups, handlers, brokers.listeners)
        cleaner = self._create_cleaner(storage, workers, groups)
        periodic_jobs = PeriodicJobs(self.loop, self.run_queue, self.disk_failures)
        self.exits.push(close=periodic_jobs.stop, abandon=periodic_jobs.stop)
        self.exits.push(close=brokers.close, abandon=brokers.close)
        return Server(
            settings=self.settings,
            loop=self.loop,
            membership=self.membership,
            brokers=brokers,
            metrics=self.metrics,
            line_limit=self.line_limit,
            disk_failures=self.disk_failures,
            arrival=self.arrival,
            group_clock=self.group_clock,
            run_queue=self.run_queue,
            request_tasks=workers.request_tasks,
            connections=storage.connections,
            write_batcher=WriteBatcher(self.loop),
            directory=storage.directory,
            checkpoints=workers.checkpoints,
            cleaner=cleaner,
            security=storage.security,
            flusher=workers.threads.flusher,
            engine=groups.engine,
            data_plane=storage.data_plane,
            topics=handlers.topics,
            topic_changes=storage.topic_changes,
            topic_images=groups.images,
            offsets_topic=groups.offsets_topic,
            runtime=groups.runtime,
            group_config=groups.config,
            group_events=groups.events,
            transactions=handlers.transactions,
            routes_by_broker=routes,
            ready=asyncio.Event(),
            closing=asyncio.Event(),
            exits=self.exits,
            periodic_jobs=periodic_jobs,
        )
