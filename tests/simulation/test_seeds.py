"""Runs of many seeds, each with other failures; every invariant holds in all of them.

`make sim SEED=…` prints the events of a failing seed.
"""

import re

import pytest

from tests.simulation.run import Simulation

SEEDS = 100
ALL_SEEDS = 200
EVENTFUL_SEEDS = (1, 16, 8)
"""Seeds of runs that together show every kind of event; the tests play them first."""
STEPS = 900
LINE = re.compile(r"^ *[0-9.]+  (\S+) +(\w+)")


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
        *("MemberIdRequired", "MemberJoined", "RebalanceStarted", "RebalanceDelayed", "GroupStabilized"),
        *("AssignmentReceived", "MemberLeft", "MemberExpired", "MembersEvicted", "LeaderReplaced"),
        *("StaticMemberReplaced", "RebalanceAvoided", "MemberFenced", "GroupEmptied", "GroupDeleted"),
        *("OffsetsCommitted", "CommitRefused", "OffsetsDeleted", "OffsetsExpired", "GroupLoaded"),
        *("JoinRefused", "SyncRefused", "HeartbeatRefused", "RebalanceWaits", "RebalanceCompleted"),
        *("SimpleGroupCreated", "crash", "reload", "stands", "rejoins", "gives"),
    }
    for seed in (*EVENTFUL_SEEDS, *range(100)):
        wanted -= {match[2] for line in lines_of(seed) if (match := LINE.match(line)) is not None}
        if not wanted:
            return
    assert not wanted, "never happened"
