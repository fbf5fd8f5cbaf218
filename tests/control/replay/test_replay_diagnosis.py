"""Oracles look at a recording, and say after which input it was wrong."""

from coordinator.control.diagnosis.oracle import OracleConfig
from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.replay.replay_diagnosis import find_violations
from tests.control.replay.story import RecordedStory, two_members

CONFIG = OracleConfig(oracle_orphan_ms=5_000, oracle_stuck_ms=30_000, oracle_commits=True)
JOINS = ("config delay=0s", "join A", "join A", "advance 1s")


def test_a_partition_that_two_members_own() -> None:
    story = RecordedStory()
    recorded = story.tell(
        *JOINS, "sync A A=orders:0", "join B", "join B", "join A", "sync B", "sync A A=orders:0 B=orders:0"
    )
    (found,) = find_violations(recorded, OracleName.DOUBLE_OWNER, CONFIG)
    assert found.number == recorded.inputs
    assert "orders-0" in found.finding.detail
    assert find_violations(recorded, OracleName.ZOMBIE_COMMIT, CONFIG) == []


def test_a_replay_finds_a_commit_that_went_back() -> None:
    recorded = RecordedStory().tell(*JOINS, "sync A A=orders:0", "commit A orders:0=7", "commit A orders:0=3")
    (found,) = find_violations(recorded, OracleName.COMMIT_WENT_BACK, CONFIG)
    assert found.number == recorded.inputs


def test_a_rebalance_that_lasts_too_long_is_found_at_the_time_at_which_it_did() -> None:
    """A static member sends heartbeats and does not rejoin: a notice after 2 * 12 s + 30 s."""
    recorded = RecordedStory().tell(
        "client A instance=i1",
        "given A=orders:0 B=orders:1 session=12s rebalance=5s",
        "leave B",
        *(["advance 4s", "heartbeat A"] * 20),
    )
    (found,) = find_violations(recorded, OracleName.STUCK_REBALANCE, CONFIG)
    assert found.number < recorded.inputs


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    recorded = two_members()
    for oracle in OracleName:
        assert find_violations(recorded, oracle, CONFIG) == []
