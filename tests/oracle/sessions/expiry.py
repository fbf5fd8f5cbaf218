"""Offset retention: when offsets expire, what retains them, and when the group is removed with them."""

from tests.oracle.member import Member, commit_request
from tests.oracle.offsets import fetch_request, name_of
from tests.oracle.play import Play, Topic
from tests.oracle.session import session
from tests.oracle.sessions.deletions import subscribed, subscription

SHORT_MS = 300
AT_ONCE = 3
"""The last version of JoinGroup without a second request: Kafka may remove a group between two requests when it
checks for expired offsets."""


def commit(
    play: Play, *topics: Topic, version: int = 4, keep_ms: int = SHORT_MS, by: Member | None = None
) -> None:
    """Offset 1 of partition 0 of each, to be kept for so long."""
    caller = by.caller(version, 7) | {"generation_id_or_member_epoch": by.generation} if by else {}
    group = caller.pop("group_id", play.group)
    offsets: dict[tuple[Topic | str, int], int] = {(topic, 0): 1 for topic in topics}
    request = commit_request(group, offsets, version, retention_time_ms=keep_ms, **caller)
    play.ask(request, version, note=f"for {keep_ms} ms")


def until_gone(play: Play, topic: Topic) -> None:
    """Waits until the group has no offset of it."""
    request = fetch_request(play.group, 8)
    play.until(
        lambda: all(entry.name != name_of(topic) for entry in play.ask(request, 8, "admin").groups[0].topics)
    )


def look(play: Play) -> None:
    """Record the remaining offsets and the state of the group."""
    play.ask(fetch_request(play.group, 9), 9, note="what is left")
    play.describe(version=6, note="what is left")


@session(setup="expiring", version=(2, 3, 4))
def the_last_offset_expires(play: Play, version: int) -> None:
    orders = play.topic()
    commit(play, orders, version=version)
    until_gone(play, orders)
    look(play)


@session(setup="expiring", version=(2, 3, 4))
def one_of_two_offsets_expires(play: Play, version: int) -> None:
    orders, lines = play.topic(), play.topic("lines")
    commit(play, lines, version=version, keep_ms=3_600_000)
    commit(play, orders, version=version)
    until_gone(play, orders)
    look(play)


@session(setup="expiring")
def an_offset_is_committed_again_before_it_expires(play: Play) -> None:
    orders, lines = play.topic(), play.topic("lines")
    commit(play, orders, lines)
    play.ask(commit_request(play.group, {(orders, 0): 2}), 9, note="for good")
    until_gone(play, lines)
    look(play)


@session(setup="expiring")
def an_offset_is_committed_again_to_expire(play: Play) -> None:
    orders = play.topic()
    play.ask(commit_request(play.group, {(orders, 0): 2}), 9, note="for good")
    commit(play, orders)
    until_gone(play, orders)
    look(play)


@session(setup="expiring")
def what_a_member_reads_stays(play: Play) -> None:
    orders, lines = play.topic(), play.topic("lines")
    a = subscribed(play, orders, version=AT_ONCE)
    a.sync()
    commit(play, orders, lines, by=a)
    until_gone(play, lines)
    look(play)
    a.leave()
    until_gone(play, orders)
    look(play)


@session(setup="expiring")
def nothing_expires_in_a_rebalance(play: Play) -> None:
    orders, lines = play.topic(), play.topic("lines")
    a = subscribed(play, orders, version=AT_ONCE)
    a.sync()
    commit(play, orders, lines, by=a)
    with play.quietly():
        b = Member(play, "b")
        b.join()
        request, version = b.join_request({})
        request.protocols = subscription(orders)
        play.park(request, version, "b")
    play.pause(1500)
    look(play)
    with play.quietly():
        a.leave(by="x")
        b.joined()
        b.sync()
    until_gone(play, lines)
    look(play)


@session(setup="expiring")
def one_member_does_not_say_what_it_reads(play: Play) -> None:
    orders, lines = play.topic(), play.topic("lines")
    a = subscribed(play, orders, version=AT_ONCE)
    a.sync()
    commit(play, orders, lines, by=a)
    with play.quietly():
        b = Member(play, "b")
        b.join()
        b.begin_join()
    play.pause(1500)
    look(play)


@session(setup="expiring")
def a_member_that_reads_something_else_now(play: Play) -> None:
    orders, lines = play.topic(), play.topic("lines")
    a = subscribed(play, orders, version=AT_ONCE)
    a.sync()
    commit(play, orders, by=a)
    with play.quietly():
        request, version = a.join_request({})
        request.protocols = subscription(lines)
        answer = play.ask(request, version, "a")
        a.generation = answer.generation_id
        a.sync()
    until_gone(play, orders)
    look(play)


@session(setup="expiring", kind=("connect", "consumer"))
def a_member_does_not_say_what_it_reads(play: Play, kind: str) -> None:
    orders = play.topic()
    a = Member(play, "a", protocol_type=kind, versions={"join": AT_ONCE})
    a.enter()
    a.sync()
    commit(play, orders, by=a)
    play.pause(1500)
    look(play)


@session(setup="expiring")
def an_offset_is_kept_for_no_time(play: Play) -> None:
    orders, lines = play.topic(), play.topic("lines")
    commit(play, lines, keep_ms=0)
    until_gone(play, lines)
    commit(play, orders, keep_ms=-7)
    until_gone(play, orders)
    look(play)


@session(setup="expiring")
def offsets_outlive_their_members(play: Play) -> None:
    orders = play.topic()
    a = subscribed(play, orders, version=AT_ONCE)
    a.sync()
    commit(play, orders, by=a)
    a.leave()
    play.describe()
    until_gone(play, orders)
    look(play)
    a.member_id = ""
    a.enter()
    play.describe(note="joined again")
