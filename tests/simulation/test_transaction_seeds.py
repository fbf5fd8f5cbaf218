"""Runs of many seeds with transactional producers; every invariant holds in all of them.

`python -m tests.simulation --transactions --seed …` prints the events of a failing seed.
"""

import pytest

from tests.simulation.transactions.run import Simulation

SEEDS = 100
ALL_SEEDS = 200
EVENTFUL_SEEDS = (12, 0)
"""Seeds of runs that together show every kind of event; the tests play them first."""
STEPS = 900


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    Simulation(seed).run(STEPS)


@pytest.mark.parametrize("seed", range(SEEDS, ALL_SEEDS))
def test_further_seed(seed: int) -> None:
    Simulation(seed).run(STEPS)


def lines_of(seed: int) -> list[str]:
    lines: list[str] = []
    Simulation(seed, show=lines.append).run(STEPS)
    return lines


def test_a_seed_is_always_the_same_run() -> None:
    assert lines_of(7) == lines_of(7)
    assert lines_of(7) != lines_of(8)


def test_what_can_happen_does_happen() -> None:
    """The runs contain every kind of fault and event: otherwise the invariants would prove little."""
    wanted = {
        *("Initialized", "Began", "Prepared", "Completed", "Fenced", "TimedOut", "MarkersSentAgain"),
        *("crash", "reload: the partition moves", "reload: an append failed", "reload: a sync failed"),
        *("is killed", "hesitates", "gives up: PRODUCER_FENCED", "epoch 0", "abort: NONE", "commit: NONE"),
        *("has to abort: UNKNOWN_SERVER_ERROR", "has to abort: INVALID_PRODUCER_EPOCH"),
    }
    for seed in (*EVENTFUL_SEEDS, *range(150)):
        said = "\n".join(lines_of(seed))
        wanted = {what for what in wanted if what not in said}
        if not wanted:
            return
    assert not wanted, "never happened"
