"""Runs of three daemons over the model engine under faults, and runs without one rule, in which the checks must
find a violation.
"""

import pytest

from tests.simulation.cluster.daemon import Rules
from tests.simulation.cluster.history import Broken
from tests.simulation.cluster.world import World

SEEDS = 50
ALL_SEEDS = 100
MUTANT_SEEDS = 100
FIRST_MUTANT_SEED = 82
"""Tried first: one of the few seeds that notice when `reload_takes_token` is off."""
RUN_MS = 10_000


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    World(seed).run(RUN_MS)


@pytest.mark.parametrize("seed", range(SEEDS, ALL_SEEDS))
def test_further_seed(seed: int) -> None:
    World(seed).run(RUN_MS)


def test_what_can_happen_does_happen() -> None:
    """The runs contain every fault and enough successful requests to make the checks meaningful."""
    wanted = {"pause", "cut", "reload", "move", "lease", "request lost", "request late", "answer lost"}
    acknowledged = 0
    for seed in range(3):
        world = World(seed)
        world.run(RUN_MS)
        wanted -= world.seen
        acknowledged += sum(each.is_write and each.ended_ms is not None for each in world.operations)
    assert not wanted, "never happened"
    assert acknowledged > 150


@pytest.mark.parametrize("rule", Rules._fields)
def test_each_rule_is_needed(rule: str) -> None:
    rules = Rules()._replace(**{rule: False})
    for seed in (FIRST_MUTANT_SEED, *range(MUTANT_SEEDS)):
        try:
            World(seed, rules).run(RUN_MS)
        except Broken:
            return
    pytest.fail(f"nobody noticed in {MUTANT_SEEDS} seeds")
