"""Entries of single rebalances: when members learned of it and joined, the longest wait, and the assignment."""

from coordinator.control.ledger.ledger_entry import EntryResult, LedgerEntry, WaitReason
from coordinator.group.event_details import RebalanceCause
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import MemberIdentity
from tests.control.ledger.observed_coordinator import (
    CLOSED_MS,
    HEARD_MS,
    SESSION_MS,
    SUBSCRIPTION,
    ObservedCoordinator,
    assignment,
    story_of,
    with_bob_dead,
)
from tests.group.coordinator import GROUP


def longest_of(entry: LedgerEntry) -> tuple[str, int, WaitReason]:
    longest = entry.awaited_longest
    assert longest is not None
    return longest.client_id, longest.ms, longest.why


def result_of(group: ObservedCoordinator) -> str:
    return group.last.result.value


def because_of(entry: LedgerEntry) -> str:
    return "" if entry.awaited_longest is None else entry.awaited_longest.because


def test_a_dead_member_and_its_successors_are_named(group: ObservedCoordinator) -> None:
    group.advance(2_690)
    group.beat("alice")
    group.advance(2)
    group.rejoin("alice")
    group.beat("carol")
    group.rejoin("carol")
    group.ask("carol")
    group.advance(1)
    group.lead()
    entry = group.last
    assert (entry.result, entry.cause, entry.generation_id) == (EntryResult.STABLE, "session expired", 4)
    assert entry.actor is not None
    assert (entry.actor.client_id, entry.actor.last_heard_ms_ago) == ("bob", SESSION_MS)
    assert (entry.join_ms, entry.sync_ms, entry.total_ms) == (2_692, 1, 2_693)
    assert (entry.from_state, entry.protocol_name, entry.leader) == ("Stable", "range", "alice")
    alice, bob, carol = [story_of(entry, name) for name in ("alice", "bob", "carol")]
    assert (alice.told_after_ms, alice.rejoined_after_ms, alice.synced_after_ms) == (2_690, 2_692, 2_693)
    assert (carol.told_after_ms, carol.rejoined_after_ms, carol.synced_after_ms) == (2_692, 2_692, 2_692)
    assert (alice.awaited_ms, carol.awaited_ms, bob.awaited_ms) == (2_693, 2_692, 0)
    assert longest_of(entry) == ("alice", 2_693, WaitReason.TOLD_LATE)
    assert (bob.gone, bob.lost, bob.missed_generations) == ("session expired", ["orders-1", "orders-4"], [4])
    assert (alice.owned, alice.gained, alice.lost) == (
        {"orders": [0, 2, 4]},
        ["orders-2", "orders-4"],
        ["orders-3"],
    )
    assert (carol.owned, carol.gained, carol.lost) == (
        {"orders": [1, 3, 5]},
        ["orders-1", "orders-3"],
        ["orders-2"],
    )
    assert (entry.members_count, entry.gone_count, entry.members_left_out) == (2, 1, 0)


def test_group_time_and_real_time_are_distinguished() -> None:
    """Its clock is years away from the process's: how long a connection was silent comes from the connection."""
    group = with_bob_dead(ObservedCoordinator(is_moved=True))
    actor = group.last.actor
    assert actor is not None
    assert actor.last_heard_ms_ago == SESSION_MS
    assert actor.real.last_heard_ms_ago == HEARD_MS
    assert actor.real.connection_closed_ms_ago == CLOSED_MS
    group.settle()
    real = group.last.real
    assert real is not None
    assert real.total_ms < 5_000
    assert group.last.group_time_ms < group.last.started_ms


