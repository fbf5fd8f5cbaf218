"""One broker, which owns everything."""

from collections.abc import Mapping, Sequence

from coordinator.cluster.broker import Broker
from storage.topic_partition import TopicPartition


class OneBroker:
    """An `Ownership`."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._replicas = (node_id,)
        self._brokers = {node_id: Broker(node_id)}

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """This one."""
        return self._brokers

    def owner(self, _: TopicPartition) -> int | None:
        """This one, of everything."""
        return self._node_id

    def owns(self, _: int, __: TopicPartition) -> bool:
        """Whoever is asked is this one."""
        return True

    def assign(self, _: TopicPartition, __: int) -> None:
        """It is this one in any case."""

    def replicas(self, _: TopicPartition) -> Sequence[int]:
        """This one."""
        return self._replicas

    def is_far(self, _: TopicPartition) -> bool:
        """There is no other."""
        return False
