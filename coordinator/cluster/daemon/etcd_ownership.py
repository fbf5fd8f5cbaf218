"""Who owns what in a cluster on etcd, as those who answer requests ask it.

There are three kinds of partitions. Coordinators are where they were claimed, and may be anywhere. Records of
topics with replicas are where they were claimed, too: at one of their replicas. Records that are on a disk are led
by the broker that has it.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from coordinator.cluster.append import Partition
from coordinator.cluster.broker import Broker
from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.conflict import Refused
from coordinator.cluster.member.member import Member
from coordinator.cluster.placement import place
from coordinator.cluster.reassignment import Reassignment
from coordinator.cluster.shared_topic import SharedTopic
from coordinator.names import COORDINATED
from coordinator.topics.refusal import Refusal
from protocol.errors import ErrorCode
from storage.topic_partition import TopicPartition


class ClusterOwnership:
    """An `Ownership`."""

    only = None

    def __init__(
        self,
        member: Callable[[], Member],
        catalogue: Callable[[], CatalogueKeys],
        node_id: int,
        pin: Callable[[TopicPartition, int], None],
        give_replicas: Callable[[TopicPartition, Sequence[int]], None],
    ) -> None:
        """In: who has a partition moved to a broker that lives, and kept there; who gives one other replicas."""
        self.is_open: Callable[[TopicPartition], bool] = lambda _: False
        """Whether the log of a partition of a topic with replicas, which this broker owns, is here; set by who has
        them."""
        self._member = member
        self._pin = pin
        self._give_replicas = give_replicas
        self._catalogue = catalogue
        self._node_id = node_id
        self._assigned: dict[TopicPartition, Sequence[int]] = {}

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """Those with a session."""
        return self._member().table.brokers

    def owner(self, partition: TopicPartition) -> int | None:
        """The broker that owns a partition, if that lives."""
        if not self._is_claimed(partition.topic):
            owner = self._leader(partition)
        elif self.owns(self._node_id, partition):
            return self._node_id
        else:
            owner = self._member().table.owners.get((partition.topic, partition.partition))
            if owner == self._node_id:
                return None  # it is being given up, or is not taken yet
        return owner if owner in self.brokers else None

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Whether it is that broker. What this one owns is not asked of the table, which is older."""
        if not self._is_claimed(partition.topic):
            return self._leader(partition) == node_id
        if node_id != self._node_id:
            return self.owner(partition) == node_id
        is_owned = Partition(*partition) in self._member().owned
        return is_owned and (partition.topic in COORDINATED or self.is_open(partition))

    def leader_epoch(self, partition: TopicPartition) -> int:
        """See `Ownership`. Of records on another broker's disk it stays the first."""
        return self._member().table.epochs.get((partition.topic, partition.partition), 0)

    def assign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """See `Ownership`."""
        self._assigned[partition] = replicas

    def unassign(self, partition: TopicPartition) -> None:
        """See `Ownership`."""
        self._assigned.pop(partition, None)

    def replicas(self, partition: TopicPartition) -> Sequence[int]:
        """All brokers that live may coordinate; those of records are in the catalogue."""
        if partition.topic in COORDINATED:
            owner = self.owner(partition)
            others = [node_id for node_id in self.brokers if node_id != owner]
            return others if owner is None else [owner, *others]
        topic = self._topic(partition.topic)
        if topic is None or partition.partition >= len(topic.replicas):
            return []
        return topic.replicas[partition.partition]

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
        """All brokers that live; one where records are on a disk."""
        known = self._topic(topic)
        is_on_disk = known is not None and not known.is_replicated
        return 1 if is_on_disk else len(self.brokers)

    def may_move(self, partition: TopicPartition, to: int) -> str | None:
        """Why a broker that lives cannot own a partition; None where it can."""
        if partition.topic in COORDINATED:
            return None
        if not self._is_claimed(partition.topic):
            return f"the records of {partition} are on one broker, and stay there"
        replicas = self.replicas(partition)
        return None if to in replicas else f"broker {to} is no replica of {partition}: {list(replicas)} are"

    def reassign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """The first of them is to coordinate it; the others may, as any one that lives. Nothing of records has to
        be copied that the engine has. Raises Refusal for records that lie at another broker."""
        if partition.topic in COORDINATED:
            self._pin(partition, replicas[0])
        elif self._is_claimed(partition.topic):
            self._give_replicas(partition, replicas)
        elif replicas[0] != self._leader(partition):
            raise Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The records of {partition} are on one broker, and stay there: nothing is copied.",
            )

    def cancel_reassignment(self, _: TopicPartition) -> None:
        """There is none."""
        raise AssertionError

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Of coordinators its owner is; while it has none brokers that live are about to claim it."""
        if partition.topic not in COORDINATED and self._is_claimed(partition.topic):
            self._pin(partition, self.replicas(partition)[0])

    def new_replicas(self, topic: str, partitions: int, factor: int) -> list[list[int]]:
        """Which brokers are to lead a topic that is about to be made, or to grow: as assigned, else spread; of each
        partition the one that should lead it first. Raises Refused where there are not as many."""
        live = list(self.brokers) or [self._node_id]
        if factor > len(live):
            raise Refused(f"only {len(live)} brokers live, and {topic} is to have {factor} replicas")
        spread = place(topic, range(partitions), live, {})
        found = []
        for number in range(partitions):
            assigned = self._assigned.pop(TopicPartition(topic, number), None)
            first = live.index(spread[number])
            others = [live[(first + step) % len(live)] for step in range(factor)]
            found.append(list(assigned or others))
        return found

    def _topic(self, name: str) -> SharedTopic | None:
        return self._catalogue().topics.get(name)

    def _is_claimed(self, name: str) -> bool:
        """Whether its partitions are owned by who has claimed them."""
        topic = self._topic(name)
        return name in COORDINATED or (topic is not None and topic.is_replicated)

    def _leader(self, partition: TopicPartition) -> int | None:
        """Of records on a disk."""
        replicas = self.replicas(partition)
        return replicas[0] if replicas else None