def test_an_open_one_is_shown_as_it_is_now(group: ObservedCoordinator) -> None:
    group.advance(1_000)
    group.beat("alice")
    group.rejoin("alice")
    group.advance(3_000)
    entry = group.last
    assert (entry.result, entry.real) == (EntryResult.OPEN, None)
    assert (entry.join_ms, entry.sync_ms, entry.total_ms) == (4_000, 0, 4_000)
    assert longest_of(entry) == ("carol", 4_000, WaitReason.NEVER_TOLD)
    assert story_of(entry, "carol").told_after_ms is None
    group.beat("carol")
    assert longest_of(group.last) == ("carol", 4_000, WaitReason.TOLD_BUT_SILENT)


def test_a_stable_group_that_awaits_a_sync_is_open_still(group: ObservedCoordinator) -> None:
    heard: list[LedgerEntry] = []
    group.ledger.listeners.append(heard.append)
    group.beat("alice", "carol")
    group.rejoin("alice", "carol")
    group.advance(0)
    group.lead()
    assert group.state() == "Stable"
    assert result_of(group) == "open"
    assert group.last.awaited_longest is None
    assert not heard
    group.advance(700)
    assert longest_of(group.last) == ("carol", 700, WaitReason.NEVER_SYNCED)
    group.ask("carol")
    assert result_of(group) == "stable"
    assert longest_of(group.last) == ("carol", 700, WaitReason.SYNCED_LATE)
    assert [entry.seq for entry in heard] == [group.last.seq] == [group.ledger.last_seq]


def test_a_member_that_rejoins_late_was_busy(group: ObservedCoordinator) -> None:
    group.advance(500)
    group.beat("alice", "carol")
    group.rejoin("carol")
    group.advance(4_000)
    group.rejoin("alice")
    assert longest_of(group.last) == ("alice", 4_500, WaitReason.REJOINED_LATE)
    assert "poll" in because_of(group.last)


def test_an_advanced_clock_blames_no_member() -> None:
    group = with_bob_dead(ObservedCoordinator(is_moved=True))
    group.advance(4_000)
    assert "dead" not in because_of(group.last)
    group.beat("alice", "carol")
    group.rejoin("carol")
    group.advance(4_500)
    group.rejoin("alice")
    assert longest_of(group.last) == ("alice", 8_500, WaitReason.REJOINED_LATE)
    assert "poll" not in because_of(group.last)


def test_a_late_rejoin_after_a_sync_error_is_not_busy(group: ObservedCoordinator) -> None:
    """Some clients delay their join after an error of SyncGroup. They are not busy applications."""
    group.beat("alice", "carol")
    group.rejoin("alice", "carol")
    group.ask("carol")
    group.come("dave")
    group.ask("alice")
    group.rejoin("carol")
    group.advance(1_900)
    group.rejoin("alice")
    assert longest_of(group.last) == ("alice", 1_900, WaitReason.REJOINED_LATE)
    assert "held back" in because_of(group.last)
    assert "poll" not in because_of(group.last)


def test_the_leader_took_long_to_assign(group: ObservedCoordinator) -> None:
    group.beat("alice", "carol")
    group.rejoin("alice", "carol")
    group.ask("carol")
    group.advance(4_000)
    group.lead()
    assert longest_of(group.last) == ("alice", 4_000, WaitReason.SYNCED_LATE)
    assert "leads" in because_of(group.last)


def test_a_member_that_never_rejoins_is_named(group: ObservedCoordinator) -> None:
    group.rejoin("alice")
    while group.state() == "PreparingRebalance":
        group.beat("carol")
        group.advance(3_000)
    group.lead()
    entry = group.last
    assert story_of(entry, "carol").gone == "did not rejoin"
    assert longest_of(entry)[::2] == ("carol", WaitReason.TOLD_BUT_SILENT)
    assert story_of(entry, "carol").awaited_ms == entry.join_ms == 60_000


def test_a_member_without_a_heartbeat_is_named(group: ObservedCoordinator) -> None:
    group.acts.record_action("fault", "hold-carol", GROUP)
    group.rejoin("alice")
    group.advance(SESSION_MS)
    assert story_of(group.last, "carol").gone == "session expired"
    assert longest_of(group.last)[::2] == ("carol", WaitReason.NEVER_TOLD)
    assert "hold-carol" in because_of(group.last)


