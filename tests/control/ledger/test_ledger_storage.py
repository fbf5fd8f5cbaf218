"""What the ledger keeps is bounded, and small groups do not lose their entries to large ones."""

import gc
import tracemalloc

from coordinator.control.ledger.ledger_storage import GROUP_OVERHEAD, LedgerStore, StoredEntry
from coordinator.control.ledger.rebalance_ledger import RebalanceLedger
from coordinator.control.ledger.rebalance_triggers import LedgerClocks
from coordinator.control.operator_actions import ActionLog
from coordinator.core.outcome import Now
from coordinator.group.event_details import MemberAssignment, MemberName, RebalanceCause, Trigger
from coordinator.group.group_event_types import (
    AssignmentFetched,
    GroupEvent,
    GroupStabilized,
    MemberRejoined,
    RebalanceCompleted,
    RebalanceStarted,
    SyncReceived,
)
from tests.control.ledger.observed_coordinator import KnownConnections, assignment

MEMBERS = 1_000


def test_the_oldest_entry_of_the_largest_group_is_dropped_first() -> None:
    store = LedgerStore(20_000)
    store.add(StoredEntry(0, "small", b"x" * 1_000))
    for seq in range(1, 40):
        store.add(StoredEntry(seq, "large", b"x" * 2_000))
        assert store.bytes <= 20_000
    kept = [entry.seq for entry in store.list_group("large")]
    assert kept == list(range(40 - len(kept), 40))
    assert len(kept) > 2
    assert [entry.seq for entry in store.list_group("small")] == [0]
    assert [entry.seq for entry in store.list_all()] == [0, *kept]
    assert store.count == len(kept) + 1
    assert store.forgotten == 40 - store.count


def test_the_last_two_of_each_group_stay() -> None:
    store = LedgerStore(10 * (GROUP_OVERHEAD + 5_000))
    for seq in range(1_000):
        store.add(StoredEntry(seq, f"g{seq % 10}", b"x" * 2_000))
    assert {min(2, len(store.list_group(f"g{number}"))) for number in range(10)} == {2}
    for seq in range(1_000, 1_100):
        store.add(StoredEntry(seq, "other", b"x" * 2_000))
    assert {len(store.list_group(f"g{number}")) for number in range(10)} == {2}


def test_where_even_those_are_too_much_the_quietest_group_loses_its_own() -> None:
    store = LedgerStore(100_000)
    for seq in range(1_000):
        store.add(StoredEntry(seq, f"g{seq}", b"x" * 1_000))
        assert store.bytes <= 100_000
    seqs = [entry.seq for entry in store.list_all()]
    assert seqs == list(range(1_000 - len(seqs), 1_000))


def test_one_entry_stays_whatever_its_size() -> None:
    store = LedgerStore(10)
    store.add(StoredEntry(0, "g", b"x" * 1_000))
    store.add(StoredEntry(1, "g", b"x" * 1_000))
    assert [entry.seq for entry in store.list_all()] == [1]


class Storm:
    """Publish rebalances of groups of a thousand members, with the events of a coordinator."""

    def __init__(self, ledger: RebalanceLedger) -> None:
        self.ledger = ledger
        self.names = [
            MemberName(f"c-{number}-{'0' * 36}", None, f"c-{number}", "/1.2.3.4") for number in range(MEMBERS)
        ]
        self.assigned = [assignment(number) for number in range(MEMBERS)]
        self._number = 0
        self._ms = 0

    def tell(self, event: GroupEvent) -> None:
        self.ledger.on_event(0, event, self._number, Now(self._ms, self._ms))
        self._number += 1

    def rebalance(self, group_id: str, generation_id: int) -> None:
        """One of them, of which half never come back."""
        names, half = self.names, self.names[::2]
        trigger = Trigger(RebalanceCause.METADATA_CHANGED, "changed", names[0])
        self.tell(
            RebalanceStarted(group_id, generation_id - 1, "Stable", trigger, tuple(names), member=names[0])
        )
        for name in half:
            self._ms += 1
            self.tell(MemberRejoined(group_id, generation_id - 1, name, "PreparingRebalance"))
        leader_id = names[0].member_id
        self.tell(GroupStabilized(group_id, generation_id, MEMBERS, leader_id, "range"))
        for name in half:
            self.tell(SyncReceived(group_id, generation_id, name))
        members = tuple(
            MemberAssignment(name, data, data[::-1] if number % 2 else data)
            for number, (name, data) in enumerate(zip(names, self.assigned, strict=True))
        )
        self.tell(
            RebalanceCompleted(
                group_id, generation_id, "Stable", "Stable", "consumer", "range", leader_id, trigger, trigger, 1,
                0, self._ms, self._ms, 0, None, members, (), ("orders",),
            )
        )  # fmt: skip
        for name in half:
            self.tell(AssignmentFetched(group_id, generation_id, name))


def test_a_storm_of_groups_of_a_thousand_members_stays_within_the_bound() -> None:
    most = 32 * 1024
    clocks = LedgerClocks(lambda _: Now(0, 0))
    ledger = RebalanceLedger(ActionLog(), KnownConnections(), lambda _: MEMBERS, clocks, most)
    storm = Storm(ledger)
    for group in range(3):
        storm.rebalance(f"g{group}", 1)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for generation_id in range(2, 9):
        for group in range(3):
            storm.rebalance(f"g{group}", generation_id)
        assert ledger.store.bytes <= most
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ledger.store.forgotten > 0
    assert {entry.group_id for entry in ledger.list_entries(limit=1_000)} == {"g0", "g1", "g2"}
    # In addition to the limit: three open entries, each with notes on a thousand members.
    assert after - before < most + 3 * MEMBERS * 500
