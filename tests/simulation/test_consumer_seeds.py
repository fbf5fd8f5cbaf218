"""Many seeds of consumer groups, each a different story of failures; every rule holds in all of them.

A seed that fails here is shown line by line by `make sim SEED=… ARGS=--consumers`.
"""

import pytest

from tests.simulation.consumers.run import ConsumerSimulation

SEEDS = 100
ALL_SEEDS = 200
EVENTFUL_SEEDS = (49, 72, 6, 23)
"""Runs that together show everything that can happen; these seeds are tried first."""
STEPS = 400


@pytest.mark.parametrize("seed", range(SEEDS))
def test_seed(seed: int) -> None:
    ConsumerSimulation(seed).run(STEPS)


@pytest.mark.parametrize("seed", range(SEEDS, ALL_SEEDS))
def test_further_seed(seed: int) -> None:
    ConsumerSimulation(seed).run(STEPS)


def lines_of(seed: int) -> list[str]:
    lines: list[str] = []
    ConsumerSimulation(seed, show=lines.append).run(STEPS)
    return lines


def test_a_seed_is_always_the_same_run() -> None:
    assert lines_of(7) == lines_of(7)
    assert lines_of(7) != lines_of(8)


def test_what_can_happen_does_happen() -> None:
    """The rules are worth little in runs where nothing goes wrong."""
    wanted = {
        *("ConsumerMemberJoined", "ConsumerMemberLeft", "ConsumerMemberFenced", "ConsumerMemberReplaced"),
        *("EpochBumped", "TargetComputed", "MemberReconciled", "RegexesResolved", "GroupConverted"),
        *("ConsumerHeartbeatRefused", "OffsetsCommitted", "OffsetsDeleted", "GroupLoaded", "GroupDeleted"),
        *("OffsetsPending", "TransactionEnded", "is_committed=True", "OffsetsSkipped"),
        *("HeartbeatRefused", "CommitRefused", "SyncRefused", "JoinRefused", "MemberJoined"),
        *("from_type=classic", "from_type=consumer", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"),
        *("UNKNOWN_MEMBER_ID", "UNRELEASED_INSTANCE_ID", "FENCED_INSTANCE_ID"),
        *("uses_classic_protocol=True", "crash", "reload", "abandons"),
    }
    for seed in (*EVENTFUL_SEEDS, *range(100)):
        text = "\n".join(lines_of(seed))
        wanted = {word for word in wanted if word not in text}
        if not wanted:
            return
    assert not wanted, "never happened"
