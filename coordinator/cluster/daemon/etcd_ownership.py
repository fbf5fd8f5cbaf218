"""Ownership of partitions in a cluster on etcd, as request handlers query it.

There are three kinds of partitions. Coordinators belong to the broker that claimed them, which may be any
broker. Replicated partitions belong to the replica that claimed them. A partition on disk is led by the
broker with that disk.
"""

from collections.abc import Callable, Container, Mapping, Sequence

from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.member.cluster_member import ClusterMember
from coordinator.cluster.partition_appends import PartitionId
from coordinator.cluster.partition_claims import place_partitions
from coordinator.cluster.partition_ownership import BrokerInfo, ClusterChangeRefused, Reassignment
from coordinator.cluster.shared_topic import SharedTopic
from coordinator.core.shared_types import COORDINATOR_TOPICS
from coordinator.topics.api_error import ApiError
from protocol.error_codes import ErrorCode
from storage.topic_partition import TopicPartition


class EtcdOwnership:
    """The `PartitionOwnership` of a daemon in a cluster on etcd."""

    single_broker_id = None

    def __init__(
        self,
        member: Callable[[], ClusterMember],
        catalogue: Callable[[], CatalogueKeys],
        node_id: int,
        pin_partition: Callable[[TopicPartition, int], None],
        start_reassignment: Callable[[TopicPartition, Sequence[int]], None],
        is_open: Callable[[TopicPartition], bool],
    ) -> None:
        """Create the ownership of a daemon, which asks the parts of the cluster.

        Args:
            member: Returns the membership of this daemon.
            catalogue: Returns the topics of the cluster.
            node_id: The id of this broker.
            pin_partition: Moves a partition to a live broker and keeps it there.
            start_reassignment: Gives a partition other replicas.
            is_open: Returns whether the log of a replicated partition, which this broker owns, is open.
        """
        self._is_open = is_open
        self._member = member
        self._pin_partition = pin_partition
        self._start_reassignment = start_reassignment
        self._catalogue = catalogue
        self._node_id = node_id
        self._assigned: dict[TopicPartition, Sequence[int]] = {}

    @property
    def brokers(self) -> Mapping[int, BrokerInfo]:
        """Brokers with a session."""
        return self._member().table.brokers

    def find_owner(self, partition: TopicPartition) -> int | None:
        """Return the live broker that owns a partition, None without one."""
        if not self._is_claimed(partition.topic):
            owner = self._find_disk_leader(partition)
        elif self.owns(self._node_id, partition):
            return self._node_id
        else:
            owner = self._member().table.owners.get((partition.topic, partition.partition))
            if owner == self._node_id:
                return None  # it is being released, or is not claimed yet
        return owner if owner in self.brokers else None

    def owns(self, node_id: int, partition: TopicPartition) -> bool:
        """Return whether a broker owns a partition. For this broker the member decides, because the table is
        older.
        """
        if not self._is_claimed(partition.topic):
            return self._find_disk_leader(partition) == node_id
        if node_id != self._node_id:
            return self.find_owner(partition) == node_id
        is_owned = PartitionId(*partition) in self._member().owned
        return is_owned and (partition.topic in COORDINATOR_TOPICS or self._is_open(partition))

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the leader epoch in the table; for records on another broker's disk it stays 0."""
        return self._member().table.epochs.get((partition.topic, partition.partition), 0)

    def assign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        self._assigned[partition] = replicas

    def unassign_replicas(self, partition: TopicPartition) -> None:
        self._assigned.pop(partition, None)

    def find_replicas(self, partition: TopicPartition) -> Sequence[int]:
        """Return all live brokers for a coordinator, the owner first, and the catalogue's replicas otherwise."""
        if partition.topic in COORDINATOR_TOPICS:
            owner = self.find_owner(partition)
            others = [node_id for node_id in self.brokers if node_id != owner]
            return others if owner is None else [owner, *others]
        topic = self._find_topic(partition.topic)
        if topic is None or partition.partition >= len(topic.replicas):
            return []
        return topic.replicas[partition.partition]

    def is_remote(self, partition: TopicPartition) -> bool:
        return not self.owns(self._node_id, partition)

    @property
    def registered(self) -> Container[int]:
        """Brokers with a session: others are unknown."""
        return self.brokers

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """Always empty: no change waits for a stopped broker."""
        return {}

    def max_replicas(self, topic: str) -> int:
        """Return the number of live brokers; 1 for records on disk."""
        known = self._find_topic(topic)
        is_on_disk = known is not None and not known.is_replicated
        return 1 if is_on_disk else len(self.brokers)

    def why_not_movable(self, partition: TopicPartition, to: int) -> str | None:
        """Return why a live broker cannot own a partition; None if it can."""
        if partition.topic in COORDINATOR_TOPICS:
            return None
        if not self._is_claimed(partition.topic):
            return f"the records of {partition} are on the disk of one broker and cannot move"
        replicas = self.find_replicas(partition)
        return (
            None
            if to in replicas
            else f"broker {to} is not a replica of {partition}. Use one of {list(replicas)}"
        )

    def reassign_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        """Reassign a partition. Coordinators and replicated records need no copying; a coordinator is pinned to
        the first replica, and all live brokers stay candidates. Raises ApiError for records on another
        broker's disk.
        """
        if partition.topic in COORDINATOR_TOPICS:
            self._pin_partition(partition, replicas[0])
        elif self._is_claimed(partition.topic):
            self._start_reassignment(partition, replicas)
        elif replicas[0] != self._find_disk_leader(partition):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The records of {partition} are on the disk of one broker, and groupd does not copy them.",
            )

    def cancel_reassignment(self, _: TopicPartition) -> None:
        """Fail: a cluster on etcd has no reassignments in progress."""
        raise AssertionError

    def elect_preferred(self, partition: TopicPartition) -> None:
        """Move a replicated partition to its preferred replica. A coordinator's owner is already preferred;
        without an owner, live brokers are about to claim it.
        """
        if partition.topic not in COORDINATOR_TOPICS and self._is_claimed(partition.topic):
            self._pin_partition(partition, self.find_replicas(partition)[0])

    def place_new_topic(self, topic: str, partitions: int, factor: int) -> list[list[int]]:
        """Return the replicas of a new or growing topic: the assigned ones, else an even spread, the preferred
        one first. Raises ClusterChangeRefused if fewer brokers are live than `factor`.
        """
        live = list(self.brokers) or [self._node_id]
        if factor > len(live):
            raise ClusterChangeRefused(
                f"{topic} needs {factor} replicas, but only {len(live)} brokers are live"
            )
        spread = place_partitions(topic, range(partitions), live, {})
        found = []
        for number in range(partitions):
            assigned = self._assigned.pop(TopicPartition(topic, number), None)
            first = live.index(spread[number])
            others = [live[(first + step) % len(live)] for step in range(factor)]
            found.append(list(assigned or others))
        return found

    def _find_topic(self, name: str) -> SharedTopic | None:
        return self._catalogue().topics.get(name)

    def _is_claimed(self, name: str) -> bool:
        """Return whether brokers own the topic's partitions by claims."""
        topic = self._find_topic(name)
        return name in COORDINATOR_TOPICS or (topic is not None and topic.is_replicated)

    def _find_disk_leader(self, partition: TopicPartition) -> int | None:
        """Return the broker with a partition's records on its disk, None if the partition is unknown."""
        replicas = self.find_replicas(partition)
        return replicas[0] if replicas else None
