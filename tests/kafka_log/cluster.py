"""A real cluster of three brokers, the first of which is the controller, too."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from tests.free_ports import free_ports
from tests.kafka_log.artifacts import NEWEST
from tests.kafka_log.broker import KafkaBroker

NODE_IDS: Final = (1, 2, 3)
_COORDINATORS: Final = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


class Node(KafkaBroker):
    """One of them."""

    def __init__(
        self,
        directory: str,
        node_id: int,
        port: int,
        controller_port: int,
        properties: Mapping[str, str],
        version: str,
        java_options: Sequence[str],
    ) -> None:
        os.makedirs(directory)
        super().__init__(directory, properties, version, java_options)
        self._node_id = node_id
        self._ports = [port, controller_port]
        self.bootstrap = f"127.0.0.1:{port}"

    def _necessary(self) -> dict[str, str]:
        is_first = self._node_id == NODE_IDS[0]
        own = f"PLAINTEXT://{self.bootstrap}"
        controller = f",CONTROLLER://127.0.0.1:{self._ports[1]}"
        return {
            **super()._necessary(),
            "process.roles": "broker,controller" if is_first else "broker",
            "node.id": str(self._node_id),
            "listeners": own + (controller if is_first else ""),
            "advertised.listeners": own,
            **{f"{topic}.replication.factor": str(len(NODE_IDS)) for topic in _COORDINATORS},
        }


class KafkaCluster:
    """Three processes. Whoever starts it has to end it, by `kill`."""

    def __init__(
        self,
        directory: str,
        properties: Mapping[str, str],
        version: str = NEWEST,
        java_options: Sequence[str] = ("-Xmx384m",),
    ) -> None:
        """Configure the nodes: their data `directory`, common properties, the Kafka version, and JVM options."""
        *ports, controller_port = free_ports(len(NODE_IDS) + 1)
        self.nodes = {
            node_id: Node(
                os.path.join(directory, str(node_id)),
                node_id,
                port,
                controller_port,
                properties,
                version,
                java_options,
            )
            for node_id, port in zip(NODE_IDS, ports, strict=True)
        }

    @property
    def bootstraps(self) -> dict[int, str]:
        """HOST:PORT, by node id."""
        return {node_id: node.bootstrap for node_id, node in self.nodes.items()}

    def start(self) -> None:
        """Starts one after the other, and waits until they serve."""
        for node in self.nodes.values():
            node.start()

    def kill(self) -> None:
        """kill -9 of all."""
        for node in self.nodes.values():
            node.kill()
