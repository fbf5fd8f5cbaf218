"""The parts of an open server, and its membership in a cluster.

A server differs by the brokers around it only in its `ClusterMembership`:

| membership | brokers | logs |
|---|---|---|
| `SingleBrokerMembership` | one | on this disk |
| `InProcessMembership` (`in_process_membership.py`) | several in one process | on this disk, shared |
| `EtcdCluster` (`coordinator/cluster/daemon/etcd_cluster.py`) | other processes | on this disk, or in etcd |

A server calls `prepare_directory` before it opens the topics, `connect_services` once all parts are open, and
`start` once the listeners are open. At the end it calls `leave` and then `close`, or only `abandon`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from msgspec import Struct

from coordinator.apis.data_plane_handler import DataPlaneHandler
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.request_task import RequestTasks
from coordinator.broker.broker_listeners import BrokerListeners, BrokerSet
from coordinator.broker.broker_metrics import BrokerMetrics, EtcdMetrics
from coordinator.broker.checkpoint_writer import CheckpointWriter
from coordinator.broker.group_event_log import GroupEventBus
from coordinator.broker.internal_topics import (
    InternalTopicLogs,
    InternalTopicShape,
    OffsetsTopic,
    TopicChangePublisher,
    TopicImages,
)
from coordinator.broker.lazy_transaction_coordinator import LazyTransactionCoordinator
from coordinator.broker.log_cleaner import LogCleaner
from coordinator.broker.server_settings import ServerSettings
from coordinator.broker.transaction_services import LocalTransactions, TransactionMembership
from coordinator.cluster.partition_ownership import (
    ClusterOperationError,
    MoveCause,
    PartitionOwnership,
    SingleBrokerOwnership,
)
from coordinator.config.in_process_brokers import parse_racks
from coordinator.core import clock
from coordinator.core.daemon_log import LogLineLimit, OngoingFailures
from coordinator.core.message_text import StartFailed
from coordinator.core.time_budget import RunQueue
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_shard import GroupShard
from coordinator.network.connections import Connections
from coordinator.network.endpoint import Endpoint, WriteBatcher
from coordinator.network.request_routes import Routes
from coordinator.runtime.engine import Engine
from coordinator.runtime.flusher import DurabilityBackend, Flusher
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.runtime import Runtime
from coordinator.runtime.timers import GroupClock
from coordinator.security.lazy_security import LazySecurity
from coordinator.topics.cluster_partition import ClusterRecords
from coordinator.topics.data_plane import DataPlane, DeclaredTopicShrinks
from coordinator.topics.data_plane_answer import TopicChange
from coordinator.topics.open_files import TooManyPartitions
from coordinator.topics.producer_ids import ReserveProducerIds
from storage.data_directory import DataDirectory
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from coordinator.apis.transaction_router import TransactionRouter
    from coordinator.cluster.daemon.etcd_status import EtcdView
    from coordinator.security.security_store import SharedSecurityStorage
    from coordinator.transactions.transaction_requests import TransactionConfig
    from coordinator.transactions.transaction_shard import TransactionShard


class Services(Struct, frozen=True, eq=False, kw_only=True):
    """The parts of an open server. `composition_root.py` creates and connects them."""

    settings: ServerSettings
    loop: asyncio.AbstractEventLoop
    membership: "ClusterMembership"
    brokers: BrokerSet
    metrics: BrokerMetrics
    line_limit: LogLineLimit
    disk_failures: OngoingFailures
    """Ongoing disk failures of group logs and of the files next to them."""
    arrival: clock.Arrival
    group_clock: GroupClock
    run_queue: RunQueue
    request_tasks: RequestTasks
    connections: Connections
    write_batcher: WriteBatcher
    directory: DataDirectory
    checkpoints: CheckpointWriter
    cleaner: LogCleaner
    security: LazySecurity
    flusher: Flusher
    engine: Engine
    data_plane: DataPlane
    topics: DataPlaneHandler
    topic_changes: TopicChangePublisher
    topic_images: TopicImages
    offsets_topic: OffsetsTopic
    runtime: Runtime[GroupShard]
    """The groups, in `__consumer_offsets`."""
    group_config: GroupConfig
    group_events: GroupEventBus
    transactions: LazyTransactionCoordinator
    routes_by_broker: Mapping[int, Routes]
    ready: asyncio.Event
    """Set when every partition of the groups is loaded, or has failed."""
    closing: asyncio.Event
    """Set when the server begins to close."""

    @property
    def routes(self) -> Routes:
        """Routes of the first broker, which usually is the only one."""
        return self.routes_by_broker[self.settings.config.node_id]

    @property
    def listeners(self) -> BrokerListeners:
        """Listeners of the first broker."""
        return self.brokers.listeners[self.settings.config.node_id]

    @property
    def endpoints(self) -> list[Endpoint]:
        """Endpoints for clients: one for each listener, those of the first broker first."""
        return self.brokers.endpoints

    @property
    def is_closing(self) -> bool:
        """Whether the server has begun to close."""
        return self.closing.is_set()


class OwnershipObserver(Protocol):
    """Takes changes of owners."""

    def on_owner_changed(
        self, partition: TopicPartition, before: int | None, owner: int | None, cause: MoveCause
    ) -> None:
        """Handle a change between brokers of this process."""

    def on_ownership_reported(self, partition: TopicPartition, what: str) -> None:
        """Handle a change in a cluster on etcd. `what` is a text that describes it."""


class ClusterMembership(ABC):
    """The behaviour of a server that depends on its cluster: a single broker, several brokers, or a member of
    a cluster on etcd."""

    ownership: PartitionOwnership
    transactions: TransactionMembership
    topic_records: ClusterRecords | None = None
    """The records of replicated topics; None if all logs are on this disk."""
    security_storage: "SharedSecurityStorage | None" = None
    """The storage of ACLs and credentials; None: the data directory."""
    reserve_producer_ids: ReserveProducerIds | None = None
    """Reserves a block of producer ids, in any thread; None: the catalogue reserves it."""
    lists_offsets_topic = False
    """Whether `__consumer_offsets` is listed before its first use."""

    # Start

    @abstractmethod
    def create_arrival(self) -> clock.Arrival:
        """Return the clock of arriving requests."""

    @abstractmethod
    def find_journal_file_bytes(self, configured_bytes: int) -> int:
        """Return the maximum size of a journal file of this server; 0 for no journal."""

    @abstractmethod
    def prepare_directory(self, directory: DataDirectory) -> None:
        """Prepare an opened data directory for this membership. Raises StartFailed, StorageError, OSError."""

    @abstractmethod
    def create_topics_at_start(self, data_plane: DataPlane) -> Iterator[Sequence[TopicChange]]:
        """Create the topics that the settings declare, and yield the changes. Raises StartFailed."""

    @abstractmethod
    def find_offsets_topic_shape(self) -> InternalTopicShape | None:
        """Return the shape of `__consumer_offsets` in the cluster; None: the data directory has it."""

    @abstractmethod
    def add_internal_topic(
        self, engine: Engine, topic: InternalTopic[M], logs: InternalTopicLogs
    ) -> Runtime[M]:
        """Create the runtime of an internal topic, with the logs and leader epochs of this membership."""

    def route_durability(self, flusher: Flusher) -> DurabilityBackend:
        """Return the backend that makes the logs of topics durable; `flusher` writes to this disk."""
        return flusher

    def create_group_router(
        self, runtime: Runtime[GroupShard], config: GroupConfig, node_id: int
    ) -> GroupRouter:
        """Return the router of a broker's groups."""
        return GroupRouter(runtime, config)

    def create_transaction_router(
        self, runtime: "Runtime[TransactionShard]", config: "TransactionConfig", node_id: int
    ) -> "TransactionRouter":
        """Return the router of a broker's transactions."""
        from coordinator.apis.transaction_router import TransactionRouter

        return TransactionRouter(runtime, config)

    def wrap_routes(self, routes: Routes, data_plane: DataPlane) -> Routes:
        """Return the routes of a broker with the additional work of this membership."""
        return routes

    @abstractmethod
    def connect_services(self, services: Services) -> None:
        """Connect the membership with the parts of the server, which are all open."""

    @abstractmethod
    def on_listener_bound(self, node_id: int, listener: str, port: int) -> None:
        """Record the advertised port of a broker's listener. It accepts no connections yet."""

    @abstractmethod
    def start(self) -> None:
        """Claim or load the partitions of the coordinators. The listeners are open."""

    @abstractmethod
    def on_groups_loaded(self, ready: asyncio.Event) -> None:
        """Handle the end of the first loads. A membership sets `ready` here or later."""

    # End

    @abstractmethod
    async def leave(self) -> None:
        """Hand the partitions over to other brokers, while the server still answers."""

    def list_unclosed_partitions(self, engine: Engine) -> list[TopicPartition]:
        """Return the coordinator partitions without an open log, which make the stop unclean."""
        return engine.list_unopened_partitions()

    @abstractmethod
    async def close(self) -> None:
        """End the membership. The server no longer answers."""

    @abstractmethod
    def abandon(self) -> None:
        """End the membership at once, as in a crash."""

    # Operations and metrics

    @abstractmethod
    def move_partition(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        """Make a broker the owner of a partition. Return whether it is not the owner yet.

        Args:
            partition: Any partition.
            to: Node id of the new owner, which must be live.
            hold_loading_s: Minimum loading time in seconds at the new owner.

        Raises:
            ClusterOperationError: The broker cannot own the partition.
        """

    @abstractmethod
    def release_coordinator(self, partition: TopicPartition, reason: str) -> None:
        """Take a coordinator partition out of service, before `retake_coordinator`."""

    @abstractmethod
    def retake_coordinator(self, partition: TopicPartition, to: int | None, hold_loading_s: float) -> bool:
        """Take a released coordinator partition back, or move it to another live broker.

        Return whether this process loads it. Otherwise another process may do so.
        """

    def stop_broker(self, node_id: int) -> None:
        """Stop a broker of this process: move its partitions to others, send the pending answers, and close its
        connections and ports. Raises ClusterOperationError.
        """
        self._refuse_broker_operation()

    def start_broker(self, node_id: int) -> None:
        """Start a stopped broker of this process. Raises ClusterOperationError, also if its ports are in use."""
        self._refuse_broker_operation()

    @abstractmethod
    def _refuse_broker_operation(self) -> NoReturn:
        """Raise ClusterOperationError with the reason why single brokers cannot stop and start."""

    @abstractmethod
    def observe_ownership(self, observer: OwnershipObserver) -> None:
        """Report changes of owners to an observer, in a cluster on etcd also those of the last seconds."""

    @property
    def owned_counts(self) -> dict[int, int]:
        """Number of partitions by owner in this process; empty for a single broker."""
        return {}

    @property
    def moves(self) -> dict[str, int]:
        """Number of changes of owners, including losses without a new owner, by cause."""
        return {}

    @property
    def etcd_metrics(self) -> EtcdMetrics | None:
        """Metrics of a cluster on etcd; None without one."""
        return None

    async def collect_etcd_view(self) -> "EtcdView | None":
        """Return the current view of etcd; None without a cluster."""
        return None


class SingleBrokerMembership(ClusterMembership):
    """The membership of a single broker: it owns all partitions, and has all logs on its disk."""

    def __init__(self, settings: ServerSettings) -> None:
        config = settings.config
        self.ownership = SingleBrokerOwnership(config.node_id, parse_racks(config.broker_rack, 1)[0])
        self.transactions = LocalTransactions()
        self._settings = settings
        self._services: Services

    def create_arrival(self) -> clock.Arrival:
        return clock.Arrival()

    def find_journal_file_bytes(self, configured_bytes: int) -> int:
        return configured_bytes

    def prepare_directory(self, directory: DataDirectory) -> None:
        """Do nothing: any data directory of this node fits."""

    def create_topics_at_start(self, data_plane: DataPlane) -> Iterator[Sequence[TopicChange]]:
        yield self._declare_topics(data_plane)
        if self._settings.initial_topics:
            from coordinator.broker.initial_topic_creation import create_initial_topics  # and CreateTopics

            yield create_initial_topics(data_plane, self._settings.initial_topics)

    def _declare_topics(self, data_plane: DataPlane) -> list[TopicChange]:
        changes: list[TopicChange] = []
        for name, partitions in self._settings.topics:
            try:
                change = data_plane.declare_topic(name, partitions)
            except (ValueError, DeclaredTopicShrinks, TooManyPartitions) as error:
                raise StartFailed(f"topic {name}:{partitions}: {error}") from error
            if change is not None:
                changes.append(change)
        return changes

    def find_offsets_topic_shape(self) -> InternalTopicShape | None:
        return None

    def add_internal_topic(
        self, engine: Engine, topic: InternalTopic[M], logs: InternalTopicLogs
    ) -> Runtime[M]:
        return engine.add_topic(topic)

    def connect_services(self, services: Services) -> None:
        self._services = services

    def on_listener_bound(self, node_id: int, listener: str, port: int) -> None:
        """Do nothing: endpoints know their ports."""

    def start(self) -> None:
        services = self._services
        for partition in services.runtime.partitions:
            services.engine.open_partition(partition.name)
        services.transactions.start_if_needed()

    def on_groups_loaded(self, ready: asyncio.Event) -> None:
        ready.set()

    async def leave(self) -> None:
        """Do nothing: no broker takes over."""

    async def close(self) -> None:
        """Do nothing: the server closes all parts."""

    def abandon(self) -> None:
        """Do nothing: the server abandons all parts."""

    def observe_ownership(self, observer: OwnershipObserver) -> None:
        """Do nothing: no owner changes."""

    def move_partition(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        self._refuse_broker_operation()

    def release_coordinator(self, partition: TopicPartition, reason: str) -> None:
        self._services.engine.release_partition(partition, reason)

    def retake_coordinator(self, partition: TopicPartition, to: int | None, hold_loading_s: float) -> bool:
        self._services.engine.open_partition(partition, hold_loading_s)
        return True

    def _refuse_broker_operation(self) -> NoReturn:
        raise ClusterOperationError("there is one broker; several are there with groupd serve --brokers 3")
