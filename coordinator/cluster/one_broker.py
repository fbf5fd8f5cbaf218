"""One broker, which owns everything."""

from collections.abc import Container, Mapping, Sequence

from coordinator.cluster.broker import Broker
from coordinator.cluster.reassignment import Reassignment
from storage.topic_partition import TopicPartition


class OneBroker:
    """An `Ownership`."""

    def __init__(self, node_id: int, rack: str | None = None) -> None:
        self.only = node_id
        self._replicas = (node_id,)
        self._brokers = {node_id: Broker(node_id, rack=rack)}

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """This one."""
        return self._brokers

    def owner(self, _: TopicPartition) -> int | None:
        """This one, of everything."""
        return self.only

    def owns(self, _: int, __: TopicPartition) -> bool:
        """Whoever is asked is this one."""
        return True

    def leader_epoch(self, _: TopicPartition) -> int:
        """Not known while its log is not open."""
        return 0

    def assign(self, _: TopicPartition, __: Sequence[int]) -> None:
        """It is this one in any case."""

    def unassign(self, _: TopicPartition) -> None:
        """Nothing is remembered of assignments."""

    def replicas(self, _: TopicPartition) -> Sequence[int]:
        """This one."""
        return self._replicas

    def is_far(self, _: TopicPartition) -> bool:
        """There is no other."""
        return False

    @property
    def registered(self) -> Container[int]:
        """This one."""
        return self._brokers

    @property
    def reassigning(self) -> Mapping[TopicPartition, Reassignment]:
        """Never any."""
        return {}

    def most_replicas(self, _: str) -> int:
        """One."""
        return 1

    def reassign(self, _: TopicPartition, replicas: Sequence[int]) -> None:
        """To this one, where everything is."""
        assert tuple(replicas) == self._replicas, replicas

    def cancel_reassignment(self, _: TopicPartition) -> None:
        """There is none."""
        raise AssertionError

    def elect_preferred(self, _: TopicPartition) -> None:
        """It owns everything."""
