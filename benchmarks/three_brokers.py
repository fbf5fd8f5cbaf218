"""Clusters of three brokers, each of which can be killed and started again."""

import os
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol
from unittest import mock

from benchmarks.kafka import AS_KAFKA_STARTS
from benchmarks.process import Server, groupd
from tests.cluster.etcd.nodes import EtcdNodes
from tests.free_ports import free_ports
from tests.kafka_log.broker import CLUSTER_ID
from tests.kafka_log.cluster import KafkaCluster

NODES: Final = 3
HOST: Final = "127.0.0.1"


def cluster_options(endpoints: str, node_id: int, address: str) -> tuple[str, ...]:
    """What makes a daemon one of a cluster."""
    return (
        *("--advertise", address, "-o", f"node.id={node_id}", "-o", "cluster.move.delay.ms=0"),
        *("-o", f"cluster.etcd.endpoints={endpoints}"),
    )


class Brokers(Protocol):
    """Three brokers that are one cluster, by their place."""

    ports: list[int]

    def start(self, number: int) -> None:
        """Starts one that does not run, and waits until it serves."""

    def kill(self, number: int) -> None:
        """With signal 9."""


class Groupds:
    """Daemons on one etcd."""

    def __init__(self, stack: ExitStack) -> None:
        self._directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-bench-")))
        stack.enter_context(mock.patch.dict(os.environ, {"CLUSTER_ID": CLUSTER_ID}))
        etcd = EtcdNodes(self._directory, NODES)
        stack.callback(etcd.close)
        self._endpoints = etcd.endpoints
        self.ports = free_ports(NODES)
        self._lives: dict[int, tuple[ExitStack, Server]] = {}
        for number in range(NODES):
            self.start(number)
            stack.callback(self.kill, number)

    def start(self, number: int) -> None:
        """As `Brokers` has it."""
        life = ExitStack()
        address = f"{HOST}:{self.ports[number]}"
        options = cluster_options(self._endpoints, number + 1, address)
        data_dir = str(self._directory / f"data{number}")
        server = life.enter_context(groupd(*options, data_dir=data_dir, listens=("--listen", address)))
        self._lives[number] = life, server

    def kill(self, number: int) -> None:
        """As `Brokers` has it; nothing where it does not run."""
        life, server = self._lives.pop(number, (ExitStack(), None))
        if server is not None:
            os.kill(server.pid, signal.SIGKILL)
        life.close()


class Kafkas:
    """Brokers of Apache Kafka. The first is the controller, and is not to be killed."""

    def __init__(self, stack: ExitStack) -> None:
        """Raises CannotBuild."""
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-bench-"))
        self._cluster = KafkaCluster(os.path.join(directory, "kafka"), {}, java_options=AS_KAFKA_STARTS)
        stack.callback(self._cluster.kill)
        self._cluster.start()
        self.ports = [int(each.rpartition(":")[2]) for each in self._cluster.bootstraps.values()]

    def start(self, number: int) -> None:
        """As `Brokers` has it."""
        self._cluster.nodes[number + 1].start()

    def kill(self, number: int) -> None:
        """As `Brokers` has it."""
        self._cluster.nodes[number + 1].kill()
