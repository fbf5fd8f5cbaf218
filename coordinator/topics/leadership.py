"""Who leads a partition, and who else could: what Metadata and DescribeTopicPartitions say of it.

A broker that is stopped is offline as a replica. Where none is left that could lead, the in-sync replicas are those
that were the last, as in Kafka.
"""

from coordinator.cluster.ownership import Ownership
from coordinator.topics.partition import Partition

NO_LEADER = -1
Leadership = tuple[int, list[int], list[int], list[int]]
"""Of one partition, at one moment: the leader (-1: there is none), its replicas, those in sync, those offline. A
bare tuple, since an answer may have thousands."""


def leadership(partition: Partition, ownership: Ownership) -> Leadership:
    """As clients are to be told it. A partition whose log is not open has no leader."""
    only = ownership.only
    if only is not None:
        alone = [only]
        return (only, alone, alone, []) if partition.log is not None else _offline(alone)
    name, brokers = partition.name, ownership.brokers
    replicas = list(ownership.replicas(name))
    if partition.log is None and not ownership.is_far(name):
        return _offline(replicas)
    live = [node_id for node_id in replicas if node_id in brokers]
    offline = [node_id for node_id in replicas if node_id not in brokers]
    leader_id = ownership.owner(name)
    return (NO_LEADER if leader_id is None else leader_id), replicas, live or replicas, offline


def _offline(replicas: list[int]) -> Leadership:
    return NO_LEADER, replicas, replicas, replicas
