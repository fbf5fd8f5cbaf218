"""Who owns what in a cluster on etcd, as those who answer requests ask it."""

from collections.abc import Callable, Container, Mapping, Sequence

from coordinator.cluster.append import Partition
from coordinator.cluster.broker import Broker
from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.member.member import Member
from coordinator.cluster.placement import place
from coordinator.cluster.reassignment import Reassignment
from coordinator.names import COORDINATED
from coordinator.topics.refusal import Refusal
from protocol.errors import ErrorCode
from storage.topic_partition import TopicPartition


class ClusterOwnership:
    """An `Ownership`. Coordinators are where they were claimed; records are where their topic says."""

    only = None

    def __init__(
        self,
        member: Callable[[], Member],
        catalogue: Callable[[], CatalogueKeys],
        node_id: int,
        pin: Callable[[TopicPartition, int], None],
    ) -> None:
        """In: who has a coordinator moved to a broker that lives, and kept there."""
        self._member = member
        self._pin = pin
        self._catalogue = catalogue
        self._node_id = node_id
        self._assigned: dict[TopicPartition, int] = {}

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Those with a session."""
        return self._member().table.brokers

    def owner(self, partition: TopicPartition) -> int | None:
        """The broker that owns a partition, if that lives."""
        if partition.topic in COORDINATED:
            owned = self._member().owned
            owner = self._member().table.owners.get((partition.topic, partition.partition))
            if owner == self._node_id and Partition(*partition) not in owned:
                return None  # it is being given up, or is not taken yet
        else:
            owner = self._leader(partition)
        return owner if owner in self.brokers else None

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Whether it is that broker. What this one owns is not asked of the table, which is older."""
        if partition.topic in COORDINATED:
            if node_id == self._node_id:
                return Partition(*partition) in self._member().owned
            return self.owner(partition) == node_id
        return self._leader(partition) == node_id

    def assign(self, partition: TopicPartition, node_id: int) -> None:
        """See `Ownership`."""
        self._assigned[partition] = node_id

    def replicas(self, partition: TopicPartition) -> Sequence[int]:
        """All brokers that live may coordinate; records have one replica."""
        if partition.topic in COORDINATED:
            owner = self.owner(partition)
            others = [node_id for node_id in self.brokers if node_id != owner]
            return others if owner is None else [owner, *others]
        leader = self._leader(partition)
        return [] if leader is None else [leader]

    def is_far(self, partition: TopicPartition) -> bool:
        """See `Ownership`."""
        return not self.owns(self._node_id, partition)

    @property
    def registered(self) -> Container[int]:
        """Those with a session: nobody knows of others."""
        return self.brokers

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """Nothing waits for a broker that does not live."""
        return {}

    def most_replicas(self, topic: str) -> int:
        """All brokers may coordinate; records have one replica."""
        return len(self.brokers) if topic in COORDINATED else 1

    def reassign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """The first of them is to coordinate it; the others may, as any one that lives. Raises Refusal for records
        that lie at another broker."""
        if partition.topic in COORDINATED:
            self._pin(partition, replicas[0])
        elif replicas[0] != self._leader(partition):
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The records of {partition} are on one broker, and stay there: nothing is copied.",
            )

    def cancel_reassignment(self, _: TopicPartition) -> None:
        """There is none."""
        raise AssertionError

    def elect_preferred(self, _: TopicPartition) -> None:
        """Its owner is; while it has none brokers that live are about to claim it."""

    def leaders(self, topic: str, partitions: int) -> list[int]:
        """Which brokers are to lead a topic that is about to be made, or to grow: as assigned, else spread."""
        spread = place(topic, range(partitions), self.brokers or [self._node_id], {})
        return [
            self._assigned.pop(TopicPartition(topic, number), spread[number]) for number in range(partitions)
        ]

    def _leader(self, partition: TopicPartition) -> int | None:
        topic = self._catalogue().topics.get(partition.topic)
        if topic is None or partition.partition >= len(topic.leaders):
            return None
        return topic.leaders[partition.partition]
