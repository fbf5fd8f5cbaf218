"""The daemon's parts put together: opened, served, closed.

    data directory ─▶ data plane ─▶ handlers ─▶ routes ─▶ endpoints ─▶ connections
                  └─▶ runtime (groups) ─┘

Listeners open before the groups are read: a client that comes early is told that they are loading.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from coordinator import clock
from coordinator.config.config_key import InvalidConfig
from coordinator.engine.engine import Engine
from coordinator.engine.group_clock import GroupClock, ProcessTime
from coordinator.engine.threads import Threads
from coordinator.group.config import GroupConfig
from coordinator.names import CONSUMER_OFFSETS, LogFlush
from coordinator.net.caller import Caller
from coordinator.net.connection_limits import connection_limits
from coordinator.net.connections import Connections
from coordinator.net.endpoint import Endpoint
from coordinator.net.lines_per_address import PERIOD_MS
from coordinator.net.outbox import Outbox
from coordinator.net.routes import Routes
from coordinator.net.run_queue import RunQueue
from coordinator.ongoing_failures import OngoingFailures, times
from coordinator.server.brokers import Brokers
from coordinator.server.checkpoints import Checkpoints
from coordinator.server.cleaner import Cleaner
from coordinator.server.compactable_logs import compactable_logs
from coordinator.server.config_views import broker_configs, topics_config
from coordinator.server.declared_topics import declare_topics
from coordinator.server.group_events import GroupEvents
from coordinator.server.group_work import group_workers
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.topics import TopicsHandler
from coordinator.server.line_limit import LineLimit
from coordinator.server.log_lines import log_expiry
from coordinator.server.metrics import Metrics
from coordinator.server.offsets_topic import OffsetsTopic, tell_group_configs
from coordinator.server.routes_by_broker import routes_by_broker
from coordinator.server.security import Security
from coordinator.server.settings import ServerSettings
from coordinator.server.start_failed import StartFailed
from coordinator.server.topic_images import SHOWN, TopicImages
from coordinator.server.topic_lines import log_changes, log_found, log_missing
from coordinator.server.transactions import Transactions
from coordinator.server.unusable_directory import is_nearly_full, why_too_small, why_unusable
from coordinator.server.upkeep import Upkeep
from coordinator.topics.answer import StoresSet, TopicChange, TopicDeleted
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.missing import TopicMissing
from coordinator.topics.topic import random_topic_id
from storage.data_directory import DataDirectory
from storage.errors import StorageError
from storage.files import most_open_files
from storage.log import PartitionLog
from storage.meta_properties import MetaProperties
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition
from storage.uuid_text import uuid_to_text

if TYPE_CHECKING:
    from coordinator.server.cluster.cluster import EtcdCluster

_LOG = logging.getLogger("KafkaServer")

CLOSE_TIMEOUT_S: Final = 5.0


class Server:
    """One daemon. Made in a running event loop; `open`, then `listen`, then `close`."""

    def __init__(
        self,
        settings: ServerSettings,
        threads: Threads | None = None,
        group_clock: GroupClock | None = None,
        cluster: "EtcdCluster | None" = None,
    ) -> None:
        """In: the threads, where several servers share them; they are then closed by who made them. The time of
        groups, where it is not the process's. The cluster on etcd that it is one daemon of."""
        self.settings = settings
        self.cluster = cluster
        self._shared_threads = threads
        self.loop = asyncio.get_running_loop()
        self.metrics = Metrics()
        self.line_limit = LineLimit()
        self.group_events = GroupEvents(self.metrics, self.line_limit)
        self.arrival = clock.Arrival() if cluster is None else clock.WatchedArrival(cluster.look)
        self.disk_failures = OngoingFailures("LogManager")
        """What the disk refuses: of the groups, and of what is written beside them."""
        self.group_clock = group_clock or ProcessTime(self.arrival)
        self.topic_listeners: list[Callable[[Sequence[TopicChange]], None]] = []
        """Who is told when there are other topics, or partitions, than before."""
        self.connections = Connections(self.loop, connection_limits(settings.config))
        self.outbox = Outbox(self.loop)
        self.run_queue = RunQueue(self.loop)
        self.ready = asyncio.Event()
        """Set when every partition of the groups is loaded, or has failed."""
        self.is_closing = False
        self.brokers = Brokers(self)
        self.listeners = self.brokers.listeners[settings.config.node_id]
        """Those of the first broker, which mostly is the only one."""
        self._upkeep = Upkeep(self.loop, self.disk_failures)

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where clients connect to: one a listener, those of the first broker first."""
        return self.brokers.endpoints

    # Opening

    def open(self) -> None:
        """Opens the data directory and the topics. Raises StartFailed."""
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
            self.cluster.prepare(self.directory)
        try:
            self.data_plane = DataPlane.open(
                self.directory,
                topics_config(config, settings.properties, most_open_files()),
                records=None if self.cluster is None else self.cluster.served.topics,
            )
            if self.cluster is None:
                self._changed(declare_topics(self.data_plane, settings.topics))
        except InvalidConfig as error:
            raise StartFailed(str(error)) from error
        shared = None if self.cluster is None else self.cluster.security
        self.security = Security(self.directory, config, self.disk_failures, shared)
        self.data_plane.ownership = self.brokers.ownership
        self.data_plane.group_bounds = settings.config
        self.data_plane.broker_configs = broker_configs(settings.properties)
        self.data_plane.fetch_room = self.connections.unread.room
        if settings.initial_topics and self.cluster is None:
            from coordinator.server.initial_topics import create_initial_topics  # and CreateTopics

            self._changed(create_initial_topics(self.data_plane, settings.initial_topics))
        for line in self.data_plane.catalogue.adopted:
            _LOG.warning("Taken over from another broker: %s", line)
        log_found(self.data_plane)
        self._threads = self._shared_threads or Threads()
        self.flusher = self._threads.flusher
        self.group_config = config.view(GroupConfig)
        self._open_groups()
        self._doubt_disk()
        self.checkpoints = Checkpoints(self.directory, self.disk_failures)
        kept = self.runtime if config.offsets_history == "keep" else None
        self.cleaner = Cleaner(
            self.directory,
            self.checkpoints,
            partial(compactable_logs, self.data_plane.catalogue.hosted, self.engine.runtimes, kept),
            max(1, config.log_cleaner_backoff_ms),
            self.disk_failures,
        )
        self.routes_by_broker = self._make_routes()
        if self.cluster is not None:
            self.cluster.attach(self)
        self.routes = self.routes_by_broker[config.node_id]

    def _doubt_disk(self) -> None:
        """What a start finds no room for tells that commits may find none either."""
        put_off = self.data_plane.put_off
        for error in put_off:
            count = self.disk_failures.counted(error)
            if count:
                _LOG.error("Not written at the start, and not needed: %s%s", reason_of(error), times(count))
        if put_off or is_nearly_full(self.settings.files, self.settings.data_dir):
            self.engine.doubt()

    def _open_groups(self) -> None:
        settings = self.settings
        self.engine = Engine(
            self.loop, self._threads, settings.files, self.group_clock, self.disk_failures, self._loaded
        )
        self.offsets_topic = offsets = OffsetsTopic(
            self.directory, self.data_plane, settings.config, self.group_config
        )
        too_small = why_too_small(settings.files, settings.data_dir, offsets.logs.new_partitions)
        if too_small is not None:
            raise StartFailed(too_small)
        self.topic_images = TopicImages(self.data_plane.catalogue)
        if self.cluster is not None:
            self.cluster.shape(offsets.logs)
        topic = offsets.internal_topic(self.topic_images.current, begins_epochs=settings.brokers > 1)
        if self.cluster is not None:
            topic = self.cluster.replicated(topic, offsets.logs)
        self.runtime = runtime = self.engine.add(topic)
        self.engine.workers.update(group_workers())
        runtime.fired = log_expiry
        self.engine.observers.append(self.group_events.observe)
        offsets.show(runtime)
        self.transactions = Transactions(
            self.engine,
            self.directory,
            self.data_plane,
            settings,
            (self.metrics, self.line_limit),
            self.topics_changed,
        )
        self.topic_images.renew()

    def _make_routes(self) -> dict[int, Routes]:
        """By node id."""
        self.topics = TopicsHandler(
            self.loop,
            self.data_plane,
            self._threads,
            self.run_queue,
            self.arrival,
            self.engine.next_waiter,
            self.topics_changed,
            self._missed,
            self.checkpoints.write,
        )
        self.runtime.advanced = partial(self.topics.internal_advanced, CONSUMER_OFFSETS)
        router = GroupRouter(self.runtime, self.group_config)
        of_transactions = self.transactions.connect(
            self.loop, router, self.topics, self.run_queue, self.arrival
        )
        return routes_by_broker(self, router, of_transactions)

    async def listen(self, bound: Mapping[str, Sequence[socket.socket]] = MappingProxyType({})) -> None:
        """Opens the listeners and begins to read the groups. In: sockets that are bound already, by the listener's
        name; they belong to the server then. Raises StartFailed."""
        await self.brokers.listen(bound)
        self._start_upkeep()
        if self.settings.config.log_cleaner_enable:
            self.cleaner.start()
        if self.cluster is not None:
            self.cluster.start()
            return
        for partition in self.runtime.partitions:
            self.runtime.ownership.take(partition, epoch=0)
        self.transactions.begin_at_start()

    def _loaded(self) -> None:
        if failed := self.engine.failed():
            _LOG.error("%d partitions of coordinators could not be read", len(failed))
        elif not any((self.data_plane.failed(), self.data_plane.catalogue.left, self.engine.not_open())):
            self.directory.forget_deleted()
        if any(log.awaits_record for log in self.logs().values()):
            self.checkpoints.write_due(self.logs())
        self.transactions.groups_read()
        if self.cluster is None:
            self.ready.set()

    # What happens

    def _changed(self, changes: Sequence[TopicChange]) -> None:
        self.metrics.count_changes(changes)
        log_changes(changes, self.line_limit)

    def topics_changed(self, changes: Sequence[TopicChange]) -> None:
        """Tells everybody what became of topics."""
        self._changed(changes)
        tell_group_configs(self.runtime, changes)
        if any(isinstance(change, StoresSet) for change in changes):
            self.brokers.renew_listeners()
        for change in changes:
            if isinstance(change, TopicDeleted):
                self.brokers.forget(change.name)
        if any(isinstance(change, SHOWN) for change in changes):
            self.runtime.tell_all(self.topic_images.renew())
            for listener in self.topic_listeners:
                listener(changes)

    def _missed(self, missing: Sequence[TopicMissing], caller: Caller) -> None:
        log_missing(missing, caller.api_name, caller.client_id, caller.client_host, self.line_limit)

    # Upkeep

    def _start_upkeep(self) -> None:
        config = self.settings.config
        if config.connections_max_idle_ms > 0:
            self._upkeep.every(max(100, config.connections_max_idle_ms // 4), self.connections.close_idle)
        if self.connections.memory.is_bounded:
            stall_ms = self.connections.limits.queued_max_request_stall_ms
            self._upkeep.every(stall_ms, self.connections.memory.give_up_stalled)
        self._upkeep.every(PERIOD_MS, self.connections.lines.sum_up)
        if config.log_flush_offset_checkpoint_interval_ms > 0:
            self._upkeep.every(config.log_flush_offset_checkpoint_interval_ms, self._write_checkpoints)
        self._upkeep.every(config.log_retention_check_interval_ms, self.topics.sweep)
        self._upkeep.every(config.log_retention_check_interval_ms, self.engine.expire_producers)
        if config.log_flush == LogFlush.INTERVAL:
            self._upkeep.every(max(1, config.log_flush_interval_ms), self._sync_all)

    def logs(self) -> dict[TopicPartition, PartitionLog]:
        """Every open log."""
        return {**self.data_plane.logs(), **self.engine.logs()}

    def _write_checkpoints(self) -> None:
        logs = self.logs()
        self.checkpoints.write_due(logs)
        self.flusher.settle(log for log in logs.values() if log.journal is not None and log.is_dirty)
        for states in self.engine.states:
            states.write_due()

    def _sync_all(self) -> None:
        self.engine.sync_dirty()
        self.topics.sync_dirty()

    # Closing

    async def close(self) -> None:
        """Stops accepting, answers what waits, writes everything, closes. Raises what the disk refused."""
        if self.is_closing:
            return
        self.is_closing = True
        if self.cluster is not None:
            await self.cluster.leave()
        self.brokers.close()
        self._upkeep.stop()
        await self.cleaner.stop()
        await self.engine.shut_down()
        self.transactions.close()
        self.topics.complete_all()
        self._sync_all()
        await self.flusher.drain(self._awaited_logs())
        await self.checkpoints.stop()
        for states in self.engine.states:
            await states.stop()
        taken = [(states, states.take_last()) for states in self.engine.states]
        self.engine.give_up_waiters()
        # One iteration, in which the outbox writes the last answers.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await self.connections.close_all(CLOSE_TIMEOUT_S)
        for states, last in taken:
            await states.write_last(last)
        await self.flusher.drain(self._awaited_logs())
        self._close_threads()
        self.topics.stop_steps()
        failed = [*self.data_plane.failed(), *self.data_plane.catalogue.left]
        failed += self.engine.failed()
        if self.cluster is None:
            failed += self.engine.not_open()
        else:  # its logs are copies
            await self.cluster.close()
        await self.security.stop()
        self.directory.close(self.logs(), failed)

    def _awaited_logs(self) -> set[PartitionLog]:
        """The logs whose syncs are waited for at a stop: those that are open, and those that somebody waits for."""
        return {*self.logs().values(), *self.topics.durable.logs}

    def _close_threads(self) -> None:
        if hasattr(self, "topics"):
            self.topics.close()
        if self._shared_threads is None:
            self._threads.close()
        else:
            self.engine.stop_listening()
            if hasattr(self, "topics"):
                self.topics.stop_listening()

    def abandon(self) -> None:
        """Lets go of everything at once, as a crash would; for a start that fails half-way."""
        self.brokers.close()
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