def test_an_unused_member_id_is_named(group: ObservedCoordinator) -> None:
    pending = group.join(client_id="dave").joined.member_id
    group.beat("alice", "carol")
    group.rejoin("alice", "carol")
    group.advance(SESSION_MS)
    dave = story_of(group.last, "dave")
    assert (dave.member_id, dave.awaited_ms, dave.is_new) == (pending, SESSION_MS, False)
    assert dave.gone is not None
    assert longest_of(group.last)[0] == "dave"
    group.settle()
    assert group.last.members_count == 2


def test_a_sync_phase_that_is_broken_off_is_an_entry_of_its_own(group: ObservedCoordinator) -> None:
    group.beat("alice", "carol")
    group.rejoin("alice", "carol")
    group.advance(100)
    group.ask("carol")
    group.come("dave")
    failed, latest = group.entries[-2:]
    assert (failed.result, failed.generation_id, failed.cause) == (EntryResult.FAILED, 4, "session expired")
    assert (failed.attempts, latest.attempts, latest.generation_id) == (1, 2, 5)
    assert (latest.cause, latest.from_state) == (RebalanceCause.MEMBER_JOINED, "CompletingRebalance")
    assert story_of(latest, "carol").told_after_ms == 0
    assert story_of(latest, "dave").is_new
    group.settle()
    assert (group.last.result, group.last.attempts) == (EntryResult.STABLE, 2)
    assert story_of(group.last, "bob").lost == ["orders-1", "orders-4"]


def test_a_silent_static_member_misses_generations() -> None:
    group = ObservedCoordinator()
    group.come("static", instance="i")
    group.settle()
    group.formed("alice", "bob")
    group.subscriptions = {"alice": SUBSCRIPTION + b"1", "bob": SUBSCRIPTION + b"2"}
    for missed in ([4], [4, 5]):
        group.rejoin("bob")
        while group.state() == "PreparingRebalance":
            group.beat("alice", "static")
            group.rejoin("alice")
            group.advance(5_000)
        group.ask("bob")
        group.lead({"alice": assignment(0), "bob": assignment(1), "static": assignment(2)})
        group.subscriptions["bob"] += b"x"
        group.rejoin("bob")
        story = story_of(group.entries[-2], "static")
        assert (story.missed_generations, story.gone, story.rejoined_after_ms) == (missed, None, None)
        assert group.entries[-2].unowned == ["orders-3", "orders-4", "orders-5"]


def test_a_static_member_restarts_before_its_sync() -> None:
    group = ObservedCoordinator()
    group.formed("alice")
    group.come("static", instance="i")
    group.beat("alice")
    group.rejoin("alice")
    group.advance(0)
    group.lead()
    group.come("static", instance="i")
    group.ask("static")
    assert result_of(group) == "stable"
    story = story_of(group.last, "static")
    assert (story.member_id, story.owned, story.gone) == (
        group.member_ids["static"], {"orders": [1, 3, 5]}, None,
    )  # fmt: skip
    assert (group.last.members_count, group.last.gone_count) == (2, 0)


def test_a_member_that_dies_after_it_learned_is_named(group: ObservedCoordinator) -> None:
    group.beat("carol")
    group.rejoin("alice")
    group.advance(SESSION_MS)
    assert longest_of(group.last)[::2] == ("carol", WaitReason.TOLD_BUT_SILENT)
    assert "died" in because_of(group.last)


