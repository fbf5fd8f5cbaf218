"""Ownership of partitions among several brokers in one process, as a table in memory.

A hash of topic name and partition number places the partitions, so every start gives the same placement. A
partition that lost its owner goes to the next of its live replicas. It stays there when its preferred replica is
back, as in Kafka before the rebalance of leaders. Moves are lost when the process ends.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from coordinator.cluster.partition_ownership import (
    BrokerInfo,
    ClusterOperationError,
    MoveCause,
    PartitionMoveListener,
    Reassignment,
)
from storage.topic_partition import TopicPartition

OnPartitionMoved = Callable[[TopicPartition, int | None, int | None, MoveCause], None]
"""Takes a partition, its owners before and after, and the cause."""


class InProcessOwnership:
    """The `PartitionOwnership` of several brokers in one process."""

    single_broker_id = None

    def __init__(
        self,
        racks: Mapping[int, str | None],
        partitions: Callable[[], Iterable[TopicPartition]],
        replication_factor: Callable[[str], int],
        brokers: PartitionMoveListener,
    ) -> None:
        """Place all partitions.

        Args:
            racks: The rack of each broker by its id, at least two. None for a broker without a rack.
            partitions: Returns all existing partitions.
            replication_factor: Returns the number of replicas of a topic's partitions.
            brokers: Opens and releases partitions.
        """
        assert len(racks) > 1
        self.all_brokers = {node_id: BrokerInfo(node_id, rack=rack) for node_id, rack in racks.items()}
        """All brokers, including stopped ones."""
        self.moves: dict[MoveCause, int] = dict.fromkeys(MoveCause, 0)
        """Number of changes of owners, including losses without a new owner, by cause."""
        self.listeners: list[OnPartitionMoved] = []
        """Called after each change of an owner."""
        self._node_ids = tuple(racks)
        self._live = dict(self.all_brokers)
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._move_listener = brokers
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        """Replicas of partitions that were assigned, moved or reassigned."""
        self._reassigning: dict[TopicPartition, Reassignment] = {}
        self._owners: dict[TopicPartition, int] = {}
        """Owners that are not the first live replica."""

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """Live brokers by id, in ascending order."""
        return self._live

    @property
    def registered(self) -> Container[int]:
        """Live and stopped brokers."""
        return self.all_brokers

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """Reassignments that wait for a stopped broker."""
        return self._reassigning

    def max_replicas(self, topic: str) -> int:
        """Return 1 for a topic with records, the number of brokers for a coordinator topic."""
        return min(self._replication_factor(topic), len(self._node_ids))

    def find_replicas(self, partition: TopicPartition) -> Sequence[int]:
        """Return the assigned replicas, or else the placed ones."""
        assigned = self._assigned.get(partition)
        if assigned is not None:
            return assigned
        ids = self._node_ids
        first = crc32(partition.topic.encode()) + partition.partition
        count = self.max_replicas(partition.topic)
        return tuple(ids[(first + number) % len(ids)] for number in range(count))

    def find_owner(self, partition: TopicPartition) -> int | None:
        """Return the owner, which is a live replica; None without one."""
        owner = self._owners.get(partition)
        if owner is not None:
            return owner
        return next((node_id for node_id in self.find_replicas(partition) if node_id in self._live), None)

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Return whether the broker `node_id` owns a partition."""
        return self.find_owner(partition) == node_id

    def is_remote(self, _: TopicPartition) -> bool:
        """Return False: all brokers are in this process."""
        return False

    def list_owned(self) -> dict[int, list[TopicPartition]]:
        """Return all partitions by owner, for every live broker."""
        owned: dict[int, list[TopicPartition]] = {node_id: [] for node_id in self._live}
        for partition in self._partitions():
            owner = self.find_owner(partition)
            if owner is not None:
                owned[owner].append(partition)
        return owned

    def leader_epoch(self, _: TopicPartition) -> int:
        """Return 0: the epoch is unknown while the log is closed."""
        return 0

    def assign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Assign the only replica of a partition."""
        assert len(replicas) == 1, replicas
        assert replicas[0] in self.all_brokers, replicas
        self._assigned[partition] = tuple(replicas)

    def unassign_replicas(self, partition: TopicPartition) -> None:
        """Remove an assignment, so that the partition is placed by its hash."""
        self._assigned.pop(partition, None)

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic, so that a new one of that name is placed by its hash."""
        tables: tuple[dict[TopicPartition, Any], ...] = self._owners, self._assigned, self._reassigning
        for table in tables:
            for partition in [each for each in table if each.topic == topic]:
                del table[partition]

    # Changes

    def move_partition(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        """Make a broker the owner of a partition. Return whether it was not the owner before.

        A broker without a replica takes the one of the owner. A reassignment in progress is cancelled.
        Raises ClusterOperationError if the broker is stopped or unknown.
        """
        if to not in self._live:
            raise ClusterOperationError(
                f"broker {to} is stopped" if to in self.all_brokers else f"broker {to} does not exist"
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
        """Reassign a partition, at once unless an added replica or all target replicas are stopped."""
        assert 0 < len(set(replicas)) == len(replicas) <= self.max_replicas(partition.topic), replicas
        assert all(each in self.all_brokers for each in replicas), replicas
        before, current = self.find_owner(partition), self.find_replicas(partition)
        underway = self._reassigning.pop(partition, None)
        reassignment = Reassignment.between(current if underway is None else underway.origin, replicas)
        self._assigned[partition] = reassignment.replicas
        self._reassigning[partition] = reassignment
        self._try_finish_reassignment(partition, before)

    def cancel_reassignment(self, partition: TopicPartition) -> None:
        """Cancel a reassignment. If the owner was an added replica, the first live one of the others takes over."""
        before = self.find_owner(partition)
        origin = self._reassigning.pop(partition).origin
        self._assigned[partition] = origin
        self._ensure_owner_is_replica(partition, before)

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Make the preferred replica the owner, if it is not."""
        preferred = self.find_replicas(partition)[0]
        assert preferred in self._live, preferred
        self._set_owner(partition, self.find_owner(partition), preferred, MoveCause.ELECTED)

    def stop_broker(self, node_id: int) -> None:
        """Stop a broker and move its partitions to other live replicas. Raises ClusterOperationError."""
        if node_id not in self.all_brokers:
            raise ClusterOperationError(f"broker {node_id} does not exist")
        if node_id not in self._live:
            raise ClusterOperationError(f"broker {node_id} is already stopped")
        if len(self._live) == 1:
            raise ClusterOperationError(f"broker {node_id} is the last running broker")
        owned = [partition for partition in self._partitions() if self.find_owner(partition) == node_id]
        del self._live[node_id]
        for partition in owned:
            self._owners.pop(partition, None)
            owner = self.find_owner(partition)
            if owner is not None:
                self._owners[partition] = owner
            self._notify_moved(partition, node_id, owner, MoveCause.BROKER_STOPPED)

    def start_broker(self, node_id: int) -> None:
        """Start a stopped broker, which then owns its partitions without an owner. Raises ClusterOperationError."""
        if node_id not in self.all_brokers:
            raise ClusterOperationError(f"broker {node_id} does not exist")
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

    # Common steps

    def _try_finish_reassignment(self, partition: TopicPartition, before: int | None) -> None:
        """Complete a reassignment if possible. One of its replicas takes over from `before`, the previous owner."""
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
