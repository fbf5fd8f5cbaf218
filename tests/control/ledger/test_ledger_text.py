"""Entries as people read them."""

import re

from coordinator.control.ledger.ledger_text import format_entries
from protocol.messages.leave_group import MemberIdentity
from tests.control.ledger.observed_coordinator import ObservedCoordinator

DEAD = re.compile(
    r"#4  \d\d:\d\d:\d\d\.\d{3}  session expired: bob \(10\.0\.0\.1, last heard 10 s before.*connection closed\)"
    r"   paused 2\.69 s\n"
    r"    alice told 2\.69 s late \(heartbeat interval\), rejoined \+2 ms, synced \+1 ms; carol \+2\.69 s\n"
    r"    alice 0 2 4 \(\+2 -1\)   carol 1 3 5 \(\+2 -1\)   lost by bob: 1 4\n"
)


def bob_dies(group: ObservedCoordinator) -> str:
    """Return the text of the entry after the recovery."""
    group.formed("alice", "bob", "carol")
    group.advance(5_000)
    group.beat("alice", "carol")
    group.advance(5_000)
    group.part("bob")
    group.advance(2_690)
    group.beat("alice")
    group.advance(2)
    group.rejoin("alice")
    group.beat("carol")
    group.rejoin("carol")
    group.ask("carol")
    group.advance(1)
    group.lead()
    return format_entries(group.ledger.list_entries(last=1))


def test_a_dead_member() -> None:
    text = bob_dies(ObservedCoordinator())
    assert DEAD.fullmatch(text), text


def test_time_that_was_moved_is_nobodys_heartbeat_interval() -> None:
    text = bob_dies(ObservedCoordinator(is_moved=True))
    assert re.search(r"paused 2\.69 s of group time, really \d+ ms\n", text), text
    assert "heartbeat interval" not in text


def test_short_waits_have_no_line() -> None:
    group = ObservedCoordinator()
    group.formed("alice", "bob")
    group.beat("alice", "bob")
    group.come("carol")
    group.advance(46)
    group.rejoin("bob")
    group.rejoin("alice")
    group.settle()
    assert group.last.awaited_longest is not None
    assert "awaited longest" not in format_entries([group.last])


def test_every_line_is_of_one_group_and_nothing_steers_the_terminal() -> None:
    group = ObservedCoordinator()
    group.formed("alice\n#9", "bob\x1b[2J")
    group.come("carol")
    group.beat("alice\n#9")
    group.advance(3_000)
    group.acts.record_action("fault", "hold\x1b it", None, "a\nb")
    leave = MemberIdentity(member_id=group.member_ids["carol"], reason="bye\n")
    group.leave(leave)
    text = format_entries(group.entries, with_group=True)
    heads = [line for line in text.splitlines() if not line.startswith("    ")]
    assert len(heads) == len(group.entries)
    assert all(line.startswith("orders #") for line in heads)
    assert all(line.isprintable() for line in text.splitlines())


def test_nothing_to_tell() -> None:
    assert format_entries([]).endswith("\n")
