"""Who owns which partition: coordinates it, or leads it. All of the server asks this; nobody else decides it."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from coordinator.cluster.broker import Broker
from storage.topic_partition import TopicPartition


class MoveCause(StrEnum):
    """Why a partition has another owner than before, or none, or one again."""

    MOVED = "moved"
    BROKER_STOPPED = "broker-stopped"
    BROKER_STARTED = "broker-started"


Gained = Callable[[TopicPartition, int, MoveCause, float], None]
"""Takes a partition, the broker that owns it from now on, why, and for how many seconds at least it is to be
loading."""

Lost = Callable[[TopicPartition, int, MoveCause], None]
"""Takes a partition, the broker that owns it no longer, and why."""


class Ownership(Protocol):
    """What is asked of a cluster by those who answer requests. All in the event loop's thread."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Those that live, by id, in order."""

    def owner(self, partition: TopicPartition) -> int | None:
        """The broker that owns a partition; None while there is none."""

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Whether it is that broker."""

    def assign(self, partition: TopicPartition, node_id: int) -> None:
        """Says which broker is to own a partition that is about to be made, in the place of the one that would."""

    def replicas(self, partition: TopicPartition) -> Sequence[int]:
        """The brokers that may own a partition, the one that was meant to first. Some may be stopped."""

    def is_far(self, partition: TopicPartition) -> bool:
        """Whether another process owns it: that its log is not open here says nothing."""
