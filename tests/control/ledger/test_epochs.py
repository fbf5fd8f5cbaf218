"""Ledger entries about the epochs of consumer groups (KIP-848)."""

from coordinator.control.ledger.ledger_entry import EntryResult, LedgerEntry, MemberTimeline
from coordinator.control.ledger.ledger_text import format_entry
from tests.control.ledger.observed_coordinator import CLOSED_MS, story_of
from tests.control.ledger.observed_epochs import ORDERS, REBALANCE_MS, Client, ObservedEpochs, topic
from tests.group.coordinator import RANGE

SESSION_MS = 45_000


def said(entry: LedgerEntry) -> tuple[str, str | None]:
    return entry.cause, None if entry.actor is None else entry.actor.client_id


def one_of(*names: str) -> tuple[ObservedEpochs, list[Client]]:
    group, clients = ObservedEpochs(), [Client(name) for name in names]
    for number in range(len(clients)):
        group.settle(*clients[: number + 1])
    return group, clients


def changes(story: MemberTimeline) -> tuple[list[str], list[str]]:
    return story.gained, story.lost


def test_pending_revocations_have_a_member_and_a_time() -> None:
    group, (alice,) = one_of("alice")
    bob = Client("bob")
    alice.keeps = True
    bob.step(group)
    group.advance(1_000)
    alice.step(group)
    bob.step(group)
    group.advance(3_000)
    open_entry = group.last
    assert (open_entry.result, open_entry.real) == (EntryResult.OPEN, None)
    assert said(open_entry) == ("member joined", "bob")
    assert (open_entry.group_epoch, open_entry.assignment_epoch) == (3, 3)
    story = story_of(open_entry, "alice")
    assert (story.revoking_count, story.revoking_ms, story.member_epoch) == (3, 3_000, 2)
    waiting = story_of(open_entry, "bob")
    assert (waiting.is_new, waiting.missing_count, waiting.reached_after_ms) == (True, 3, None)
    assert "alice has 3 for 3.00 s" in format_entry(open_entry)

    alice.keeps = False
    group.settle(alice, bob)
    closed = group.last
    assert (closed.seq > open_entry.seq, closed.result) == (True, EntryResult.STABLE)
    assert closed.real is not None
    assert closed.real.total_ms == closed.total_ms == closed.join_ms + closed.sync_ms
    assert changes(story_of(closed, "alice")) == ([], ["orders-3", "orders-4", "orders-5"])
    assert changes(story_of(closed, "bob")) == (["orders-3", "orders-4", "orders-5"], [])
    assert [story.reached_after_ms for story in closed.members] == [5_000, 5_000]
    longest = closed.awaited_longest
    assert longest is not None
    assert (longest.client_id, longest.why, longest.ms) == ("alice", "revoked late", 4_000)


