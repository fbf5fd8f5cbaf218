"""The brokers of a server: one, or several in one process that share loop, data directory and machines.

Each broker has its own listeners and routes; the connection of a request decides which broker answers it. A
partition that moves to another broker is really released and reloaded: the old one answers waiting requests with
NOT_COORDINATOR, and the new one answers with COORDINATOR_LOAD_IN_PROGRESS during the load.
"""

import logging
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from coordinator.broker.broker_metrics import EtcdMetrics
from coordinator.broker.listener_sockets import BrokerListeners
from coordinator.cluster.in_process_ownership import ClusterOperationError, InProcessOwnership
from coordinator.cluster.partition_ownership import MoveCause, PartitionOwnership, SingleBrokerOwnership
from coordinator.config.in_process_brokers import create_broker_listeners, find_port_step, parse_racks
from coordinator.config.listeners import Listener
from coordinator.core import clock
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import COORDINATOR_TOPICS
from coordinator.network.endpoint import Endpoint
from coordinator.runtime.partition_loader import begin_leader_epoch
from coordinator.topics.partition import HostedPartition
from storage.storage_errors import StorageError, format_error_reason
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from coordinator.broker.server import Server
    from coordinator.cluster.daemon.etcd_status import EtcdView

_LOG: Final = logging.getLogger("Cluster")


