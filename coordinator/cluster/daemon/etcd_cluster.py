"""A daemon as a member of a cluster on etcd: creates the parts of the cluster, connects them to the server,
and shuts them down.

    join_cluster ─▶ read_cluster ─▶ prepare_directory ─▶ connect_services ─▶ start ─▶ … ─▶ leave ─▶ close
`join_cluster` runs before the server opens anything; an unreachable store or unsuitable settings stop the
start.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn
from uuid import uuid4

from msgspec.structs import replace

from coordinator.broker.broker_metrics import EtcdMetrics
from coordinator.broker.internal_topics import InternalTopicLogs, InternalTopicShape
from coordinator.broker.server_settings import ServerSettings
from coordinator.broker.services import ClusterMembership, OwnershipObserver, Services
from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.cluster_session import ClusterSession
from coordinator.cluster.daemon.cluster_identity import (
    REMEDY,
    ClusterIdentity,
    ClusterNotFound,
    create_identity,
    prepare_directory,
    read_or_create_identity,
    why_no_new_cluster,
)
from coordinator.cluster.daemon.cluster_transactions import ClusterTransactions
from coordinator.cluster.daemon.deleted_topic_offsets import DeletedTopicOffsets
from coordinator.cluster.daemon.etcd_connection import create_etcd_store
from coordinator.cluster.daemon.etcd_ownership import EtcdOwnership
from coordinator.cluster.daemon.etcd_status import (
    EtcdClient,
    EtcdHealth,
    EtcdView,
    read_key_snapshot,
    wait_for_etcd,
)
from coordinator.cluster.daemon.owned_partitions import OwnedPartitions, PartitionMoves
from coordinator.cluster.daemon.refresh_unknown_topics import UnknownTopicRefresh
from coordinator.cluster.daemon.replicated_bytes_limit import ReplicatedBytesLimit
from coordinator.cluster.daemon.replicated_logs import LogSealer, ReplicatedLogs, limit_segment_size
from coordinator.cluster.daemon.shared_catalogue import SharedCatalogue
from coordinator.cluster.daemon.shared_security import SharedSecurity
from coordinator.cluster.key_value_store import KeyValueStoreError
from coordinator.cluster.member.append_sender import AppendSender
from coordinator.cluster.member.cluster_member import ClusterMember
from coordinator.cluster.member.cluster_table import encode_registration
from coordinator.cluster.partition_appends import PartitionAppender, PartitionId
from coordinator.cluster.partition_claims import PartitionToken
from coordinator.cluster.partition_log_store import PartitionLogStore
from coordinator.cluster.partition_ownership import ClusterChangeRefused, ClusterOperationError
from coordinator.config.config_errors import ConfigError
from coordinator.config.listener_security import find_inter_broker_listener
from coordinator.core import clock
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE, LogFlush
from coordinator.network.request_routes import Routes
from coordinator.runtime.coordinator_partition import EngineContext
from coordinator.runtime.engine import Engine
from coordinator.runtime.flusher import DurabilityBackend, Flusher, RoutedDurability
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.replication import ReplicatedRuntime, Replication, Ticket
from coordinator.runtime.runtime import Runtime
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import TopicChange, TopicDeleted
from coordinator.topics.topic import random_topic_id
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Cluster")
_LEAVE_TIMEOUT_S: Final = 5.0


async def join_cluster(settings: ServerSettings) -> "EtcdCluster":
    """Create the membership in the configured cluster and read its keys. Raises StartFailed."""
    config, cluster_id = settings.config, settings.cluster_id
    why_not = why_no_member(settings)
    if why_not is not None:
        raise StartFailed(why_not)
    assert cluster_id is not None
    store = create_etcd_store(config, settings.files)
    cluster = EtcdCluster(settings, store, ClusterKeys(cluster_id, config.cluster_etcd_prefix))
    try:
        await cluster.read_cluster()
    except BaseException:
        await store.close()
        raise
    return cluster


def why_no_member(settings: ServerSettings) -> str | None:
    """Return why the settings do not allow a cluster member; None if they do."""
    config = settings.config
    if settings.cluster_id is None:
        return (
            "cluster.etcd.endpoints: a cluster needs CLUSTER_ID in the environment, the same for all brokers"
        )
    if settings.brokers > 1:
        return "--brokers is for several brokers in one process; a cluster has one in each"
    missing = [each.name for each in settings.listeners if each.advertised is None]
    if missing:
        return (
            f"advertised.listeners: in a cluster {missing[0]} needs an address that other brokers can reach"
        )
    try:
        find_inter_broker_listener(config, settings.properties, settings.listeners)
    except ConfigError as error:
        return str(error)
    return None


class EtcdCluster(ClusterMembership):
    """The membership of a daemon in a cluster on etcd. All methods belong to the event loop's thread."""

    ownership: EtcdOwnership
    transactions: ClusterTransactions

    def __init__(self, settings: ServerSettings, store: EtcdClient, keys: ClusterKeys) -> None:
        self._settings = settings
        self._config = config = settings.config
        self.store = store
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self.member: ClusterMember | None = None
        self.partition_moves = PartitionMoves(
            store,
            keys,
            self._require_member,
            lambda *arguments: self.ownership.why_not_movable(*arguments),
            self._run_in_background,
        )
        self.ownership = EtcdOwnership(
            self._require_member,
            lambda: self.catalogue.keys,
            config.node_id,
            self.partition_moves.pin_partition,
            self._start_reassignment,
            lambda name: self.owned_partitions.topics.is_open(name),
        )
        self.catalogue = SharedCatalogue(
            self._loop, store, CatalogueKeys(store, keys, self.ownership.place_new_topic)
        )
        self.replicated_bytes = ReplicatedBytesLimit(
            store, keys, config.node_id, config.cluster_topics_max_bytes
        )
        self.appends = AppendSender(
            store,
            PartitionAppender(keys),
            self._on_append_done,
            self._on_append_failed,
            config.broker_session_timeout_ms / 1000,
        )
        self.owned_partitions = OwnedPartitions(
            self._require_member,
            self.partition_moves,
            self._drop_partition,
            self.replicated_bytes.reserve_bytes,
        )
        self.security = SharedSecurity(store, keys)
        self.health = EtcdHealth(store, config.cluster_etcd_quota_bytes)
        self.replication = Replication(self, self.owned_partitions.doubt_partition)
        self._log_store = PartitionLogStore(store, keys)
        self.identity = ClusterIdentity(0, b"")
        self.transactions = ClusterTransactions(
            store,
            keys,
            self.ownership,
            settings,
            lambda partitions: self._require_member().add_coordinated_topic(TRANSACTION_STATE, partitions),
        )
        self.topic_records = self.owned_partitions.topics
        self.security_storage = self.security
        self.reserve_producer_ids = self.catalogue.reserve_producer_ids
        self.lists_offsets_topic = True
        self._logs: ReplicatedLogs
        self._sealer: LogSealer
        self._services: Services
        self._tasks: set[asyncio.Task[None]] = set()

    def _require_member(self) -> ClusterMember:
        assert self.member is not None, "the cluster is not started"
        return self.member

    # Start

    async def read_cluster(self) -> None:
        """Read the keys that the start needs. Raises StartFailed."""
        await wait_for_etcd(self.store, self._read_keys)

    async def _read_keys(self) -> None:
        settings, config = self._settings, self._config
        assert settings.cluster_id is not None
        why_not = why_no_new_cluster(settings.files, settings.data_dir, settings.cluster_id)
        new = None if why_not else create_identity(config.offsets_topic_num_partitions, random_topic_id())
        try:
            self.identity = await read_or_create_identity(self.store, self._keys, new)
        except ClusterNotFound as error:
            if why_not is None:
                raise
            raise StartFailed(f"{why_not}; {error}. {REMEDY}") from error
        await self.catalogue.keys.read_cluster_entry()
        await self.transactions.read_shape(config.transaction_state_log_num_partitions)
        await self.catalogue.read_keys()
        await self.security.read_state()

    def prepare_directory(self, directory: DataDirectory) -> None:
        """Mark a data directory as one of this cluster, and delete its copies. Raises StartFailed,
        StorageError, OSError.
        """
        assert self._settings.cluster_id is not None
        prepare_directory(directory, self._settings.cluster_id, self.identity)
        self._logs = ReplicatedLogs(
            self._loop, self._log_store, directory, self.replication, self._find_token
        )
        self.catalogue.write_copy(directory)

    def create_arrival(self) -> clock.Arrival:
        """Return a clock that checks the session, so that no request is answered after its deadline."""
        return clock.WatchedArrival(self.check_session)

    def find_journal_file_bytes(self, configured_bytes: int) -> int:
        """Return 0: the logs of coordinators are copies."""
        return 0

    def create_topics_at_start(self, data_plane: DataPlane) -> Iterator[Sequence[TopicChange]]:
        """Yield nothing: the topics are created once the daemon has a session."""
        yield from ()

    def find_offsets_topic_shape(self) -> InternalTopicShape:
        """Return the partition count and the id that the cluster gives `__consumer_offsets`."""
        partitions = self.identity.partitions
        return InternalTopicShape(partitions, self.identity.topic_id, new_partitions=partitions)

    def route_durability(self, flusher: Flusher) -> DurabilityBackend:
        """Return a backend that sends replicated logs to etcd, and others to the disk."""
        return RoutedDurability(flusher, self.replication)

    def add_internal_topic(
        self, engine: Engine, topic: InternalTopic[M], logs: InternalTopicLogs
    ) -> Runtime[M]:
        """Create the runtime of an internal topic with logs in etcd."""
        config = limit_segment_size(logs.config)

        def open_log(number: int) -> PartitionLog:
            return self._logs.open_log(TopicPartition(topic.name, number), config, logs.topic_id)

        def create_runtime(topic: InternalTopic[M], context: EngineContext) -> Runtime[M]:
            return ReplicatedRuntime(topic, context, self.replication)

        replicated = replace(topic, flush=LogFlush.ALWAYS, open_log=open_log, starts_leader_epochs=False)
        return engine.add_topic(replicated, create_runtime)

    def wrap_routes(self, routes: Routes, data_plane: DataPlane) -> Routes:
        """Return routes that look up unknown topics in etcd before they answer that a topic does not exist."""
        return UnknownTopicRefresh(data_plane.catalogue, self.catalogue.refresh_topics).wrap_routes(routes)

    def connect_services(self, services: Services) -> None:
        """Take the open parts of the server."""
        self._services = services
        self.catalogue.attach_catalogue(
            services.data_plane.catalogue,
            services.directory,
            services.run_queue,
            services.topic_changes.publish_changes,
        )
        self.transactions.connect_services(services)
        self.owned_partitions.connect_services(services)
        self._sealer = LogSealer(
            self._log_store,
            self._logs,
            self.owned_partitions.iterate_logs,
            self.owned_partitions.doubt_partition,
        )
        self.owned_partitions.topics.connect_services(services, self._logs, self._sealer)
        services.topic_images.listeners.append(self._on_topics_changed)
        DeletedTopicOffsets(self.catalogue, services, self._run_in_background)

    def on_listener_bound(self, node_id: int, listener: str, port: int) -> None:
        """Do nothing: `start` registers the addresses of all listeners."""

    def on_groups_loaded(self, ready: asyncio.Event) -> None:
        """Do nothing: `ready` also waits for the session and the first partitions."""

    def start(self) -> None:
        """Register the broker, once its listeners are open, and start to claim partitions."""
        services, config = self._services, self._config
        listeners = {
            each.listener.name: (each.fallback_node.host, each.fallback_node.port)
            for each in services.endpoints
        }
        self.member = ClusterMember(
            self.store,
            self._keys,
            ClusterSession(
                self._keys,
                config.node_id,
                encode_registration(uuid4().hex, listeners, config.broker_rack),
                config.broker_session_timeout_ms,
                self.catalogue.keys.cluster_entry,
            ),
            config.cluster_move_delay_ms,
            {CONSUMER_OFFSETS: self.identity.partitions},
            self.catalogue.find_replicated_topics,
            self.owned_partitions,
        )
        self.catalogue.start()
        self.transactions.start()
        self.security.start()
        self.member.start()
        self._sealer.start()
        self.replicated_bytes.start(self.member.keeper, self._count_topic_bytes)
        self.health.start()
        self._run_in_background(self._become_ready())

    def _count_topic_bytes(self) -> int:
        return sum(
            self._logs.count_engine_bytes(log) for _, log in self.owned_partitions.topics.iterate_logs()
        )

    async def _become_ready(self) -> None:
        """Set `ready` once the daemon has a session and its first partitions are loaded."""
        member = self._require_member()
        partitions = self._services.engine.list_partitions
        await _wait_until(lambda: member.keeper.session.is_live(clock.boot_ms()) and member.is_settled)
        topics, factor = self._settings.topics, self._config.default_replication_factor
        self._run_in_background(
            self.catalogue.declare_until_created(await self.catalogue.declare_topics(topics, factor), factor)
        )
        if self._settings.initial_topics:
            from coordinator.broker.initial_topic_creation import create_missing_topics

            initial, plane = self._settings.initial_topics, self._services.data_plane
            changes = await create_missing_topics(self.catalogue.create_work(), plane, initial)
            self._services.topic_changes.publish_changes(changes)
        await _wait_until(lambda: all(part.state is not PartitionState.LOADING for part in partitions()))
        self._services.ready.set()

    def check_session(self) -> bool:
        """Return whether the session is live. After its deadline this first releases all partitions."""
        return self.member is None or self.member.keeper.check_session()

    def _run_in_background(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("The state of the cluster", exc_info=problem)

    # Gained and lost partitions

    def _find_token(self, partition: PartitionId) -> PartitionToken | None:
        return self._require_member().owned.get(partition)

    def _on_topics_changed(self, changes: Sequence[TopicChange]) -> None:
        for change in changes:
            if isinstance(change, TopicDeleted):
                self._require_member().forget_topic(change.name)
                is_gone = not self.catalogue.has_topic(change.name, change.topic_id)
                self.owned_partitions.topics.on_topic_deleted(change.name, is_gone=is_gone)
        self._require_member().schedule_reconcile()

    def _start_reassignment(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        self._run_in_background(self._reassign_replicas(partition, replicas))

    async def _reassign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        try:
            await self.catalogue.keys.reassign_replicas(*partition, replicas)
        except (ClusterChangeRefused, KeyValueStoreError) as error:
            _LOG.error("Failed to assign %s to the replicas %s: %s", partition, list(replicas), error)
        self._require_member().schedule_reconcile()

    # Appends

    def submit_append(
        self,
        partition: TopicPartition,
        token: int,
        base_offset: int,
        next_offset: int,
        data: bytes,
        ticket: Ticket | None,
    ) -> None:
        self.appends.append(PartitionId(*partition), token, base_offset, next_offset, data, ticket)

    def submit_proof(self, partition: TopicPartition, token: int, ticket: Ticket) -> None:
        self.appends.prove_token(PartitionId(*partition), token, ticket)

    def _drop_partition(self, partition: PartitionId) -> None:
        self.appends.drop_partition(partition)
        self.replication.on_released(TopicPartition(*partition))

    def _on_append_done(self, ticket: Any) -> None:
        self.replication.on_confirmed(ticket)

    def _on_append_failed(self, partition: PartitionId, ticket: Any, reason: str) -> None:
        self.replication.on_failed(ticket, reason)

    # Shutdown

    async def leave(self) -> None:
        """Release everything in order, so that other daemons take over at once."""
        if self.member is None:
            return
        await self._sealer.stop()
        self.replicated_bytes.stop()
        await self.catalogue.stop()
        await self._wait_for_pending_answers()
        await self.member.release_all(_LEAVE_TIMEOUT_S)

    async def _wait_for_pending_answers(self) -> None:
        """Wait until all requests are answered, for a limited time."""
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S / 2):
                await _wait_until(self._has_no_pending_answers)
        except TimeoutError:
            _LOG.warning("etcd did not accept all writes in time; pending requests get NOT_COORDINATOR")

    def _has_no_pending_answers(self) -> bool:
        services = self._services
        is_owed = any(len(part.gate) for part in services.engine.list_partitions())
        return not is_owed and not any(services.topics.produce_purgatory.awaited_logs)

    async def close(self) -> None:
        """Stop all tasks and close the store."""
        self.abandon()
        await self.store.close()

    def abandon(self) -> None:
        """Stop at once. The session ends at its deadline."""
        self.appends.abandon()
        self.transactions.close()
        self.health.stop()
        self.security.stop()
        self.replicated_bytes.stop()
        for task in self._tasks:
            task.cancel()
        if self.member is not None:
            self.member.abandon()

    # Operations and metrics

    def move_partition(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        """Start to move a partition to a broker, which takes some time. Return whether that broker is not its owner
        yet. Raises ClusterOperationError.
        """
        return self.partition_moves.move_partition(
            partition, to, hold_loading_s, self.ownership.find_owner(partition)
        )

    def release_coordinator(self, partition: TopicPartition, reason: str) -> None:
        """Stop serving a partition that this broker still owns, before a move or before it takes the partition
        back.
        """
        self.owned_partitions.release_partition(partition, reason)

    def retake_coordinator(self, partition: TopicPartition, to: int | None, hold_loading_s: float) -> bool:
        """Take back a released partition, if this broker still owns it, or move it to another broker. It is loading
        for at least `hold_loading_s` seconds. Return False: another process may load it.
        """
        if to is not None and to in self.ownership.brokers and to != self.ownership.find_owner(partition):
            self.move_partition(partition, to, hold_loading_s)
        else:
            self.partition_moves.retake_partition(partition, hold_loading_s)
        return False

    def _refuse_broker_operation(self) -> NoReturn:
        raise ClusterOperationError("a broker of a cluster is stopped and started as the process that it is")

    def observe_ownership(self, observer: OwnershipObserver) -> None:
        """Report changes of owners, also those of the last seconds."""
        self.owned_partitions.history.add_listener(observer.on_ownership_reported)

    def list_unclosed_partitions(self, engine: Engine) -> list[TopicPartition]:
        """Return an empty list: the logs of coordinators are copies."""
        return []

    @property
    def owned_counts(self) -> dict[int, int]:
        """Number of partitions that this broker owns."""
        return {self._config.node_id: len(self._require_member().owned)}

    @property
    def moves(self) -> dict[str, int]:
        """Number of partitions that this broker gained and lost, by cause."""
        return {str(cause): count for cause, count in self._require_member().moves.items()}

    @property
    def etcd_metrics(self) -> EtcdMetrics:
        """Metrics of this daemon's use of the store."""
        member = self._require_member()
        durations = sorted(self.appends.seconds)
        return EtcdMetrics(
            fenced=self.appends.fenced,
            append_seconds=durations[len(durations) // 2] if durations else math.nan,
            session_left_seconds=member.keeper.left_ms / 1000,
            engine_bytes=sum(map(self.count_engine_bytes, member.owned)),
            node_bytes={node.endpoint: node.size_bytes for node in self.health.nodes if not node.problem},
            quota_bytes=self.health.quota_bytes,
            is_full=self.health.is_full,
        )

    async def collect_etcd_view(self) -> EtcdView:
        """Return the current view of etcd."""
        member, keeper = self._require_member(), self._require_member().keeper
        await self.health.check_nodes()
        snapshot = await read_key_snapshot(self.store, self._keys, member.table)
        return EtcdView(
            nodes=self.health.nodes,
            quota_bytes=self.health.quota_bytes,
            tokens=snapshot.tokens,
            epochs=snapshot.epochs,
            sessions_left_s={**snapshot.sessions_left_s, member.node_id: keeper.left_ms / 1000},
            engine_bytes={
                TopicPartition(*each): self.count_engine_bytes(each) for each in list(member.owned)
            },
            problem=snapshot.problem,
        )

    def count_engine_bytes(self, partition: PartitionId) -> int:
        """Return the bytes in the store of a partition that this daemon owns; 0 before its load."""
        log = self.owned_partitions.find_log(TopicPartition(*partition))
        return 0 if log is None else self._logs.count_engine_bytes(log)


async def _wait_until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.02)
