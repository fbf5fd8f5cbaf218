"""Reconciliation: the order of revocations and assignments between consumers, and the responses meanwhile."""

from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.oracle.consumer import (
    JOIN,
    Consumer,
    group_of,
    known_topic,
    look,
    owned,
    settle,
    stable,
    tell_group,
)
from tests.oracle.peers import CONSUMERS, UPGRADING
from tests.oracle.play import Play, Topic
from tests.oracle.session import session
from tests.oracle.sessions.configs import GROUP, SET, alter

SHORT_SESSION_MS = "1000"


def short_sessions(play: Play) -> IncrementalAlterConfigsRequest:
    """Gives members of the group a second between heartbeats; it begins with the next heartbeat of each."""
    return alter(
        ("consumer.session.timeout.ms", SET, SHORT_SESSION_MS),
        ("consumer.heartbeat.interval.ms", SET, "600"),
        name=play.group,
        kind=GROUP,
    )


def until_member_is_gone(play: Play, member: Consumer) -> None:
    """Waits until the coordinator has removed it."""
    play.until(lambda: all(each.member_id != member.member_id for each in group_of(play).members))


def pair(play: Play, partitions: int = 3) -> tuple[Topic, Consumer, Consumer]:
    """One consumer that has every partition, and one that is about to join."""
    orders = known_topic(play, partitions=partitions)
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    stable(a)
    return orders, a, b


def unrevoked(play: Play, partitions: int = 3) -> tuple[Topic, Consumer, Consumer]:
    """A must revoke partitions that B waits for."""
    orders, a, b = pair(play, partitions)
    with play.quietly():
        b.join()
        a.heartbeat()
        b.heartbeat()
    return orders, a, b


@session(setup=UPGRADING)
def a_second_consumer_within_the_interval(play: Play) -> None:
    orders = known_topic(play, partitions=3)
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    a.join()
    look(play, "one")
    b.join()
    look(play, "no target for the second yet")
    play.until(lambda: b.heartbeat().member_epoch == 3)
    look(play, "a target")
    a.heartbeat("has to give up")
    look(play, "asked to give up")
    a.heartbeat("still has all", owns={orders: [0, 1, 2]})
    b.heartbeat("waits")
    a.heartbeat("gave up", owns={orders: [0, 1]})
    look(play, "given up")
    a.heartbeat("the answer was lost", owns={orders: [0, 1]}, member_epoch=2)
    a.heartbeat("says nothing of what it owns", member_epoch=2)
    a.epoch = 3
    b.heartbeat("has what was given up")
    look(play, "settled")


@session(setup=CONSUMERS, version=(0, 1))
def a_second_consumer_without_an_interval(play: Play, version: int) -> None:
    orders = known_topic(play, partitions=3)
    a, b = (Consumer(play, name, [orders], version=version) for name in "ab")
    a.join()
    b.join()
    look(play, "joined")
    a.heartbeat("has to give up")
    b.heartbeat("waits")
    a.heartbeat("gave up", owns={orders: [0, 1]})
    b.heartbeat("has it")
    look(play, "settled")


@session(setup=UPGRADING)
def three_consumers_within_the_interval(play: Play) -> None:
    orders = known_topic(play, partitions=6)
    members = [Consumer(play, name, [orders]) for name in "abc"]
    for each in members:
        each.join()
    look(play, "one target for one of three")
    play.until(lambda: members[2].heartbeat().member_epoch == 4)
    look(play, "a target for all")
    tell_group(play, *members, note="settled")


@session(setup=CONSUMERS)
def three_consumers_one_after_the_other(play: Play) -> None:
    orders = known_topic(play, partitions=6)
    members = [Consumer(play, name, [orders]) for name in "abc"]
    for each in members:
        each.join()
        look(play, f"{each.name} joined")
    for each in (*members, *members, *members):
        each.confirm()
    look(play, "settled")


@session(setup=CONSUMERS)
def the_newcomer_leaves_before_anything_is_given_up(play: Play) -> None:
    orders, a, b = unrevoked(play)
    look(play)
    b.leave()
    look(play, "left")
    a.heartbeat("still has all", owns={orders: [0, 1, 2]})
    a.heartbeat("gave up", owns={orders: [0, 1]})
    a.heartbeat("has all again", owns={orders: [0, 1]})
    look(play, "settled")


