"""The brokers of a server: one, or several in one process that share loop, data directory and machines.

Each has listeners and a table of routes of its own; whom a request was sent to is told by the connection it came
over. When a partition comes to another broker it is really given up and read again: whoever waits at the old one is
told NOT_COORDINATOR, and the new one says COORDINATOR_LOAD_IN_PROGRESS until it was read.
"""

import logging
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from coordinator import clock
from coordinator.cluster.in_process import InProcess, NotPossible
from coordinator.cluster.one_broker import OneBroker
from coordinator.cluster.ownership import MoveCause, Ownership
from coordinator.config.broker_listeners import listeners_of_broker
from coordinator.config.broker_racks import racks_of
from coordinator.config.listeners import Listener
from coordinator.engine.leader_epoch import begin_leader_epoch
from coordinator.names import COORDINATED
from coordinator.net.endpoint import Endpoint
from coordinator.server.engine_figures import EngineFigures
from coordinator.server.listeners import Listeners
from coordinator.server.start_failed import StartFailed
from coordinator.topics.partition import HostedPartition
from storage.errors import StorageError
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from coordinator.server.cluster.engine_view import EngineView
    from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Cluster")


class Brokers:
    """See the top of this file."""

    def __init__(self, server: "Server") -> None:
        first, count = server.settings.config.node_id, server.settings.brokers
        self.listeners = {first + number: Listeners() for number in range(count)}
        """By node id; the first is the server's own."""
        self.cluster: InProcess | None = None
        """None where there is one broker."""
        racks = racks_of(server.settings.config.broker_rack, count)
        self.ownership: Ownership = (
            OneBroker(first, racks[0]) if server.cluster is None else server.cluster.ownership
        )
        self._server = server
        if count > 1:
            self.cluster = InProcess(list(self.listeners), self._partitions, self._replication_factor)
            for broker, rack in zip(self.cluster.known.values(), racks, strict=True):
                broker.rack = rack
            self.cluster.gained, self.cluster.lost = self._gained, self._lost
            self.ownership = self.cluster

    @property
    def endpoints(self) -> list[Endpoint]:
        """Where clients connect to, broker by broker."""
        return [endpoint for listeners in self.listeners.values() for endpoint in listeners.endpoints]

    # Listeners

    async def listen(self, bound: Mapping[str, Sequence[socket.socket]]) -> None:
        """Opens those of all brokers. In: sockets of the only one that are bound already, by the listener's name.
        Raises StartFailed."""
        server = self._server
        for number, (node_id, listeners) in enumerate(self.listeners.items()):
            await listeners.bind(
                server.settings,
                listeners_of_broker(server.settings.listeners, number),
                partial(self._endpoint, node_id),
                server.connections,
                server.security,
                server.metrics.authentications,
                bound,
            )
            if self.cluster is not None:
                ports = self.cluster.known[node_id].ports
                for endpoint in listeners.endpoints:
                    ports[endpoint.listener.name] = endpoint.fallback_node.port
        for listeners in self.listeners.values():
            listeners.open()

    def _endpoint(self, node_id: int, listener: Listener) -> Endpoint:
        server = self._server
        return Endpoint(
            server.loop,
            listener,
            server.connections,
            server.outbox,
            server.run_queue,
            server.arrival,
            node_id,
            server.routes_by_broker[node_id],
        )

    def renew_listeners(self) -> None:
        """Has all listeners read again what they show and trust."""
        for listeners in self.listeners.values():
            listeners.renew()

    def close(self) -> None:
        """Lets nobody in any more."""
        for listeners in self.listeners.values():
            listeners.close()

    def partitions_of(self, node_id: int) -> list[TopicPartition]:
        """What a broker owns."""
        return [each for each in self._partitions() if self.ownership.owns(node_id, each)]

    def forget(self, topic: str) -> None:
        """A topic is gone."""
        if self.cluster is not None:
            self.cluster.forget(topic)

    @property
    def owned_counts(self) -> dict[int, int]:
        """How many partitions each broker owns, of those in this process; nothing where there is only one."""
        if self._server.cluster is not None:
            return self._server.cluster.owned_counts
        return (
            {} if self.cluster is None else {node: len(parts) for node, parts in self.cluster.owned().items()}
        )

    @property
    def moves(self) -> dict[str, int]:
        """How often partitions came to another owner, or lost their only one, by why."""
        if self._server.cluster is not None:
            return self._server.cluster.moves
        return (
            {} if self.cluster is None else {str(cause): count for cause, count in self.cluster.moves.items()}
        )

    @property
    def engine_figures(self) -> EngineFigures | None:
        """Of a cluster on etcd; None without one."""
        return None if self._server.cluster is None else self._server.cluster.figures

    async def engine_view(self) -> "EngineView | None":
        """What the engine of a cluster knows of it; None without one."""
        return None if self._server.cluster is None else await self._server.cluster.view()

    # Stopping and starting one

    def stop(self, node_id: int) -> None:
        """Stops a broker in order: what it owns goes to others, what is answered leaves, its connections and ports
        are closed. Raises NotPossible."""
        cluster = self._cluster()
        cluster.stop(node_id)
        self.listeners[node_id].stop()
        self._server.connections.close_of(node_id)
        _LOG.info("Broker %d is stopped", node_id)

    def start(self, node_id: int) -> None:
        """Starts it again. Raises NotPossible, also where its ports cannot be had."""
        cluster = self._cluster()
        if node_id in cluster.known and node_id not in cluster.brokers:
            try:
                self.listeners[node_id].start()
            except StartFailed as error:
                raise NotPossible(str(error)) from error
        cluster.start(node_id)
        _LOG.info("Broker %d is started", node_id)

    def move(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        """Makes a broker the owner of a partition, in a cluster in some time; whether it was not. Raises
        NotPossible."""
        if self._server.cluster is not None:
            return self._server.cluster.move(partition, to, hold_loading_s)
        return self._cluster().move(partition, to, hold_loading_s)

    def _cluster(self) -> InProcess:
        if self._server.cluster is not None:
            raise NotPossible("a broker of a cluster is stopped and started as the process that it is")
        if self.cluster is None:
            raise NotPossible("there is one broker; several are there with groupd serve --brokers 3")
        return self.cluster

    # Partitions that come and go

    def _partitions(self) -> list[TopicPartition]:
        return [
            partition.name for topic in self._server.data_plane.catalogue for partition in topic.partitions
        ]

    def _replication_factor(self, topic: str) -> int:
        """Coordinators may be anywhere. Records of a topic have one replica."""
        return len(self.listeners) if topic in COORDINATED else 1

    def _lost(self, partition: TopicPartition, node_id: int, cause: MoveCause) -> None:
        server = self._server
        runtime = server.engine.runtimes.get(partition.topic)
        if runtime is not None:
            machine = runtime.partitions[partition.partition]
            _LOG.info("Broker %d resigned as the owner of %s: %s", node_id, partition, cause)
            runtime.ownership.release(
                machine, machine.epoch + 1, f"broker {node_id} owns it no longer, {cause}"
            )
        server.topics.complete(server.data_plane.interrupted(partition, clock.monotonic_ms()))

    def _gained(
        self, partition: TopicPartition, node_id: int, cause: MoveCause, hold_loading_s: float
    ) -> None:
        _LOG.info("Broker %d was elected as the owner of %s: %s", node_id, partition, cause)
        runtime = self._server.engine.runtimes.get(partition.topic)
        if runtime is not None:
            machine = runtime.partitions[partition.partition]
            runtime.ownership.take(machine, machine.epoch + 1, hold_loading_s)
            return
        hosted = self._server.data_plane.catalogue.partition(partition.topic, partition.partition)
        assert isinstance(hosted, HostedPartition), partition
        log = hosted.log
        if log is not None and log.failure is None:
            try:
                begin_leader_epoch(log)
            except (StorageError, OSError) as error:
                _LOG.error("%s goes on in the leader epoch that it had: %s", partition, reason_of(error))
