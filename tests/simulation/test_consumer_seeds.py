"""Runs of many seeds with consumer groups, each with other failures; every invariant holds in all of them.

`make sim SEED=… ARGS=--consumers` prints the events of a failing seed.
"""

import pytest

from tests.simulation.consumers.run import ConsumerSimulation

SEEDS = 100
ALL_SEEDS = 200
EVENTFUL_SEEDS = (49, 72, 6, 23)
"""Seeds of runs that together show every kind of event; the tests play them first."""
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
    """The runs contain every kind of fault and event: otherwise the invariants would prove little."""
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
