"""Ownership of partitions: the interface that request handlers query, its implementation for a single broker,
and its values (brokers, causes of moves, reassignments, refused changes). The owner coordinates a partition
of an internal topic and leads a partition of any other topic. No other part of the server decides about
ownership. All calls belong to the thread of the event loop.

During a reassignment a partition has its added and its removed replicas, as in Kafka. It can end when all
added replicas and at least one target replica are live. Source: KIP-455, Kafka's
`PartitionReassignmentReplicas`, `PartitionReassignmentRevert`.
"""

from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct, field

from coordinator.core.shared_types import Node
from storage.topic_partition import TopicPartition


class BrokerInfo(Struct):
    """A broker of the cluster. `ports` are the advertised ports by listener name, known once the broker listens."""

    node_id: int
    ports: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    """Advertised hosts by listener name, where they differ from the host of this process."""

    rack: str | None = None
    lease: int = 0
    """Lease of the broker's session in the cluster's store; 0 without a store."""
    epoch: int = 0
    """Revision of the store at which the broker registered."""

    def node_for_client(self, node: Node) -> Node:
        """Return the address of this broker for a client that is connected to another broker.

        The host is the one of `node`, unless this broker advertises its own hosts. The port is the one of the
        listener with the same name; -1 if this broker has no such listener.

        Args:
            node: The connected broker, as the client knows it.
        """
        if node.node_id == self.node_id:
            return node if self.rack is None else node._replace(rack=self.rack)
        host = self.hosts.get(node.listener, "") if self.hosts else node.host
        port = self.ports.get(node.listener, -1)
        return node._replace(node_id=self.node_id, host=host, port=port, rack=self.rack)


class ClusterOperationError(Exception):
    """An operation on brokers or owners is not possible; the text has the reason."""


class ClusterChangeRefused(OSError):
    """Another broker made a conflicting change, or the store is unavailable."""


class ClusterTopicExists(ClusterChangeRefused):
    """Another broker has just created a topic of that name."""


class Reassignment(Struct, frozen=True):
    """A reassignment in progress. `replicas` has the kept, the added and at last the removed replicas."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @classmethod
    def between(cls, current: Sequence[int], target: Sequence[int]) -> "Reassignment":
        """Create the reassignment from current to target replicas, both in order of preference."""
        adding = tuple(each for each in target if each not in current)
        removing = tuple(each for each in current if each not in target)
        return cls((*target, *removing), adding, removing)

    @property
    def target(self) -> tuple[int, ...]:
        """Replicas after the completion of the reassignment."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """Replicas after a cancellation."""
        return tuple(each for each in self.replicas if each not in self.adding)

    def can_end(self, live: Container[int]) -> bool:
        """Return whether all added replicas and at least one target replica are live."""
        return all(each in live for each in self.adding) and any(each in live for each in self.target)


class MoveCause(StrEnum):
    """Why the owner of a partition changed, including the loss of an owner and its return."""

    MOVED = "moved"
    BROKER_STOPPED = "broker-stopped"
    BROKER_STARTED = "broker-started"
    REASSIGNED = "reassigned"
    ELECTED = "elected"


class PartitionMoveListener(Protocol):
    """Interface of the brokers of a process for changes of ownership. Called synchronously, in this order."""

    def on_partition_lost(self, partition: TopicPartition, node_id: int, cause: MoveCause) -> None:
        """Handle the end of a broker's ownership of a partition."""

    def on_partition_gained(
        self, partition: TopicPartition, node_id: int, cause: MoveCause, hold_loading_s: float
    ) -> None:
        """Handle that a broker owns a partition. The partition is loading for at least `hold_loading_s` seconds."""


class PartitionOwnership(Protocol):
    """Ownership of partitions, as request handlers query it. All methods belong to the event loop's thread."""

    @property
    def single_broker_id(self) -> int | None:
        """The only broker, which owns all partitions; None with several brokers. It saves handlers a query for each
        partition.
        """

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """Live brokers by id, in ascending order."""

    def find_owner(self, partition: TopicPartition) -> int | None:
        """Return the broker that owns a partition; None if it has no owner."""

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Return whether the broker `node_id` owns a partition."""

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch of a partition without an open log here; 0 if unknown."""

    def assign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Set the replicas of a partition that is about to be created, in order of preference, instead of the
        default ones.
        """

    def unassign_replicas(self, partition: TopicPartition) -> None:
        """Remove the replicas of a partition after its creation failed."""

    def find_replicas(self, partition: TopicPartition) -> Sequence[int]:
        """Return the replicas of a partition, the preferred one first. Some may be stopped."""

    def is_remote(self, partition: TopicPartition) -> bool:
        """Return whether another process owns a partition, so that its log is never open here."""

    # Reassignments and elections by administrators

    @property
    def registered(self) -> Container[int]:
        """Ids of all registered brokers, including stopped ones."""

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """Reassignments in progress by partition."""

    def max_replicas(self, topic: str) -> int:
        """Return the maximum replication factor of a topic, which need not exist yet."""

    def reassign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Give a partition other replicas. This replaces a reassignment in progress.

        It completes at once if all added replicas are live, otherwise when they are. The owner stays if it is
        one of the new replicas.

        Args:
            partition: The partition.
            replicas: Registered brokers in order of preference, each once, at most `max_replicas`.

        Raises:
            ApiError: The change would have to copy records.
        """

    def cancel_reassignment(self, partition: TopicPartition) -> None:
        """Cancel the reassignment of a partition and restore its original replicas."""

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Make the preferred replica of a partition, which must be live, its owner."""


class SingleBrokerOwnership:
    """The `PartitionOwnership` of a single broker, which owns all partitions."""

    def __init__(self, node_id: int, rack: str | None = None) -> None:
        self.single_broker_id = node_id
        self._replicas = (node_id,)
        self._brokers = {node_id: BrokerInfo(node_id, rack=rack)}

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """This broker, the only one."""
        return self._brokers

    def find_owner(self, _: TopicPartition) -> int | None:
        """Return this broker for every partition."""
        return self.single_broker_id

    def owns(self, _: int, __: TopicPartition) -> bool:
        """Return True: this broker is the only one."""
        return True

    def leader_epoch(self, _: TopicPartition) -> int:
        """Return 0: the epoch is unknown while the log is closed."""
        return 0

    def assign_replicas(self, _: TopicPartition, __: Sequence[int]) -> None:
        """Do nothing: this broker is the only possible replica."""

    def unassign_replicas(self, _: TopicPartition) -> None:
        """Do nothing: assignments have no effect."""

    def find_replicas(self, _: TopicPartition) -> Sequence[int]:
        """Return this broker as the only replica."""
        return self._replicas

    def is_remote(self, _: TopicPartition) -> bool:
        """Return False: there is only one broker."""
        return False

    @property
    def registered(self) -> Container[int]:
        """This broker, the only one."""
        return self._brokers

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """Always empty: a single broker moves nothing."""
        return {}

    def max_replicas(self, _: str) -> int:
        """Return 1: there is only one broker."""
        return 1

    def reassign_replicas(self, _: TopicPartition, replicas: Sequence[int]) -> None:
        """Accept only this broker, which already has all partitions."""
        assert tuple(replicas) == self._replicas, replicas

    def cancel_reassignment(self, _: TopicPartition) -> None:
        """Fail: a single broker has no reassignments."""
        raise AssertionError

    def elect_preferred(self, _: TopicPartition) -> None:
        """Do nothing: this broker already owns all partitions."""
