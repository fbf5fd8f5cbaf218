"""Who leads a partition that an answer refuses, and where to reach that broker: clients need not ask for it.

Source: KIP-951, Kafka's `KafkaApis.getCurrentLeader`.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.cluster.ownership import Ownership
from coordinator.names import Node
from coordinator.topics.leader_epoch import current_epoch
from coordinator.topics.leadership import NO_LEADER
from coordinator.topics.partition import Partition
from protocol.current_leader import LeaderIdAndEpoch, NodeEndpoint

IN_PRODUCE_SINCE: Final = 10
IN_FETCH_SINCE: Final = 16
"""The versions that have room for it."""


def current_leader(partition: Partition, ownership: Ownership) -> LeaderIdAndEpoch:
    """As it is now."""
    leader_id = ownership.owner(partition.name)
    return LeaderIdAndEpoch(
        leader_id=NO_LEADER if leader_id is None else leader_id,
        leader_epoch=current_epoch(partition, ownership),
    )


def endpoints(leaders: Iterable[LeaderIdAndEpoch], ownership: Ownership, node: Node) -> list[NodeEndpoint]:
    """The addresses of those that live, each once. In: the broker that answers, as the client knows it."""
    nodes = [
        ownership.brokers[leader_id].seen_from(node)
        for leader_id in dict.fromkeys(leader.leader_id for leader in leaders)
        if leader_id in ownership.brokers
    ]
    return [
        NodeEndpoint(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack) for each in nodes
    ]