def test_one_that_gives_nothing_up_is_the_actor_of_the_epoch_that_follows() -> None:
    group, (alice,) = one_of("alice")
    bob = Client("bob")
    alice.keeps = True
    bob.step(group)
    group.advance(1_000)
    for _ in range(REBALANCE_MS // 5_000):
        alice.step(group)
        bob.step(group)
        group.advance(5_000)
    overtaken, entry = group.entries()[-2:]
    assert (overtaken.result, said(overtaken)) == (EntryResult.OVERTAKEN, ("member joined", "bob"))
    assert story_of(overtaken, "alice").revoking_count == 3
    assert said(entry) == ("rebalance timeout", "alice")
    assert entry.reason == "a member was fenced: it did not give up its partitions in time"
    group.settle(bob)
    entry = group.last
    gone = story_of(entry, "alice")
    assert (gone.gone, changes(gone)) == ("rebalance timeout", ([], ["orders-0", "orders-1", "orders-2"]))
    assert story_of(entry, "bob").gained_count == 3


def test_a_silent_one_has_been_silent_for_its_session() -> None:
    group, (_, bob) = one_of("alice", "bob")
    for _ in range(SESSION_MS // 5_000):
        group.advance(5_000)
        bob.step(group)
    group.settle(bob)
    entry = group.last
    assert said(entry) == ("session expired", "alice")
    actor = entry.actor
    assert actor is not None
    assert actor.last_heard_ms_ago == SESSION_MS
    assert actor.real.connection_closed_ms_ago == CLOSED_MS


def test_the_last_one_leaves() -> None:
    group, (alice,) = one_of("alice")
    alice.leave(group)
    entry = group.last
    assert (entry.result, entry.total_ms, entry.members_count, entry.gone_count) == (
        EntryResult.EMPTY,
        0,
        0,
        1,
    )
    assert said(entry) == ("member left", "alice")
    assert story_of(entry, "alice").lost_count == 6


def test_an_epoch_without_a_target_is_overtaken() -> None:
    group, clients = one_of("alice")
    clients += [Client("bob"), Client("carol")]
    for client in clients:
        client.step(group)
    group.settle(*clients)
    overtaken, entry = group.entries()[-2:]
    assert (overtaken.result, said(overtaken)) == (EntryResult.OVERTAKEN, ("member joined", "bob"))
    assert overtaken.assignment_epoch != overtaken.group_epoch
    assert (entry.result, said(entry)) == (EntryResult.STABLE, ("member joined", "carol"))
    assert [story.owned_count for story in entry.members] == [2, 2, 2]


def test_partitions_of_a_topic_that_is_gone_have_its_name() -> None:
    more = topic("payments", 2, 2)
    group = ObservedEpochs(ORDERS, more)
    alice = Client("alice", ("orders", "payments"))
    group.settle(alice)
    group.topics_are(ORDERS)
    group.advance(1_000)
    group.settle(alice)
    entry = group.last
    assert said(entry) == ("topic deleted", None)
    assert entry.reason == "topics changed: payments"
    assert changes(story_of(entry, "alice")) == ([], ["payments-0", "payments-1"])


def test_an_expression_that_is_new_and_a_topic_that_fits_it() -> None:
    group = ObservedEpochs()
    alice = Client("alice", None, regex="ord.*")
    group.settle(alice)
    assert [said(entry) for entry in group.entries()][-1] == ("regular expression resolved", "alice")
    group.advance(11_000)
    group.topics_are(ORDERS, topic("ordinary", 3, 1))
    group.settle(alice)
    alice.step(group)
    group.advance(1_000)
    group.settle(alice)
    assert said(group.last) == ("regular expression resolved", None)
    assert changes(story_of(group.last, "alice")) == (["ordinary-0"], [])


def test_a_group_that_is_upgraded_and_downgraded() -> None:
    group = ObservedEpochs(topic("foo", 1, 3))
    joined = group.join(version=3, client_id="old", protocols=RANGE)
    group.advance(10_000)
    group.sync(joined.joined.member_id, 1, {joined.joined.member_id: b""})
    new = Client("new", ("foo",))
    new.step(group)
    group.advance(1_000)
    entry = group.last
    assert (said(entry), entry.type, entry.from_state) == (("group upgraded", "new"), "consumer", "Stable")
    new.leave(group)
    overtaken, entry = group.entries()[-2:]
    assert (overtaken.type, overtaken.result) == ("consumer", EntryResult.OVERTAKEN)
    assert (said(entry), entry.type) == (("group downgraded", "new"), "classic")


def test_groups_that_are_unloaded() -> None:
    group, (alice,) = one_of("alice")
    Client("bob").step(group)
    group.ledger.on_partition_unloaded(0)
    assert group.last.result is EntryResult.FAILED
    alice.step(group)
    assert (group.last.result, said(group.last)) == (EntryResult.FAILED, ("member joined", "bob"))


def test_a_ledger_keeps_no_more_than_it_may() -> None:
    group = ObservedEpochs(ledger_bytes=8_000)
    alice, bob = Client("alice"), Client("bob")
    for _ in range(20):
        group.settle(alice)
        group.settle(alice, bob)
        bob.leave(group)
        bob.epoch, bob.owned = 0, {}
    assert group.ledger.store.bytes <= 8_000
    assert 2 <= len(group.entries()) < 20
