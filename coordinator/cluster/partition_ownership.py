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
    """`ports` are those that clients are told, by the name of the listener; they are known once it listens."""

    node_id: int
    ports: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    """What clients are told, by the name of the listener, where that is another host than this one."""

    rack: str | None = None
    lease: int = 0
    """Of its session with the store of a cluster, if it has one."""
    epoch: int = 0
    """At which revision of that store it registered."""

    def node_for_client(self, node: Node) -> Node:
        """This broker as a client of another one should know it: on the same host, unless it is known to be on
        another one, by the listener of the same name; port -1 where it has none. In: the other one, as the client
        knows it."""
        if node.node_id == self.node_id:
            return node if self.rack is None else node._replace(rack=self.rack)
        if self.hosts:
            host, port = self.hosts.get(node.listener, ""), self.ports.get(node.listener, -1)
            return node._replace(node_id=self.node_id, host=host, port=port, rack=self.rack)
        return node._replace(node_id=self.node_id, port=self.ports[node.listener], rack=self.rack)


class ClusterChangeRefused(OSError):
    """Another broker has changed the same, or the store cannot be asked."""


class ClusterTopicExists(ClusterChangeRefused):
    """Another broker has just made a topic of that name."""


class Reassignment(Struct, frozen=True):
    """`replicas` are those that stay, those that are added and, at the end, those that are removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @classmethod
    def between(cls, current: Sequence[int], target: Sequence[int]) -> "Reassignment":
        """From one set of replicas to another, both in order of preference."""
        adding = tuple(each for each in target if each not in current)
        removing = tuple(each for each in current if each not in target)
        return cls((*target, *removing), adding, removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at the end."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas where it is cancelled."""
        return tuple(each for each in self.replicas if each not in self.adding)

    def can_end(self, live: Container[int]) -> bool:
        """Whether nobody has to be waited for."""
        return all(each in live for each in self.adding) and any(each in live for each in self.target)


class MoveCause(StrEnum):
    """Why a partition has another owner than before, or none, or one again."""

    MOVED = "moved"
    BROKER_STOPPED = "broker-stopped"
    BROKER_STARTED = "broker-started"
    REASSIGNED = "reassigned"
    ELECTED = "elected"


class PartitionMoveListener(Protocol):
    """The brokers of a process, when a partition changes its owner. Called at once, in this order."""

    def on_partition_lost(self, partition: TopicPartition, node_id: int, cause: MoveCause) -> None:
        """Handle that a broker does not own a partition any more."""

    def on_partition_gained(
        self, partition: TopicPartition, node_id: int, cause: MoveCause, hold_loading_s: float
    ) -> None:
        """Handle that a broker owns a partition, which is to be loading for so many seconds at least."""


class PartitionOwnership(Protocol):
    """Which broker owns which partition, for those who answer requests. All methods belong to the event
    loop's thread."""

    @property
    def single_broker_id(self) -> int | None:
        """The broker that owns everything, always; None where there are several. Who asks for each partition of an
        answer need not ask about each then."""

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """Those that live, by id, in order."""

    def find_owner(self, partition: TopicPartition) -> int | None:
        """The broker that owns a partition; None while there is none."""

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Whether it is that broker."""

    def leader_epoch(self, partition: TopicPartition) -> int:
        """That of a partition whose log is not open here, as far as is known; 0 where nothing is."""

    def assign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Says which brokers are to own a partition that is about to be made, the first one first, in the place of
        those that would."""

    def unassign_replicas(self, partition: TopicPartition) -> None:
        """Takes an assignment back: the partition was not made."""

    def find_replicas(self, partition: TopicPartition) -> Sequence[int]:
        """The brokers that may own a partition, the one that was meant to first. Some may be stopped."""

    def is_remote(self, partition: TopicPartition) -> bool:
        """Whether another process owns it: that its log is not open here says nothing."""

    # What administrators ask for over Kafka's protocol

    @property
    def registered(self) -> Container[int]:
        """The ids of all brokers, also those that are stopped."""

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """What is in progress."""

    def max_replicas(self, topic: str) -> int:
        """How many replicas a partition of a topic may have; of one that is not there, if it is made."""

    def reassign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Gives a partition other replicas, in the place of what is in progress: at once, or when all live that it
        has not had. Its owner stays the owner if it is one of them. In: brokers that are registered, each once, no
        more than it may have. Raises ApiError where records would have to be copied."""

    def cancel_reassignment(self, partition: TopicPartition) -> None:
        """Leaves a partition that is being reassigned the replicas that it had."""

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Makes the first of a partition's replicas, which lives, its owner."""


class SingleBrokerOwnership:
    """The `PartitionOwnership` of a single broker, which owns everything."""

    def __init__(self, node_id: int, rack: str | None = None) -> None:
        self.single_broker_id = node_id
        self._replicas = (node_id,)
        self._brokers = {node_id: BrokerInfo(node_id, rack=rack)}

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """This one."""
        return self._brokers

    def find_owner(self, _: TopicPartition) -> int | None:
        """This one, of everything."""
        return self.single_broker_id

    def owns(self, _: int, __: TopicPartition) -> bool:
        """Whoever is asked is this one."""
        return True

    def leader_epoch(self, _: TopicPartition) -> int:
        """Not known while its log is not open."""
        return 0

    def assign_replicas(self, _: TopicPartition, __: Sequence[int]) -> None:
        """It is this one in any case."""

    def unassign_replicas(self, _: TopicPartition) -> None:
        """Nothing is remembered of assignments."""

    def find_replicas(self, _: TopicPartition) -> Sequence[int]:
        """This one."""
        return self._replicas

    def is_remote(self, _: TopicPartition) -> bool:
        """There is no other."""
        return False

    @property
    def registered(self) -> Container[int]:
        """This one."""
        return self._brokers

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """Never any."""
        return {}

    def max_replicas(self, _: str) -> int:
        """One."""
        return 1

    def reassign_replicas(self, _: TopicPartition, replicas: Sequence[int]) -> None:
        """To this one, where everything is."""
        assert tuple(replicas) == self._replicas, replicas

    def cancel_reassignment(self, _: TopicPartition) -> None:
        """There is none."""
        raise AssertionError

    def elect_preferred(self, _: TopicPartition) -> None:
        """It owns everything."""