class BrokerSet:
    """The brokers of one process, their listeners, and the ownership of partitions among them."""

    def __init__(self, server: "Server") -> None:
        first, count = server.settings.config.node_id, server.settings.brokers
        self.listeners = {first + number: BrokerListeners() for number in range(count)}
        """Listeners by node id; the first are the server's own."""
        self.cluster: InProcessOwnership | None = None
        """Ownership among several brokers; None with a single one."""
        racks = parse_racks(server.settings.config.broker_rack, count)
        self.ownership: PartitionOwnership = (
            SingleBrokerOwnership(first, racks[0]) if server.cluster is None else server.cluster.ownership
        )
        self._server = server
        if count > 1:
            self.cluster = InProcessOwnership(
                list(self.listeners), self._list_all_partitions, self._find_replication_factor, self
            )
            for broker, rack in zip(self.cluster.all_brokers.values(), racks, strict=True):
                broker.rack = rack
            self.ownership = self.cluster

    @property
    def endpoints(self) -> list[Endpoint]:
        """Endpoints for clients, broker by broker."""
        return [endpoint for listeners in self.listeners.values() for endpoint in listeners.endpoints]

    # Listeners

    async def listen(self, bound: Mapping[str, Sequence[socket.socket]]) -> None:
        """Open the listeners of all brokers.

        Args:
            bound: Sockets of a single broker that are already bound, by listener name.

        Raises:
            StartFailed: A listener could not be opened.
        """
        server = self._server
        configured = server.settings.listeners
        step = find_port_step(configured, len(self.listeners))
        for number, (node_id, listeners) in enumerate(self.listeners.items()):
            await listeners.bind_listeners(
                server.settings,
                create_broker_listeners(configured, number, step),
                partial(self._create_endpoint, node_id),
                server.connections,
                server.security,
                server.metrics.authentications,
                bound,
            )
            if self.cluster is not None:
                ports = self.cluster.all_brokers[node_id].ports
                for endpoint in listeners.endpoints:
                    ports[endpoint.listener.name] = endpoint.fallback_node.port
        for listeners in self.listeners.values():
            listeners.open()

    def _create_endpoint(self, node_id: int, listener: Listener) -> Endpoint:
        server = self._server
        return Endpoint(
            server.loop,
            listener,
            server.connections,
            server.write_batcher,
            server.run_queue,
            server.arrival,
            node_id,
            server.routes_by_broker[node_id],
        )

    def reload_listeners(self) -> None:
        """Reload the certificates and trust stores of all listeners."""
        for listeners in self.listeners.values():
            listeners.request_reload()

    def close(self) -> None:
        """Stop accepting connections on all listeners."""
        for listeners in self.listeners.values():
            listeners.close()

    def list_partitions(self, node_id: int) -> list[TopicPartition]:
        """Return the partitions that a broker owns."""
        return [each for each in self._list_all_partitions() if self.ownership.owns(node_id, each)]

    def forget_topic(self, topic: str) -> None:
        """Forget the ownership of a deleted topic."""
        if self.cluster is not None:
            self.cluster.forget_topic(topic)

    @property
    def owned_counts(self) -> dict[int, int]:
        """Number of partitions by owner in this process; empty for a single broker."""
        if self._server.cluster is not None:
            return self._server.cluster.owned_counts
        return (
            {}
            if self.cluster is None
            else {node: len(parts) for node, parts in self.cluster.list_owned().items()}
        )

    @property
    def moves(self) -> dict[str, int]:
        """Number of changes of owners, including losses without a new owner, by cause."""
        if self._server.cluster is not None:
            return self._server.cluster.moves
        return (
            {} if self.cluster is None else {str(cause): count for cause, count in self.cluster.moves.items()}
        )

    @property
    def etcd_metrics(self) -> EtcdMetrics | None:
        """Metrics of a cluster on etcd; None without one."""
        return None if self._server.cluster is None else self._server.cluster.metrics

    async def collect_etcd_view(self) -> "EtcdView | None":
        """Return the current view of etcd; None without a cluster."""
        return None if self._server.cluster is None else await self._server.cluster.collect_view()

    # Stop and start of brokers

    def stop_broker(self, node_id: int) -> None:
        """Stop a broker: move its partitions to others, send the pending answers, and close its connections and
        ports. Raises ClusterOperationError.
        """
        cluster = self._require_in_process()
        cluster.stop_broker(node_id)
        self.listeners[node_id].stop()
        self._server.connections.close_broker_connections(node_id)
        _LOG.info("Broker %d is stopped", node_id)

    def start_broker(self, node_id: int) -> None:
        """Start a stopped broker. Raises ClusterOperationError, also if its ports are in use."""
        cluster = self._require_in_process()
        if node_id in cluster.all_brokers and node_id not in cluster.brokers:
            try:
                self.listeners[node_id].start()
            except StartFailed as error:
                raise ClusterOperationError(str(error)) from error
        cluster.start_broker(node_id)
        _LOG.info("Broker %d is started", node_id)

    def move_partition(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        """Make a broker the owner of a partition. Return whether it was not the owner before.

        In a cluster on etcd this takes some time. Raises ClusterOperationError.
        """
        if self._server.cluster is not None:
            return self._server.cluster.move_partition(partition, to, hold_loading_s)
        return self._require_in_process().move_partition(partition, to, hold_loading_s)

    def _require_in_process(self) -> InProcessOwnership:
        if self._server.cluster is not None:
            raise ClusterOperationError(
                "a broker of a cluster is stopped and started as the process that it is"
            )
        if self.cluster is None:
            raise ClusterOperationError(
                "there is one broker; several are there with groupd serve --brokers 3"
            )
        return self.cluster

    # Gained and lost partitions

    def _list_all_partitions(self) -> list[TopicPartition]:
        return [
            partition.name for topic in self._server.data_plane.catalogue for partition in topic.partitions
        ]

    def _find_replication_factor(self, topic: str) -> int:
        """Return the replication factor: coordinators may be on any broker, records of a topic have one replica."""
        return len(self.listeners) if topic in COORDINATOR_TOPICS else 1

    def on_partition_lost(self, partition: TopicPartition, node_id: int, cause: MoveCause) -> None:
        """Release a coordinator partition, and complete the fetches of any partition."""
        server = self._server
        if partition.topic in server.engine.runtimes:
            _LOG.info("Broker %d resigned as the owner of %s: %s", node_id, partition, cause)
            server.engine.release_partition(partition, f"broker {node_id} owns it no longer, {cause}")
        server.topics.complete_fetches(server.data_plane.on_leader_changed(partition, clock.monotonic_ms()))

    def on_partition_gained(
        self, partition: TopicPartition, node_id: int, cause: MoveCause, hold_loading_s: float
    ) -> None:
        """Open a coordinator partition; begin a leader epoch of any other one."""
        _LOG.info("Broker %d was elected as the owner of %s: %s", node_id, partition, cause)
        if partition.topic in self._server.engine.runtimes:
            self._server.engine.open_partition(partition, hold_loading_s)
            return
        hosted = self._server.data_plane.catalogue.find_partition(partition.topic, partition.partition)
        assert isinstance(hosted, HostedPartition), partition
        log = hosted.log
        if log is not None and log.failure is None:
            try:
                begin_leader_epoch(log)
            except (StorageError, OSError) as error:
                _LOG.error(
                    "%s goes on in the leader epoch that it had: %s", partition, format_error_reason(error)
                )
