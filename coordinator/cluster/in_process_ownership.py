"""Several brokers in one process: a table in memory that says which of them owns what.

Partitions are placed by a hash of their topic's name and their number, so that a start places them as the last one
did. A partition that lost its owner goes to the next of its replicas that lives; it stays there when the first one
is back, as in Kafka before leaders are rebalanced. What was moved is forgotten when the process ends.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from coordinator.cluster.partition_ownership import (
    BrokerInfo,
    MoveCause,
    PartitionMoveListener,
    Reassignment,
)
from storage.topic_partition import TopicPartition

OnPartitionMoved = Callable[[TopicPartition, int | None, int | None, MoveCause], None]
"""Takes a partition, its owner before and after, and why."""


class ClusterOperationError(Exception):
    """What was asked for cannot be: the text says why."""


class InProcessOwnership:
    """The `PartitionOwnership` of several brokers in one process."""

    single_broker_id = None

    def __init__(
        self,
        node_ids: Sequence[int],
        partitions: Callable[[], Iterable[TopicPartition]],
        replication_factor: Callable[[str], int],
        brokers: PartitionMoveListener,
    ) -> None:
        """Place all partitions.

        Args:
            node_ids: The ids of the brokers, at least two.
            partitions: Returns all partitions that exist.
            replication_factor: Returns how many replicas each partition of a topic has.
            brokers: Opens and releases partitions.
        """
        assert len(node_ids) > 1
        self.all_brokers = {node_id: BrokerInfo(node_id) for node_id in node_ids}
        """All brokers, also those that are stopped."""
        self.moves: dict[MoveCause, int] = dict.fromkeys(MoveCause, 0)
        """How often a partition came to another owner, or lost its only one, by why."""
        self.listeners: list[OnPartitionMoved] = []
        """Who is told when that has happened."""
        self._node_ids = tuple(node_ids)
        self._live = dict(self.all_brokers)
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._move_listener = brokers
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        """Replicas of partitions that were assigned, moved or reassigned."""
        self._reassigning: dict[TopicPartition, Reassignment] = {}
        self._owners: dict[TopicPartition, int] = {}
        """Owners that are another than the first replica that lives."""

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """Those that live."""
        return self._live

    @property
    def registered(self) -> Container[int]:
        """Those that live and those that are stopped."""
        return self.all_brokers

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """What waits for a broker that is stopped."""
        return self._reassigning

    def max_replicas(self, topic: str) -> int:
        """One of records, one at each broker of coordinators."""
        return min(self._replication_factor(topic), len(self._node_ids))

    def find_replicas(self, partition: TopicPartition) -> Sequence[int]:
        """As they were assigned, or else were placed."""
        assigned = self._assigned.get(partition)
        if assigned is not None:
            return assigned
        ids = self._node_ids
        first = crc32(partition.topic.encode()) + partition.partition
        count = self.max_replicas(partition.topic)
        return tuple(ids[(first + number) % len(ids)] for number in range(count))

    def find_owner(self, partition: TopicPartition) -> int | None:
        """One of the replicas, if one lives."""
        owner = self._owners.get(partition)
        if owner is not None:
            return owner
        return next((node_id for node_id in self.find_replicas(partition) if node_id in self._live), None)

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Whether it is that one."""
        return self.find_owner(partition) == node_id

    def is_remote(self, _: TopicPartition) -> bool:
        """All are here."""
        return False

    def list_owned(self) -> dict[int, list[TopicPartition]]:
        """All partitions by owner, those of brokers that live."""
        owned: dict[int, list[TopicPartition]] = {node_id: [] for node_id in self._live}
        for partition in self._partitions():
            owner = self.find_owner(partition)
            if owner is not None:
                owned[owner].append(partition)
        return owned

    def leader_epoch(self, _: TopicPartition) -> int:
        """Not known while its log is not open."""
        return 0

    def assign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """It has its only replica there."""
        assert len(replicas) == 1, replicas
        assert replicas[0] in self.all_brokers, replicas
        self._assigned[partition] = tuple(replicas)

    def unassign_replicas(self, partition: TopicPartition) -> None:
        """It is placed as if it was never assigned."""
        self._assigned.pop(partition, None)

    def forget_topic(self, topic: str) -> None:
        """A topic is gone: one of that name is placed anew."""
        tables: tuple[dict[TopicPartition, Any], ...] = self._owners, self._assigned, self._reassigning
        for table in tables:
            for partition in [each for each in table if each.topic == topic]:
                del table[partition]

    # Changing

    def move_partition(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        """Makes a broker the owner of a partition; whether it was not. A replica comes with it, in the place
        of the owner's, and what is in progress is cancelled. Raises ClusterOperationError."""
        if to not in self._live:
            raise ClusterOperationError(
                f"broker {to} is stopped" if to in self.all_brokers else f"there is no broker {to}"
            )
        before = self.find_owner(partition)
        if before == to:
            return False
        underway = self._reassigning.pop(partition, None)
        replicas = self.find_replicas(partition) if underway is None else underway.origin
        if to not in replicas:
            gives_way = before if before in replicas else replicas[0]
            replicas = [to if each == gives_way else each for each in replicas]
        self._assigned[partition] = tuple(replicas)
        return self._set_owner(partition, before, to, MoveCause.MOVED, hold_loading_s)

    def reassign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """At once unless a broker that is new to the partition is stopped, or all of them are."""
        assert 0 < len(set(replicas)) == len(replicas) <= self.max_replicas(partition.topic), replicas
        assert all(each in self.all_brokers for each in replicas), replicas
        before, current = self.find_owner(partition), self.find_replicas(partition)
        underway = self._reassigning.pop(partition, None)
        reassignment = Reassignment.between(current if underway is None else underway.origin, replicas)
        self._assigned[partition] = reassignment.replicas
        self._reassigning[partition] = reassignment
        self._try_finish_reassignment(partition, before)

    def cancel_reassignment(self, partition: TopicPartition) -> None:
        """If its owner is one that was to be added, the first of the others that lives becomes the owner."""
        before = self.find_owner(partition)
        origin = self._reassigning.pop(partition).origin
        self._assigned[partition] = origin
        self._ensure_owner_is_replica(partition, before)

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Moves it there, if it is not."""
        preferred = self.find_replicas(partition)[0]
        assert preferred in self._live, preferred
        self._set_owner(partition, self.find_owner(partition), preferred, MoveCause.ELECTED)

    def stop_broker(self, node_id: int) -> None:
        """A broker is no more: what it owns goes to other replicas that live. Raises ClusterOperationError."""
        if node_id not in self.all_brokers:
            raise ClusterOperationError(f"there is no broker {node_id}")
        if node_id not in self._live:
            raise ClusterOperationError(f"broker {node_id} is stopped already")
        if len(self._live) == 1:
            raise ClusterOperationError(f"broker {node_id} is the last one")
        owned = [partition for partition in self._partitions() if self.find_owner(partition) == node_id]
        del self._live[node_id]
        for partition in owned:
            self._owners.pop(partition, None)
            owner = self.find_owner(partition)
            if owner is not None:
                self._owners[partition] = owner
            self._notify_moved(partition, node_id, owner, MoveCause.BROKER_STOPPED)

    def start_broker(self, node_id: int) -> None:
        """A broker is back: what nobody owns and it has a replica of is its own. Raises ClusterOperationError."""
        if node_id not in self.all_brokers:
            raise ClusterOperationError(f"there is no broker {node_id}")
        if node_id in self._live:
            raise ClusterOperationError(f"broker {node_id} is not stopped")
        owners = {partition: self.find_owner(partition) for partition in self._partitions()}
        self._live = {
            each: broker for each, broker in self.all_brokers.items() if each in self._live or each == node_id
        }
        for partition, before in owners.items():
            if before is not None:
                self._owners[partition] = before
            elif self.find_owner(partition) == node_id:
                self._notify_moved(partition, None, node_id, MoveCause.BROKER_STARTED)
        for partition in owners:
            if partition in self._reassigning:
                self._try_finish_reassignment(partition, self.find_owner(partition))

    # What is the same for all

    def _try_finish_reassignment(self, partition: TopicPartition, before: int | None) -> None:
        """Ends a reassignment if it can; its owner is one of its replicas in any case. In: the owner until now."""
        reassignment = self._reassigning[partition]
        if reassignment.can_end(self._live):
            del self._reassigning[partition]
            self._assigned[partition] = reassignment.target
        self._ensure_owner_is_replica(partition, before)

    def _ensure_owner_is_replica(self, partition: TopicPartition, before: int | None) -> None:
        replicas = self.find_replicas(partition)
        owner = before
        if before not in replicas:
            owner = next((each for each in replicas if each in self._live), None)
        self._set_owner(partition, before, owner, MoveCause.REASSIGNED)

    def _set_owner(
        self,
        partition: TopicPartition,
        before: int | None,
        owner: int | None,
        cause: MoveCause,
        hold_loading_s: float = 0,
    ) -> bool:
        if owner is None:
            self._owners.pop(partition, None)
        else:
            self._owners[partition] = owner
        if before == owner:
            return False
        self._notify_moved(partition, before, owner, cause, hold_loading_s)
        return True

    def _notify_moved(
        self,
        partition: TopicPartition,
        before: int | None,
        owner: int | None,
        cause: MoveCause,
        hold_loading_s: float = 0,
    ) -> None:
        assert owner is None or owner in self._live, partition
        self.moves[cause] += 1
        if before is not None:
            self._move_listener.on_partition_lost(partition, before, cause)
        if owner is not None:
            self._move_listener.on_partition_gained(partition, owner, cause, hold_loading_s)
        for listener in self.listeners:
            listener(partition, before, owner, cause)
