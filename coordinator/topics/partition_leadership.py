"""The leaders of partitions for error responses, Metadata and DescribeTopicPartitions, and the leader epochs of
clients.

A response that rejects a partition includes the leader and its address, which saves the client a Metadata request.
A replica on a stopped broker is offline. As in Kafka, without a live replica the in-sync replicas are the last
known ones.

Source: KIP-101, KIP-320, KIP-951, Kafka's `KafkaApis.getCurrentLeader`.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.core.shared_types import Node
from coordinator.topics.partition import ReadablePartition
from protocol.current_leader import LeaderIdAndEpoch, NodeEndpoint
from protocol.error_codes import ErrorCode
from storage.leader_epochs import UNKNOWN_EPOCH
from storage.log import PartitionLog

PRODUCE_LEADER_VERSION: Final = 10
FETCH_LEADER_VERSION: Final = 16
"""The first versions of Produce and Fetch with the leader in their responses."""

NO_LEADER = -1


def find_current_leader(partition: ReadablePartition, ownership: PartitionOwnership) -> LeaderIdAndEpoch:
    """Return the current leader of a partition with its epoch."""
    leader_id = ownership.find_owner(partition.name)
    return LeaderIdAndEpoch(
        leader_id=NO_LEADER if leader_id is None else leader_id,
        leader_epoch=find_leader_epoch(partition, ownership),
    )


def find_endpoints(
    leaders: Iterable[LeaderIdAndEpoch], ownership: PartitionOwnership, node: Node
) -> list[NodeEndpoint]:
    """Return the distinct addresses of live leaders. `node` is the answering broker as the client sees it."""
    nodes = [
        ownership.brokers[leader_id].node_for_client(node)
        for leader_id in dict.fromkeys(leader.leader_id for leader in leaders)
        if leader_id in ownership.brokers
    ]
    return [
        NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack) for each in nodes
    ]


Leadership = tuple[int, list[int], list[int], list[int]]
"""The leader (-1: none), replicas, in-sync replicas and offline replicas of a partition. A plain tuple, because a
response may have thousands.
"""


def describe_leadership(partition: ReadablePartition, ownership: PartitionOwnership) -> Leadership:
    """Return the leadership of a partition for clients. A partition without an open log has no leader."""
    only = ownership.single_broker_id
    if only is not None:
        alone = [only]
        return (only, alone, alone, []) if partition.log is not None else _describe_offline(alone)
    name, brokers = partition.name, ownership.brokers
    replicas = list(ownership.find_replicas(name))
    if partition.log is None and not ownership.is_remote(name):
        return _describe_offline(replicas)
    live = [node_id for node_id in replicas if node_id in brokers]
    offline = [node_id for node_id in replicas if node_id not in brokers]
    leader_id = ownership.find_owner(name)
    return (NO_LEADER if leader_id is None else leader_id), replicas, live or replicas, offline


def _describe_offline(replicas: list[int]) -> Leadership:
    return NO_LEADER, replicas, replicas, replicas


def find_leader_epoch(partition: ReadablePartition, ownership: PartitionOwnership) -> int:
    """Return the leader epoch for clients; 0 while the partition is offline. A client ignores metadata with an
    epoch lower than the one it knows.
    """
    log = partition.log
    return ownership.leader_epoch(partition.name) if log is None else log.leader_epochs.current


def check_current_leader_epoch(epoch: int, log: PartitionLog) -> ErrorCode:
    """Compare a client's current leader epoch with the log's; -1 means that the client sent none."""
    current = log.leader_epochs.current
    if epoch in (UNKNOWN_EPOCH, current):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < current else ErrorCode.UNKNOWN_LEADER_EPOCH
