"""No oracle finds a violation where nothing is wrong, in stories and in simulations, however much fails in them."""

from pathlib import Path
from typing import Any

import pytest

from coordinator.control.diagnosis.violation import OracleName, Severity
from coordinator.core.outcome import Outcome
from coordinator.group.topics_image import NO_TOPICS, TopicImage, TopicsImage
from tests.control.diagnosis.virtual_oracles import VirtualOracleContext
from tests.control.diagnosis.watched_story import WatchedStory
from tests.scenarios.test_scenarios import TRANSCRIPTS
from tests.simulation.client import PARTITIONS
from tests.simulation.run import Simulation
from tests.simulation.shell import Shell

SEEDS = 25
STEPS = 900

_ZOMBIE = OracleName.ZOMBIE_COMMIT
TOLD_BY_STORIES = {
    "commit_during_rebalance": {_ZOMBIE},
    "commits_by_state": {_ZOMBIE},
    "evicted_at_rebalance_timeout": {_ZOMBIE},
    "new_member_rebalances": {_ZOMBIE},
    "paused_member": {_ZOMBIE},
    "poll_interval_exceeded": {_ZOMBIE},
    "static_fenced_and_unknown": {_ZOMBIE},
    "static_restart_in_stable": {_ZOMBIE},
    "transaction_commits_by_state": {_ZOMBIE},
}
"""Members that commit after they were given up or missed a generation: notices."""


def found_in(path: Path) -> VirtualOracleContext:
    """Which topics there are a story does not say, so that no partition is known to be missing."""
    story = WatchedStory(NO_TOPICS)
    lines = path.read_text(encoding="utf-8").splitlines()
    story.play(*(line[1:] for line in lines if line.startswith(">")))
    return story.watch


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_no_story_has_a_violation_but_those_that_tell_of_one(path: Path) -> None:
    assert set(found_in(path).counts) == TOLD_BY_STORIES.get(path.stem, set())


class WatchedShell(Shell):
    """A simulated process with oracles."""

    def __init__(self, *arguments: Any) -> None:
        self.world, self.wall_offset_ms = arguments[0], 0
        topics = [TopicImage(name, bytes(16), count) for name, count in PARTITIONS.items()]
        self.watch = VirtualOracleContext(lambda: self.shard, self.now, TopicsImage(topics))
        super().__init__(*arguments)

    def _follow(self, cause: Any, waiter: int, outcome: Outcome) -> None:
        self.watch.look()
        super()._follow(cause, waiter, outcome)
        self.watch.take(outcome)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_simulation_has_a_violation(seed: int) -> None:
    simulation = Simulation(seed, shell=WatchedShell)
    simulation.run(STEPS)
    assert isinstance(simulation.shell, WatchedShell)
    watch = simulation.shell.watch
    assert [finding for finding in watch.findings if finding.severity is Severity.VIOLATION] == []
