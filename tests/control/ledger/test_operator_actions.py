"""Operator actions are listed in the entry of the rebalance that they caused or affected."""

from coordinator.control.ledger.ledger_entry import EntryResult, LedgerEntry
from coordinator.control.ledger.rebalance_triggers import RECENT_MS
from tests.control.ledger.observed_coordinator import ObservedCoordinator
from tests.group.coordinator import GROUP


def acts_of(entry: LedgerEntry) -> list[tuple[str, str, str | None]]:
    return [(act.kind, act.what, act.by) for act in entry.also]


def test_an_operator_action_is_listed_in_the_entry(group: ObservedCoordinator) -> None:
    group.settle()
    group.acts.record_action("clock", "too long ago", GROUP)
    group.pass_with_heartbeats(RECENT_MS + 1, "alice", "carol", step_ms=RECENT_MS + 1)
    group.acts.record_action("clock", "advance 45s", GROUP, "test_takeover")
    group.acts.record_action("clock", "of another group", "other")
    group.come("dave")
    group.acts.record_action("fault", "slow-sync")
    group.acts.record_action("fault", "slow-sync")
    group.settle()
    assert acts_of(group.last) == [("clock", "advance 45s", "test_takeover"), ("fault", "slow-sync", None)]


def test_an_operator_action_belongs_to_its_rebalance_only(group: ObservedCoordinator) -> None:
    """They do not belong to the next rebalance. Actions on all groups are in the entries of every group."""
    group.settle()
    group.acts.record_action("clock", "advance 45s")
    group.come("dave")
    group.acts.record_action("fault", "slow-sync", GROUP)
    group.settle()
    group.come("erin")
    group.settle()
    assert [acts_of(entry) for entry in group.entries[-2:]] == [
        [("clock", "advance 45s", None), ("fault", "slow-sync", None)],
        [],
    ]


def test_an_action_on_a_stable_group_is_listed_with_its_effect(group: ObservedCoordinator) -> None:
    """Carol has not fetched her assignment, so the entry is open; an advance expires her."""
    group.beat("alice", "carol")
    group.rejoin("alice", "carol")
    group.lead()
    assert group.last.result is EntryResult.OPEN
    group.acts.record_action("clock", "advance 45s", GROUP)
    group.come("dave")
    assert [acts_of(entry) for entry in group.entries[-2:]] == [[], [("clock", "advance 45s", None)]]


def test_an_action_that_withholds_an_assignment_is_in_its_entry(
    group: ObservedCoordinator,
) -> None:
    """The coordinator was done with it before: the answer did not leave."""
    group.settle()
    closed, generation_id = group.last, group.generation_now
    group.acts.record_action("fault", "hold holds the answer", GROUP, "a test", generation_id)
    group.acts.record_action("fault", "of an earlier one", GROUP, None, generation_id - 1)
    assert acts_of(group.last) == [*acts_of(closed), ("fault", "hold holds the answer", "a test")]
    assert group.last.seq == closed.seq
    group.come("dave")
    group.settle()
    assert acts_of(group.last) == [("fault", "of an earlier one", None)]
