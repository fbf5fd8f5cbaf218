"""Several brokers in one process: a table in memory that says which of them owns what.

Partitions are placed by a hash of their topic's name and their number, so that a start places them as the last one
did. A partition that lost its owner goes to the next of its replicas that lives; it stays there when the first one
is back, as in Kafka before leaders are rebalanced. What was moved is forgotten when the process ends.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from coordinator.cluster.broker import Broker
from coordinator.cluster.ownership import Gained, Lost, MoveCause
from coordinator.cluster.reassignment import Reassignment
from storage.topic_partition import TopicPartition

Moved = Callable[[TopicPartition, int | None, int | None, MoveCause], None]
"""Takes a partition, its owner before and after, and why."""


class NotPossible(Exception):
    """What was asked for cannot be: the text says why."""


class InProcess:
    """An `Ownership`. `gained` and `lost` are to be set before anything moves."""

    gained: Gained
    lost: Lost
    only = None

    def __init__(
        self,
        node_ids: Sequence[int],
        partitions: Callable[[], Iterable[TopicPartition]],
        replication_factor: Callable[[str], int],
    ) -> None:
        """In: what gives all partitions that there are, and how many replicas those of a topic have."""
        assert len(node_ids) > 1
        self.known = {node_id: Broker(node_id) for node_id in node_ids}
        """All brokers, also those that are stopped."""
        self.moves: dict[MoveCause, int] = dict.fromkeys(MoveCause, 0)
        """How often a partition came to another owner, or lost its only one, by why."""
        self.listeners: list[Moved] = []
        """Who is told when that has happened."""
        self._node_ids = tuple(node_ids)
        self._live = dict(self.known)
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        """Replicas of partitions that were assigned, moved or reassigned."""
        self._reassigning: dict[TopicPartition, Reassignment] = {}
        self._owners: dict[TopicPartition, int] = {}
        """Owners that are another than the first replica that lives."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Those that live."""
        return self._live

    @property
    def registered(self) -> Container[int]:
        """Those that live and those that are stopped."""
        return self.known

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """What waits for a broker that is stopped."""
        return self._reassigning

    def most_replicas(self, topic: str) -> int:
        """One of records, one at each broker of coordinators."""
        return min(self._replication_factor(topic), len(self._node_ids))

    def replicas(self, partition: TopicPartition) -> Sequence[int]:
        """As they were assigned, or else were placed."""
        assigned = self._assigned.get(partition)
        if assigned is not None:
            return assigned
        ids = self._node_ids
        first = crc32(partition.topic.encode()) + partition.partition
        count = self.most_replicas(partition.topic)
        return tuple(ids[(first + number) % len(ids)] for number in range(count))

    def owner(self, partition: TopicPartition) -> int | None:
        """One of the replicas, if one lives."""
        owner = self._owners.get(partition)
        if owner is not None:
            return owner
        return next((node_id for node_id in self.replicas(partition) if node_id in self._live), None)

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Whether it is that one."""
        return self.owner(partition) == node_id

    def is_far(self, _: TopicPartition) -> bool:
        """All are here."""
        return False

    def owned(self) -> dict[int, list[TopicPartition]]:
        """All partitions by owner, those of brokers that live."""
        owned: dict[int, list[TopicPartition]] = {node_id: [] for node_id in self._live}
        for partition in self._partitions():
            owner = self.owner(partition)
            if owner is not None:
                owned[owner].append(partition)
        return owned

    def leader_epoch(self, _: TopicPartition) -> int:
        """Not known while its log is not open."""
        return 0

    def assign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """It has its only replica there."""
        assert len(replicas) == 1, replicas
        assert replicas[0] in self.known, replicas
        self._assigned[partition] = tuple(replicas)

    def unassign(self, partition: TopicPartition) -> None:
        """It is placed as if it was never assigned."""
        self._assigned.pop(partition, None)

    def forget(self, topic: str) -> None:
        """A topic is gone: one of that name is placed anew."""
        tables: tuple[dict[TopicPartition, Any], ...] = self._owners, self._assigned, self._reassigning
        for table in tables:
            for partition in [each for each in table if each.topic == topic]:
                del table[partition]

    # Changing

    def move(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        """Makes a broker the owner of a partition; whether it was not. A replica comes with it, in the place
        of the owner's, and what is in progress is cancelled. Raises NotPossible."""
        if to not in self._live:
            raise NotPossible(f"broker {to} is stopped" if to in self.known else f"there is no broker {to}")
        before = self.owner(partition)
        if before == to:
            return False
        underway = self._reassigning.pop(partition, None)
        replicas = self.replicas(partition) if underway is None else underway.origin
        if to not in replicas:
            gives_way = before if before in replicas else replicas[0]
            replicas = [to if each == gives_way else each for each in replicas]
        self._assigned[partition] = tuple(replicas)
        return self._own(partition, before, to, MoveCause.MOVED, hold_loading_s)

    def reassign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """At once unless a broker that is new to the partition is stopped, or all of them are."""
        assert 0 < len(set(replicas)) == len(replicas) <= self.most_replicas(partition.topic), replicas
        assert all(each in self.known for each in replicas), replicas
        before, current = self.owner(partition), self.replicas(partition)
        underway = self._reassigning.pop(partition, None)
        reassignment = Reassignment.of(current if underway is None else underway.origin, replicas)
        self._assigned[partition] = reassignment.replicas
        self._reassigning[partition] = reassignment
        self._settle(partition, before)

    def cancel_reassignment(self, partition: TopicPartition) -> None:
        """If its owner is one that was to be added, the first of the others that lives becomes the owner."""
        before = self.owner(partition)
        origin = self._reassigning.pop(partition).origin
        self._assigned[partition] = origin
        self._owned_by_replica(partition, before)

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Moves it there, if it is not."""
        preferred = self.replicas(partition)[0]
        assert preferred in self._live, preferred
        self._own(partition, self.owner(partition), preferred, MoveCause.ELECTED)

    def stop(self, node_id: int) -> None:
        """A broker is no more: what it owns goes to other replicas that live. Raises NotPossible."""
        if node_id not in self.known:
            raise NotPossible(f"there is no broker {node_id}")
        if node_id not in self._live:
            raise NotPossible(f"broker {node_id} is stopped already")
        if len(self._live) == 1:
            raise NotPossible(f"broker {node_id} is the last one")
        owned = [partition for partition in self._partitions() if self.owner(partition) == node_id]
        del self._live[node_id]
        for partition in owned:
            self._owners.pop(partition, None)
            owner = self.owner(partition)
            if owner is not None:
                self._owners[partition] = owner
            self._changed(partition, node_id, owner, MoveCause.BROKER_STOPPED)

    def start(self, node_id: int) -> None:
        """A broker is back: what nobody owns and it has a replica of is its own. Raises NotPossible."""
        if node_id not in self.known:
            raise NotPossible(f"there is no broker {node_id}")
        if node_id in self._live:
            raise NotPossible(f"broker {node_id} is not stopped")
        owners = {partition: self.owner(partition) for partition in self._partitions()}
        self._live = {
            each: broker for each, broker in self.known.items() if each in self._live or each == node_id
        }
        for partition, before in owners.items():
            if before is not None:
                self._owners[partition] = before
            elif self.owner(partition) == node_id:
                self._changed(partition, None, node_id, MoveCause.BROKER_STARTED)
        for partition in owners:
            if partition in self._reassigning:
                self._settle(partition, self.owner(partition))

    # What is the same for all

    def _settle(self, partition: TopicPartition, before: int | None) -> None:
        """Ends a reassignment if it can; its owner is one of its replicas in any case. In: the owner until now."""
        reassignment = self._reassigning[partition]
        if reassignment.can_end(self._live):
            del self._reassigning[partition]
            self._assigned[partition] = reassignment.target
        self._owned_by_replica(partition, before)

    def _owned_by_replica(self, partition: TopicPartition, before: int | None) -> None:
        replicas = self.replicas(partition)
        owner = before
        if before not in replicas:
            owner = next((each for each in replicas if each in self._live), None)
        self._own(partition, before, owner, MoveCause.REASSIGNED)

    def _own(
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
        self._changed(partition, before, owner, cause, hold_loading_s)
        return True

    def _changed(
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
            self.lost(partition, before, cause)
        if owner is not None:
            self.gained(partition, owner, cause, hold_loading_s)
        for listener in self.listeners:
            listener(partition, before, owner, cause)