def test_commits_refused_meanwhile(group: ObservedCoordinator) -> None:
    group.beat("alice", "carol")
    group.rejoin("alice", "carol")
    carol = group.member_ids["carol"]
    assert group.commit(carol, 3) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit(carol, 3) is ErrorCode.ILLEGAL_GENERATION
    assert group.commit("unknown", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    group.settle()
    assert story_of(group.last, "carol").commits_refused == 2
    assert story_of(group.last, "alice").commits_refused == 0


def test_groups_that_are_unloaded(group: ObservedCoordinator) -> None:
    group.ledger.on_partition_unloaded(1)
    assert result_of(group) == "open"
    group.ledger.on_partition_unloaded(0)
    assert result_of(group) == "failed"
    heard: list[LedgerEntry] = []
    group.ledger.listeners.append(heard.append)
    group.restart()
    assert [(entry.result, entry.generation_id) for entry in heard] == [(EntryResult.FAILED, 4)]
    assert group.last == heard[0]


def test_the_last_one_leaves() -> None:
    group = ObservedCoordinator()
    group.formed("alice")
    group.leave(MemberIdentity(member_id=group.member_ids["alice"], reason="done"))
    entry = group.last
    assert (entry.result, entry.cause, entry.client_reason) == (EntryResult.EMPTY, "member left", "done")
    assert story_of(entry, "alice").lost == [f"orders-{number}" for number in range(6)]
    assert (entry.members_count, entry.gone_count) == (0, 1)


def test_bytes_that_are_no_assignment() -> None:
    group = ObservedCoordinator()
    group.come("alice")
    group.settle()
    group.rejoin("alice")
    group.lead({"alice": b"\x00\x01\xff\xff"})
    alice = story_of(group.last, "alice")
    assert (alice.owned, alice.gained, alice.lost, group.last.unowned) == (None, [], [], [])


def test_names_of_clients_cannot_control_a_terminal() -> None:
    group = ObservedCoordinator()
    group.formed("alice\x1b[2J")
    assert group.last.actor is not None
    assert group.last.actor.client_id.isprintable()


def test_entries_after_a_number_and_the_last_ones(group: ObservedCoordinator) -> None:
    entries = group.entries
    assert [entry.result for entry in entries][-1] is EntryResult.OPEN
    assert group.ledger.list_entries(GROUP, limit=2) == entries[:2]
    assert group.ledger.list_entries(GROUP, last=2) == entries[-2:]
    assert group.ledger.list_entries(GROUP, last=1) == entries[-1:]
    assert group.ledger.list_entries(GROUP, after=entries[0].seq) == entries[1:]
    assert group.ledger.list_entries(None) == entries
    assert group.ledger.list_entries("other") == []
    assert group.ledger.has_entries(GROUP)
    assert not group.ledger.has_entries("other")


def test_of_a_large_group_only_some_are_named() -> None:
    group = ObservedCoordinator()
    names = [f"c{number}" for number in range(60)]
    group.come(names[0])
    group.settle()
    for name in names[1:]:
        group.come(name)
    group.settle()
    group.beat(*names)
    late, dead = names[7], names[50]
    group.rejoin(names[0])
    others = [name for name in names[1:] if name not in (late, dead)]
    group.rejoin(*others)
    group.advance(3_000)
    group.rejoin(late)
    while group.state() == "PreparingRebalance":
        group.advance(1_000)
    group.part(dead)
    group.settle()
    entry = group.last
    assert (entry.members_count, entry.gone_count) == (59, 1)
    named = {story.client_id for story in entry.members}
    assert {late, dead, entry.leader} <= named
    assert len(entry.members) + entry.members_left_out == 60
    assert len(named) <= 13
    assert not entry.unowned


def test_earlier_events_do_not_belong_to_an_entry_of_a_frozen_group() -> None:
    """No time passes in a frozen group: a static member restarts, and then another member joins."""
    group = ObservedCoordinator()
    group.come("alice")
    group.settle()
    group.come("bob", instance="b")
    group.settle()
    group.come("bob", instance="b")
    assert group.state() == "Stable"
    group.come("carol")
    assert group.state() == "PreparingRebalance"
    assert story_of(group.last, "bob").rejoined_after_ms is None
