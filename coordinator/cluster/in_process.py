"""Several brokers in one process: a table in memory that says which of them owns what.

Partitions are placed by a hash of their topic's name and their number, so that a start places them as the last one
did. A partition that lost its owner goes to the next of its replicas that lives; it stays there when the first one
is back, as in Kafka before leaders are rebalanced. What was moved is forgotten when the process ends.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from zlib import crc32

from coordinator.cluster.broker import Broker
from coordinator.cluster.ownership import Gained, Lost, MoveCause
from storage.topic_partition import TopicPartition


class NotPossible(Exception):
    """What was asked for cannot be: the text says why."""


class InProcess:
    """An `Ownership`. `gained` and `lost` are to be set before anything moves."""

    gained: Gained
    lost: Lost

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
        self._node_ids = tuple(node_ids)
        self._live = dict(self.known)
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        """Replicas of partitions that were moved to a broker that had none."""
        self._owners: dict[TopicPartition, int] = {}
        """Owners that are another than the first replica that lives."""

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Those that live."""
        return self._live

    def replicas(self, partition: TopicPartition) -> Sequence[int]:
        """As they were assigned, or else were placed."""
        assigned = self._assigned.get(partition)
        if assigned is not None:
            return assigned
        ids = self._node_ids
        first = crc32(partition.topic.encode()) + partition.partition
        factor = min(self._replication_factor(partition.topic), len(ids))
        return tuple(ids[(first + number) % len(ids)] for number in range(factor))

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

    def assign(self, partition: TopicPartition, node_id: int) -> None:
        """It has its only replica there."""
        assert node_id in self.known, node_id
        self._assigned[partition] = (node_id,)

    def forget(self, topic: str) -> None:
        """A topic is gone: one of that name is placed anew."""
        for table in (self._owners, self._assigned):
            for partition in [each for each in table if each.topic == topic]:
                del table[partition]

    # Changing

    def move(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> bool:
        """Makes a broker the owner of a partition; whether it was not. A replica comes with it, in the place
        of the owner's. Raises NotPossible."""
        if to not in self._live:
            raise NotPossible(f"broker {to} is stopped" if to in self.known else f"there is no broker {to}")
        before = self.owner(partition)
        if before == to:
            return False
        replicas = self.replicas(partition)
        if to not in replicas:
            gives_way = replicas[0] if before is None else before
            self._assigned[partition] = tuple(to if each == gives_way else each for each in replicas)
        self._owners[partition] = to
        self._changed(partition, before, to, MoveCause.MOVED, hold_loading_s)
        return True

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
