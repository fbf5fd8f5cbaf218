"""One run with several brokers."""

from collections.abc import Callable

from coordinator.group.group_shard import GroupShard
from tests.simulation.brokers.brokers import Brokers
from tests.simulation.brokers.faults import BrokerFaults
from tests.simulation.run import Simulation


class BrokerSimulation(Simulation):
    """A simulation with several brokers as its shell."""

    def __init__(
        self,
        seed: int,
        brokers: type[Brokers] = Brokers,
        show: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(seed, GroupShard, brokers, show, BrokerFaults)