@session(setup=CONSUMERS)
def the_owner_leaves_before_it_gives_anything_up(play: Play) -> None:
    _, a, b = unrevoked(play)
    a.leave()
    look(play, "left")
    b.heartbeat()
    b.heartbeat("again")
    look(play, "settled")


@session(setup=CONSUMERS)
def an_owner_that_does_not_give_up_in_time(play: Play) -> None:
    orders = known_topic(play, partitions=3)
    a, b = Consumer(play, "a", [orders], rebalance_ms=700), Consumer(play, "b", [orders])
    stable(a)
    b.join()
    a.heartbeat("has to give up")
    until_member_is_gone(play, a)
    look(play, "fenced")
    a.heartbeat("too late")
    b.heartbeat()
    look(play, "the other has all")


@session(setup=CONSUMERS)
def an_owner_that_gives_up_in_time(play: Play) -> None:
    orders = known_topic(play, partitions=3)
    a, b = Consumer(play, "a", [orders], rebalance_ms=1500), Consumer(play, "b", [orders])
    stable(a)
    b.join()
    a.heartbeat("has to give up")
    a.confirm("gave up")
    play.pause(2000)
    a.heartbeat("a long time after")
    look(play)


@session(setup=CONSUMERS)
def a_session_of_a_consumer_that_expires(play: Play) -> None:
    orders = known_topic(play, partitions=3)
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    stable(a, b)
    with play.quietly():
        play.ask(short_sessions(play), 1, "admin")
    play.until(lambda: b.heartbeat().heartbeat_interval_ms == 600)
    until_member_is_gone(play, b)
    look(play, "without it")
    b.heartbeat("too late")
    a.full("has a short session now")
    until_member_is_gone(play, a)
    look(play, "without anybody")
    play.describe(version=6)


@session(setup=CONSUMERS, by=("a", "b"))
def a_new_target_while_partitions_are_to_be_given_up(play: Play, by: str) -> None:
    orders, a, b = unrevoked(play, 6)
    c = Consumer(play, "c", [orders])
    c.join("a third")
    look(play, "a third")
    for each in (a, b) if by == "a" else (b, a):
        each.heartbeat("with the newer target")
    look(play, "the newer target")
    a.confirm("gave up")
    look(play, "gave up")
    tell_group(play, a, b, c, note="settled")


@session(setup=CONSUMERS)
def an_owner_that_says_it_has_nothing(play: Play) -> None:
    _, a, b = pair(play)
    a.heartbeat("of all it has", owns={})
    look(play, "of all it has")
    b.join()
    a.heartbeat("to give up", owns={})
    look(play, "has nothing to give up")
    b.heartbeat()
    look(play, "settled")


@session(setup=CONSUMERS)
def an_owner_that_names_what_is_not_its(play: Play) -> None:
    orders, a, b = pair(play)
    lines = known_topic(play, "lines")
    a.heartbeat("another topic", owns={orders: [0, 1, 2], lines: [0]})
    a.heartbeat("no such partition", owns={orders: [0, 1, 2, 77, -1]})
    b.join()
    a.heartbeat("to give up, another topic only", owns={lines: [0]})
    look(play, "had nothing to give up")
    unknown = Topic("unknown", bytes(15) + b"\7")
    b.heartbeat("an unknown topic", owns={unknown: [0]})
    b.heartbeat("a partition twice", owns={orders: [0, 0]})
    b.heartbeat("a topic twice", topic_partitions=owned({orders: [0]}) * 2)
    look(play, "afterwards")


@session(setup=CONSUMERS)
def an_owner_gives_up_a_part(play: Play) -> None:
    orders, a, b = unrevoked(play, 6)
    look(play)
    a.heartbeat("gave up one", owns={orders: [0, 1, 2, 3, 4]})
    b.heartbeat("waits for all")
    a.heartbeat("gave up two", owns={orders: [0, 1, 2, 3]})
    b.heartbeat("still waits")
    a.heartbeat("gave up more than asked", owns={orders: [0]})
    b.heartbeat("has its part")
    look(play, "settled")


@session(setup=CONSUMERS)
def heartbeats_that_say_all_in_each_state(play: Play) -> None:
    orders, a, b = pair(play)
    a.full("stable")
    b.join()
    a.heartbeat("has to give up")
    a.full("to give up", owns={orders: [0, 1, 2]})
    a.full("to give up, nothing said of the timeout", owns={orders: [0, 1, 2]}, rebalance_timeout_ms=-1)
    b.full("waits")
    b.full("waits, no names", subscribed_topic_names=None)
    b.full("waits, a regex", subscribed_topic_names=None, subscribed_topic_regex="")
    b.full("waits, nothing said of partitions", topic_partitions=None)
    a.full("gave up")
    b.full("has it")
    look(play, "settled")


