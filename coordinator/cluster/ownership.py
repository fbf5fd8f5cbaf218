"""Who owns which partition: coordinates it, or leads it. All of the server asks this; nobody else decides it."""

from collections.abc import Callable, Container, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from coordinator.cluster.broker import Broker
from coordinator.cluster.reassignment import Reassignment
from storage.topic_partition import TopicPartition


class MoveCause(StrEnum):
    """Why a partition has another owner than before, or none, or one again."""

    MOVED = "moved"
    BROKER_STOPPED = "broker-stopped"
    BROKER_STARTED = "broker-started"
    REASSIGNED = "reassigned"
    ELECTED = "elected"


Gained = Callable[[TopicPartition, int, MoveCause, float], None]
"""Takes a partition, the broker that owns it from now on, why, and for how many seconds at least it is to be
loading."""

Lost = Callable[[TopicPartition, int, MoveCause], None]
"""Takes a partition, the broker that owns it no longer, and why."""


class Ownership(Protocol):
    """What is asked of a cluster by those who answer requests. All in the event loop's thread."""

    @property
    def only(self) -> int | None:
        """The broker that owns everything, always; None where there are several. Who asks for each partition of an
        answer need not ask about each then."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Those that live, by id, in order."""

    def owner(self, partition: TopicPartition) -> int | None:
        """The broker that owns a partition; None while there is none."""

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Whether it is that broker."""

    def leader_epoch(self, partition: TopicPartition) -> int:
        """That of a partition whose log is not open here, as far as is known; 0 where nothing is."""

    def assign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Says which brokers are to own a partition that is about to be made, the first one first, in the place of
        those that would."""

    def unassign(self, partition: TopicPartition) -> None:
        """Takes an assignment back: the partition was not made."""

    def replicas(self, partition: TopicPartition) -> Sequence[int]:
        """The brokers that may own a partition, the one that was meant to first. Some may be stopped."""

    def is_far(self, partition: TopicPartition) -> bool:
        """Whether another process owns it: that its log is not open here says nothing."""

    # What administrators ask for over Kafka's protocol

    @property
    def registered(self) -> Container[int]:
        """The ids of all brokers, also those that are stopped."""

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """What is in progress."""

    def most_replicas(self, topic: str) -> int:
        """How many replicas a partition of a topic may have; of one that is not there, if it is made."""

    def reassign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Gives a partition other replicas, in the place of what is in progress: at once, or when all live that it
        has not had. Its owner stays the owner if it is one of them. In: brokers that are registered, each once, no
        more than it may have. Raises Refusal where records would have to be copied."""

    def cancel_reassignment(self, partition: TopicPartition) -> None:
        """Leaves a partition that is being reassigned the replicas that it had."""

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Makes the first of a partition's replicas, which lives, its owner."""
