"""Who leads a partition, and who else could: what Metadata and DescribeTopicPartitions say of it.

A broker that is stopped is offline as a replica. Where none is left that could lead, the in-sync replicas are those
that were the last, as in Kafka.
"""

from typing import NamedTuple

from coordinator.cluster.ownership import Ownership
from coordinator.topics.partition import Partition

NO_LEADER = -1


class Leadership(NamedTuple):
    """Of one partition, at one moment."""

    leader_id: int
    """-1: there is none."""
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]


def leadership(partition: Partition, ownership: Ownership) -> Leadership:
    """As clients are to be told it. A partition whose log is not open has no leader."""
    replicas = list(ownership.replicas(partition.name))
    if partition.log is None and not ownership.is_far(partition.name):
        return Leadership(NO_LEADER, replicas, replicas, replicas)
    live = [node_id for node_id in replicas if node_id in ownership.brokers]
    offline = [node_id for node_id in replicas if node_id not in ownership.brokers]
    leader_id = ownership.owner(partition.name)
    return Leadership(NO_LEADER if leader_id is None else leader_id, replicas, live or replicas, offline)