@session(setup=CONSUMERS)
def a_stable_consumer_reads_less(play: Play) -> None:
    orders, lines = known_topic(play, partitions=3), known_topic(play, "lines")
    a = Consumer(play, "a", [orders, lines])
    stable(a)
    a.subscribe(orders, note="without lines")
    look(play, "to give up")
    a.heartbeat("still has all", owns={orders: [0, 1, 2], lines: [0, 1]})
    a.heartbeat("gave up", owns={orders: [0, 1, 2]})
    look(play, "settled")
    a.subscribe(note="nothing", owns={orders: [0, 1, 2]})
    a.heartbeat("gave up all", owns={})
    look(play, "nothing")
    a.subscribe(orders, lines, note="both again")
    look(play, "both again")


@session(setup=CONSUMERS)
def a_consumer_reads_less_of_a_stale_target(play: Play) -> None:
    orders, lines = known_topic(play, partitions=3), known_topic(play, "lines", partitions=2)
    a, b = Consumer(play, "a", [orders, lines]), Consumer(play, "b", [orders])
    stable(a)
    b.join()
    a.heartbeat("has to give up")
    look(play, "to give up")
    a.subscribe(orders, note="without lines", owns={orders: [0, 1, 2], lines: [0, 1]})
    look(play, "to give up more")
    a.heartbeat("gave up orders only", owns={orders: [0], lines: [0, 1]})
    look(play, "gave up orders only")
    a.confirm("gave up all")
    tell_group(play, a, b, note="settled")


@session(setup=UPGRADING)
def a_consumer_reads_less_within_the_interval(play: Play) -> None:
    orders, lines = known_topic(play, partitions=3), known_topic(play, "lines")
    a = Consumer(play, "a", [orders, lines])
    stable(a)
    b = Consumer(play, "b", [])
    with play.quietly():
        b.join()
    a.subscribe(lines, note="without orders")
    look(play)
    a.confirm("gave up")
    look(play, "settled or not")


@session(setup=CONSUMERS)
def a_consumer_reads_nothing_for_a_while(play: Play) -> None:
    orders, a, b = pair(play)
    with play.quietly():
        b.join()
    settle(a, b)
    a.subscribe(note="nothing")
    look(play, "nothing")
    b.heartbeat("waits")
    a.heartbeat("gave up", owns={})
    b.heartbeat("has all")
    look(play, "the other has all")
    a.subscribe(orders, note="again")
    tell_group(play, a, b, note="settled")


@session(setup=CONSUMERS)
def lost_answers_while_partitions_move(play: Play) -> None:
    orders, a, b = pair(play)
    b.join()
    b.join("the answer was lost")
    a.heartbeat("has to give up")
    a.heartbeat("the answer was lost")
    a.heartbeat("gave up", owns={orders: [0, 1]})
    a.heartbeat("the answer was lost", owns={orders: [0, 1]}, member_epoch=2)
    a.heartbeat("the answer was lost, a part", owns={orders: [1]}, member_epoch=2)
    a.heartbeat("the answer was lost, too much", owns={orders: [0, 1, 2]}, member_epoch=2)
    b.heartbeat("has it")
    b.heartbeat("the answer was lost", member_epoch=2)
    b.heartbeat("the answer was lost, owns nothing", member_epoch=2, owns={})
    b.heartbeat("the answer was lost, has it", member_epoch=2, owns={orders: [2]})
    look(play, "settled")


@session(setup=CONSUMERS, who=("a", "b"))
def a_consumer_joins_again_while_partitions_move(play: Play, who: str) -> None:
    _, a, b = unrevoked(play)
    again = a if who == "a" else b
    again.join("again", member_epoch=JOIN)
    look(play, "again")
    again.heartbeat()
    look(play, "and a heartbeat")
    tell_group(play, a, b, note="settled")


@session(setup=CONSUMERS)
def a_rebalance_timeout_that_changes(play: Play) -> None:
    _, a, b = pair(play)
    b.join()
    a.heartbeat("has to give up", rebalance_timeout_ms=500)
    until_member_is_gone(play, a)
    look(play, "fenced by the shorter one")
    a.join("again")
    look(play, "again")
