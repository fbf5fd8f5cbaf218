"""Entries of the ledger as spans."""

from coordinator.control.ledger.rebalance_trace import Span, build_trace
from tests.control.ledger.observed_coordinator import ObservedCoordinator
from tests.control.ledger.observed_epochs import Client
from tests.control.ledger.test_epochs import one_of
from tests.control.ledger.test_ledger_text import bob_dies

MS = 1_000_000


def named(root: Span) -> dict[str, Span]:
    """What is below it."""
    found = {span.name: span for span in root.children}
    assert len(found) == len(root.children)
    return found


def took_ms(span: Span) -> int:
    return (span.end_ns - span.start_ns) // MS


def test_a_trace_attributes_time_to_awaited_members() -> None:
    group = ObservedCoordinator()
    bob_dies(group)
    entry = group.last
    root = build_trace(entry)
    assert (root.start_ns, took_ms(root)) == (entry.started_ms * MS, entry.total_ms)
    assert root.failure is None
    spans = named(root)
    assert spans.keys() >= {"await join alice", "await join carol", "assign (leader)"}
    stories = {member.client_id: member for member in entry.members}
    for name in ("alice", "carol"):
        assert took_ms(spans[f"await join {name}"]) == stories[name].rejoined_after_ms
    assert took_ms(spans["assign (leader)"]) <= entry.sync_ms
    assert spans["assign (leader)"].start_ns == root.start_ns + entry.join_ms * MS
    lost = spans["await join bob"]
    assert lost.failure == stories["bob"].gone
    assert lost.attributes["groupd.lost_count"] == 2
    assert "await sync bob" not in spans


def test_a_moved_clock_makes_no_long_trace() -> None:
    group = ObservedCoordinator(is_moved=True)
    bob_dies(group)
    root = build_trace(group.last)
    assert group.last.real is not None
    assert took_ms(root) == group.last.real.total_ms
    assert root.children == []
    assert root.attributes["groupd.group_time.total_ms"] == group.last.total_ms


def test_a_replaced_rebalance_is_a_failed_span() -> None:
    group = ObservedCoordinator()
    group.formed("alice", "bob")
    group.beat("alice", "bob")
    group.come("carol")
    group.rejoin("alice")
    group.ledger.on_partition_unloaded(0)
    group.formed("dora")
    broken = next(entry for entry in group.ledger.list_entries() if entry.result == "failed")
    assert build_trace(broken).failure is not None


def test_an_epoch_span_ends_with_the_last_member() -> None:
    group, (alice,) = one_of("alice")
    bob = Client("bob")
    alice.keeps = True
    bob.step(group)
    alice.step(group)
    group.advance(3_000)
    alice.keeps = False
    group.settle(alice, bob)
    entry = group.last
    spans = named(build_trace(entry))
    assert spans.keys() == {"compute the target", "reconcile alice", "reconcile bob"}
    assert took_ms(spans["compute the target"]) == entry.join_ms
    for story in entry.members:
        reached_ms = story.reached_after_ms
        assert reached_ms is not None
        span = spans[f"reconcile {story.client_id}"]
        assert span.end_ns == entry.started_ms * MS + reached_ms * MS
