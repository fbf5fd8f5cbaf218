"""The parts of a server that transactions use, and the part of its membership in a cluster that they need.

Classes of the transaction coordinator are imported on first use, so type checkers alone import their types.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from coordinator.apis.data_plane_handler import DataPlaneHandler
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.request_task import RequestTasks
from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.internal_topics import InternalTopicLogs, InternalTopicShape
from coordinator.broker.server_settings import ServerSettings
from coordinator.core import clock
from coordinator.core.daemon_log import LogLineLimit
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.engine import Engine
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.runtime import Runtime
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import TopicChange
from storage.data_directory import DataDirectory

if TYPE_CHECKING:
    from coordinator.apis.transaction_markers import TransactionMarkerWriter
    from coordinator.apis.transaction_router import TransactionRouter
    from coordinator.transactions.transaction_requests import TransactionConfig
    from coordinator.transactions.transaction_shard import TransactionShard


class TransactionMembership(Protocol):
    """The part of transactions that depends on the membership of the server in a cluster."""

    @property
    def coordinates_all(self) -> bool:
        """Whether this process coordinates every transaction. An unknown transaction is then a hanging one."""

    @property
    def refusal(self) -> str | None:
        """The reason why transactions are not possible on this broker; None if they are."""

    def find_topic_shape(self) -> InternalTopicShape | None:
        """Return the shape of the topic in the cluster; None: the data directory has it."""

    def create_topic(self) -> bool:
        """Create the topic. Return False if it will exist later; the creator then starts the transactions."""

    def claim_partitions(self, engine: Engine, partitions: Sequence[CoordinatorPartition[Any]]) -> bool:
        """Load the partitions, or claim those of this broker. Return whether this process loads all of them."""

    def create_verifier(
        self, router: "TransactionRouter", config: "TransactionConfig"
    ) -> "TransactionRouter":
        """Return a router to the coordinators of all brokers; `router` is that of this process."""

    def create_marker_writer(self, writer: "TransactionMarkerWriter") -> "TransactionMarkerWriter":
        """Return a writer of markers to all partitions; `writer` writes to those of this process."""


class LocalTransactions:
    """The `TransactionMembership` of brokers in one process."""

    coordinates_all = True
    refusal = None

    def find_topic_shape(self) -> InternalTopicShape | None:
        return None

    def create_topic(self) -> bool:
        return True

    def claim_partitions(self, engine: Engine, partitions: Sequence[CoordinatorPartition[Any]]) -> bool:
        for partition in partitions:
            engine.open_partition(partition.name)
        return True

    def create_verifier(
        self, router: "TransactionRouter", config: "TransactionConfig"
    ) -> "TransactionRouter":
        return router

    def create_marker_writer(self, writer: "TransactionMarkerWriter") -> "TransactionMarkerWriter":
        return writer


class TransactionCluster(Protocol):
    """The membership of the server in a cluster, as transactions use it."""

    @property
    def transactions(self) -> TransactionMembership:
        """The part of the membership for transactions."""

    def add_internal_topic(
        self, engine: Engine, topic: InternalTopic[M], logs: InternalTopicLogs
    ) -> Runtime[M]:
        """Create the runtime of an internal topic, with the logs of this membership."""

    def create_transaction_router(
        self, runtime: "Runtime[TransactionShard]", config: "TransactionConfig", node_id: int
    ) -> "TransactionRouter":
        """Return the router of a broker's transactions."""


class TransactionServices(Struct, frozen=True, eq=False, kw_only=True):
    """The parts of a server that transactions use."""

    settings: ServerSettings
    loop: asyncio.AbstractEventLoop
    directory: DataDirectory
    engine: Engine
    data_plane: DataPlane
    groups: GroupRouter
    """The groups of all brokers in the process."""
    topics: DataPlaneHandler
    tasks: RequestTasks
    arrival: clock.Arrival
    metrics: BrokerMetrics
    line_limit: LogLineLimit
    on_topics_changed: Callable[[Sequence[TopicChange]], None]
    cluster: TransactionCluster
