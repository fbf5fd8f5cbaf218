"""Several brokers in one process: they share the event loop, the data directory and the machines.

Each broker has its own listeners and routes; the connection of a request decides which broker answers it. A
partition that moves to another broker is released and loaded again: the old one answers waiting requests with
NOT_COORDINATOR, and the new one answers with COORDINATOR_LOAD_IN_PROGRESS during the load.
"""

import logging
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from coordinator.apis.broker_routers import BrokerGroupRouter, BrokerTransactionRouter
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.transaction_router import TransactionRouter
from coordinator.broker.internal_topics import InternalTopicLogs
from coordinator.broker.server_settings import ServerSettings
from coordinator.broker.services import OwnershipObserver, Services, SingleBrokerMembership
from coordinator.cluster.in_process_ownership import InProcessOwnership
from coordinator.cluster.partition_ownership import ClusterOperationError, MoveCause
from coordinator.config.in_process_brokers import parse_racks
from coordinator.core import clock
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import COORDINATOR_TOPICS
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.engine import Engine
from coordinator.runtime.machine import InternalTopic, M
from coordinator.runtime.partition_loader import begin_leader_epoch
from coordinator.runtime.runtime import Runtime
from coordinator.topics.data_plane_answer import TopicChange, TopicDeleted
from coordinator.topics.partition import HostedPartition
from coordinator.transactions.transaction_requests import TransactionConfig
from coordinator.transactions.transaction_shard import TransactionShard
from storage.storage_errors import StorageError, format_error_reason
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Cluster")


class InProcessMembership(SingleBrokerMembership):
    """The membership of several brokers in one process."""

    ownership: InProcessOwnership

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        first, count = settings.config.node_id, settings.brokers
        racks = dict(enumerate(parse_racks(settings.config.broker_rack, count), first))
        self.ownership = InProcessOwnership(
            racks, self._list_all_partitions, self._find_replication_factor, self
        )

    def _list_all_partitions(self) -> list[TopicPartition]:
        catalogue = self._services.data_plane.catalogue
        return [partition.name for topic in catalogue for partition in topic.partitions]

    def _find_replication_factor(self, topic: str) -> int:
        """Return the replication factor of a topic. Any broker can own a coordinator partition, and records of
        other topics have one replica."""
        return self._settings.brokers if topic in COORDINATOR_TOPICS else 1

    # Start

    def add_internal_topic(
        self, engine: Engine, topic: InternalTopic[M], logs: InternalTopicLogs
    ) -> Runtime[M]:
        """Create a runtime in which each load begins a leader epoch, because it may follow a move."""
        return engine.add_topic(replace(topic, starts_leader_epochs=True))

    def create_group_router(
        self, runtime: Runtime[GroupShard], config: GroupConfig, node_id: int
    ) -> GroupRouter:
        return BrokerGroupRouter(runtime, config, self.ownership, node_id)

    def create_transaction_router(
        self, runtime: Runtime[TransactionShard], config: TransactionConfig, node_id: int
    ) -> TransactionRouter:
        return BrokerTransactionRouter(runtime, config, self.ownership, node_id)

    def connect_services(self, services: Services) -> None:
        super().connect_services(services)
        services.topic_images.listeners.append(self._on_topics_changed)

    def on_listener_bound(self, node_id: int, listener: str, port: int) -> None:
        self.ownership.all_brokers[node_id].ports[listener] = port

    # Operations and metrics

    @property
    def owned_counts(self) -> dict[int, int]:
        return {node: len(partitions) for node, partitions in self.ownership.list_owned().items()}

    @property
    def moves(self) -> dict[str, int]:
        return {str(cause): count for cause, count in self.ownership.moves.items()}

    def observe_ownership(self, observer: OwnershipObserver) -> None:
        self.ownership.listeners.append(observer.on_owner_changed)

    def stop_broker(self, node_id: int) -> None:
        self.ownership.stop_broker(node_id)
        self._services.brokers.listeners[node_id].stop()
        self._services.connections.close_broker_connections(node_id)
        _LOG.info("Broker %d is stopped", node_id)

    def start_broker(self, node_id: int) -> None:
        if node_id in self.ownership.all_brokers and node_id not in self.ownership.brokers:
            try:
                self._services.brokers.listeners[node_id].start()
            except StartFailed as error:
                raise ClusterOperationError(str(error)) from error
        self.ownership.start_broker(node_id)
        _LOG.info("Broker %d is started", node_id)

    def move_partition(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        return self.ownership.move_partition(partition, to, hold_loading_s)

    def retake_coordinator(self, partition: TopicPartition, to: int | None, hold_loading_s: float) -> bool:
        if to in self.ownership.brokers and to is not None and to != self.ownership.find_owner(partition):
            self.ownership.move_partition(partition, to, hold_loading_s)
            return True
        return super().retake_coordinator(partition, to, hold_loading_s)

    # Gained and lost partitions

    def _on_topics_changed(self, changes: Sequence[TopicChange]) -> None:
        for change in changes:
            if isinstance(change, TopicDeleted):
                self.ownership.forget_topic(change.name)

    def on_partition_lost(self, partition: TopicPartition, node_id: int, cause: MoveCause) -> None:
        """Release a coordinator partition, and complete the fetches of any partition."""
        services = self._services
        if partition.topic in services.engine.runtimes:
            _LOG.info("Broker %d resigned as the owner of %s: %s", node_id, partition, cause)
            services.engine.release_partition(partition, f"broker {node_id} owns it no longer, {cause}")
        services.topics.complete_fetches(
            services.data_plane.on_leader_changed(partition, clock.monotonic_ms())
        )

    def on_partition_gained(
        self, partition: TopicPartition, node_id: int, cause: MoveCause, hold_loading_s: float
    ) -> None:
        """Open a coordinator partition; begin a leader epoch of any other one."""
        _LOG.info("Broker %d was elected as the owner of %s: %s", node_id, partition, cause)
        if partition.topic in self._services.engine.runtimes:
            self._services.engine.open_partition(partition, hold_loading_s)
            return
        hosted = self._services.data_plane.catalogue.find_partition(partition.topic, partition.partition)
        assert isinstance(hosted, HostedPartition), partition
        log = hosted.log
        if log is not None and log.failure is None:
            try:
                begin_leader_epoch(log)
            except (StorageError, OSError) as error:
                _LOG.error("%s keeps its leader epoch: %s", partition, format_error_reason(error))
