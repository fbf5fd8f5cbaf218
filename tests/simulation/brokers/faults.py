"""Faults of several brokers."""

from typing import Any, Final

from tests.simulation.brokers.brokers import NODE_IDS, Brokers
from tests.simulation.faults import Faults

LONGEST_STOP_MS: Final = 10_000


class BrokerFaults(Faults):
    """The faults of one broker, moves of the partition, and stops of brokers."""

    shell: Any

    def __init__(self, *of_one: Any) -> None:
        super().__init__(*of_one)
        self._menu += [self._move, self._move, self._stop_one]

    def stop(self) -> None:
        """End all faults, and start all brokers."""
        super().stop()
        self._brokers.start_all()

    @property
    def _brokers(self) -> Brokers:
        brokers = self.shell
        assert isinstance(brokers, Brokers)
        return brokers

    def _move(self) -> None:
        self._brokers.move(self.world.random.choice(NODE_IDS), "moves")

    def _stop_one(self) -> None:
        self._brokers.stop_one(self.world.random.choice(NODE_IDS))
        self.world.after(self.world.random.randint(0, LONGEST_STOP_MS), self._brokers.start_all)
