"""Runs of many seeds with several brokers, and runs without one safeguard, in which the checks must find a
violation.
"""

import re
from typing import Any

import pytest

from coordinator.group.group_shard import GroupShard
from tests.simulation.brokers.broker import Broker
from tests.simulation.brokers.brokers import Brokers
from tests.simulation.brokers.run import BrokerSimulation
from tests.simulation.planted_faults import find_violation
from tests.simulation.test_seeds import LINE

SEEDS = 30
ALL_SEEDS = 60
STEPS = 900
MUTANT_SEEDS = 60


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    BrokerSimulation(seed).run(STEPS)


@pytest.mark.parametrize("seed", range(SEEDS, ALL_SEEDS))
def test_further_seed(seed: int) -> None:
    BrokerSimulation(seed).run(STEPS)


def test_what_can_happen_does_happen() -> None:
    wanted = {"moves", "stopped", "crash", "reload", "GroupLoaded", "OffsetsCommitted", "rejoins"}
    for seed in range(20):
        lines: list[str] = []
        BrokerSimulation(seed, show=lines.append).run(STEPS)
        wanted -= {match[2] for line in lines if (match := LINE.match(line)) is not None}
        if not wanted:
            return
    assert not wanted, "never happened"


class GoesOn(Broker):
    """A broker that continues to coordinate the partition after it has lost it."""

    def release(self, why: str) -> None:
        pass


class KeepsWhatItRead(Broker):
    """A broker that regains the partition with its old state instead of reading the log."""

    kept: GroupShard | None = None

    def release(self, why: str) -> None:
        self.kept = self.shard
        super().release(why)

    def _new_shard(self) -> GroupShard:
        return self.kept or super()._new_shard()

    def _load(self) -> None:
        if self.kept is None:
            super()._load()
        elif self.is_owner and self.shard is None:
            self.shard = self.kept
            self._follow("kept", 0, self.shard.on_loaded(self.now()))


class WritesInItsOldEpoch(Broker):
    """A broker that regains the partition and writes in the epoch of its first ownership."""

    def take(self, epoch: int) -> None:
        super().take(self.epoch or epoch)


class LosesTheTail(Broker):
    """A broker that gains the partition and does not read its last batch."""

    def take(self, epoch: int) -> None:
        del self.log.batches[-1:]
        super().take(epoch)


def finding(broker: type[Broker]) -> str:
    """Return the violation of the first failing run."""

    class Spoilt(Brokers):
        pass

    Spoilt.broker = broker
    return find_violation(lambda seed: BrokerSimulation(seed, Spoilt).run(STEPS), MUTANT_SEEDS)


@pytest.mark.parametrize(
    ("mutant", "rule"),
    [
        (GoesOn, "is written after|not what the log says"),
        (KeepsWhatItRead, "a shard is loaded once"),
        (WritesInItsOldEpoch, "is written after"),
        (LosesTheTail, "another number of batches|prefix|older than|is lost"),
    ],
)
def test_a_safeguard_that_is_missing_is_found(mutant: Any, rule: str) -> None:
    said = finding(mutant)
    assert re.search(rule, said), said
