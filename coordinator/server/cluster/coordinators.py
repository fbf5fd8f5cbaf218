"""Partitions of coordinators, as they come to this broker and leave it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coordinator.engine.partition import Partition, PartitionState
from coordinator.engine.runtime import Runtime
from coordinator.names import TRANSACTION_STATE
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from coordinator.server.server import Server


class Coordinators:
    """All methods belong to the event loop's thread."""

    def __init__(self) -> None:
        self._server: Server

    def attach(self, server: "Server") -> None:
        """To parts that are open."""
        self._server = server

    def logs(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Of the partitions that this broker coordinates."""
        for partition in self._server.engine.partitions():
            if partition.state is PartitionState.OWNED and partition.log is not None:
                yield partition.name, partition.log

    def log(self, name: TopicPartition) -> PartitionLog | None:
        """That of a partition; None while it is not open."""
        return self._machine(name)[1].log

    def gained(self, name: TopicPartition, hold_s: float) -> None:
        """This broker owns a partition: it is read, and is loading for so many seconds at least."""
        runtime, machine = self._machine(name)
        runtime.ownership.take(machine, machine.epoch + 1, hold_s)

    def lost(self, name: TopicPartition, reason: str) -> None:
        """This broker serves a partition no longer: whoever waits is told NOT_COORDINATOR. What it was about to
        bring to others is not its business any more."""
        if name.topic == TRANSACTION_STATE:
            self._server.transactions.lost(name.partition)
        runtime, machine = self._machine(name)
        runtime.ownership.release(machine, machine.epoch + 1, reason)

    def _machine(self, name: TopicPartition) -> tuple[Runtime[Any], Partition[Any]]:
        runtime = self._server.engine.runtimes[name.topic]
        return runtime, runtime.partitions[name.partition]
