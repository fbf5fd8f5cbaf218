"""Static members of consumer groups: left for a while, replaced, fenced."""

from typing import Any

from tests.oracle.consumer import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Consumer,
    known_topic,
    look,
    settle,
    stable,
    tell_group,
)
from tests.oracle.peers import CONSUMERS
from tests.oracle.play import Play, Topic
from tests.oracle.session import session
from tests.oracle.sessions.consumer_reconciliation import short_sessions, until_member_is_gone


def static_pair(play: Play, **fields: Any) -> tuple[Topic, Consumer, Consumer]:
    """Two static consumers that have settled."""
    orders = known_topic(play, partitions=4)
    a, b = (Consumer(play, name, [orders], instance=f"i-{name}", **fields) for name in "ab")
    stable(a, b)
    return orders, a, b


@session(setup=CONSUMERS, version=(0, 1))
def a_static_consumer_comes_back(play: Play, version: int) -> None:
    orders, a, b = static_pair(play, version=version)
    look(play)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    look(play, "one is away")
    b.heartbeat("in the meantime")
    again = Consumer(play, "c", [orders], instance="i-a", version=version)
    again.join("comes back")
    look(play, "it is back")
    again.heartbeat()
    a.heartbeat("the one before", member_epoch=3)
    b.heartbeat()
    look(play, "afterwards")


@session(setup=CONSUMERS)
def a_static_consumer_comes_back_without_an_id(play: Play) -> None:
    orders, a, b = static_pair(play, version=0)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    again = Consumer(play, "c", [orders], instance="i-a", version=0, member_id="")
    again.join("comes back")
    look(play, "it is back")
    settle(again, b)


@session(setup=CONSUMERS)
def a_static_consumer_comes_back_with_its_id(play: Play) -> None:
    _, a, _ = static_pair(play)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    a.join("comes back")
    look(play, "it is back")
    a.heartbeat()
    look(play, "afterwards")


@session(setup=CONSUMERS)
def a_static_consumer_comes_back_for_other_topics(play: Play) -> None:
    orders, a, b = static_pair(play)
    lines = known_topic(play, "lines")
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    again = Consumer(play, "c", [lines], instance="i-a")
    again.join("reads lines now")
    look(play, "it is back")
    again.confirm("settles")
    tell_group(play, again, b, note="settled")
    more = Consumer(play, "d", [orders, lines], instance="i-a")
    again.leave("for a while", LEAVE_FOR_A_WHILE)
    more.join("reads both")
    look(play, "reads both")


@session(setup=CONSUMERS)
def an_instance_that_somebody_has(play: Play) -> None:
    orders, a, _ = static_pair(play)
    a.join("joins again")
    other = Consumer(play, "c", [orders], instance="i-a")
    other.join("another one")
    look(play, "nothing has changed")
    a.heartbeat()


@session(setup=CONSUMERS, version=(0, 1))
def a_consumer_with_the_instance_of_another(play: Play, version: int) -> None:
    orders, a, b = static_pair(play, version=version)
    other = Consumer(play, "c", [orders], instance="i-a", version=version)
    for epoch in (1, 3, LEAVE, LEAVE_FOR_A_WHILE):
        other.heartbeat(f"epoch {epoch}", member_epoch=epoch)
        b.heartbeat(f"epoch {epoch}, a member's id", member_epoch=epoch, instance_id="i-a")
        b.epoch = 3
    a.heartbeat("without its instance", instance_id=None)
    look(play, "nothing has changed")
    a.heartbeat("leaves without its instance", instance_id=None, member_epoch=LEAVE)
    look(play, "left")


@session(setup=CONSUMERS)
def a_static_consumer_that_does_not_come_back(play: Play) -> None:
    _, a, b = static_pair(play)
    with play.quietly():
        play.ask(short_sessions(play), 1, "admin")
    play.until(lambda: a.heartbeat().heartbeat_interval_ms == 600)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    until_member_is_gone(play, a)
    look(play, "gave up on it")
    again = Consumer(play, "c", b.topics, instance="i-a")
    again.join("too late")


@session(setup=CONSUMERS)
def a_static_consumer_leaves_for_a_while_twice(play: Play) -> None:
    _, a, _ = static_pair(play)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    a.leave("again", LEAVE_FOR_A_WHILE)
    look(play)
    a.leave("for good")
    look(play, "for good")
    a.leave("for a while after all", LEAVE_FOR_A_WHILE)


@session(setup=CONSUMERS)
def a_static_consumer_goes_on_after_it_left_for_a_while(play: Play) -> None:
    orders, a, _ = static_pair(play)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    for epoch in (1, 2, 3, 4):
        a.heartbeat(f"epoch {epoch}", member_epoch=epoch)
        a.heartbeat(f"epoch {epoch}, owns nothing", member_epoch=epoch, owns={})
    a.commit({(orders, 0): 1}, "the epoch before", generation_id_or_member_epoch=3)
    a.commit({(orders, 0): 1}, "away", generation_id_or_member_epoch=LEAVE_FOR_A_WHILE)
    look(play)


@session(setup=CONSUMERS, version=(0, 1))
def a_static_consumer_leaves_for_good(play: Play, version: int) -> None:
    orders, a, b = static_pair(play, version=version)
    a.leave()
    look(play, "left")
    again = Consumer(play, "c", [orders], instance="i-a", version=version)
    again.heartbeat("goes on", member_epoch=3)
    again.join("as a new one")
    tell_group(play, again, b, note="settled")
    b.leave("for a while", LEAVE_FOR_A_WHILE)
    again.leave("for good, the other is away")
    look(play, "only one that is away")


@session(setup=CONSUMERS)
def a_static_consumer_is_away_while_partitions_move(play: Play) -> None:
    orders, a, b = static_pair(play)
    c = Consumer(play, "c", [orders])
    c.join("a third")
    a.heartbeat("may have to give up")
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    look(play, "away")
    b.confirm()
    c.heartbeat()
    look(play, "the others go on")
    again = Consumer(play, "d", [orders], instance="i-a")
    again.join("comes back")
    tell_group(play, again, b, c, note="settled")


@session(setup=CONSUMERS)
def two_static_consumers_swap_their_instances(play: Play) -> None:
    orders, a, b = static_pair(play)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    b.leave("for a while", LEAVE_FOR_A_WHILE)
    look(play, "both are away")
    first = Consumer(play, "a", [orders], instance="i-b")
    first.join("as the other")
    look(play, "one is back as the other")
    second = Consumer(play, "b", [orders], instance="i-a")
    second.join("as the other")
    look(play, "both are back")
    first.heartbeat()
    second.heartbeat()
    look(play, "afterwards")


@session(setup=CONSUMERS)
def a_dynamic_consumer_gets_an_instance(play: Play) -> None:
    orders = known_topic(play, partitions=4)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.heartbeat("with an instance", instance_id="i")
    a.join("joins with an instance", instance_id="i")
    look(play)
    a.heartbeat("with an instance", instance_id="i")
    a.heartbeat("without one")
    a.join("joins without one")
    look(play, "joined without one")
    a.leave("for a while, without one", LEAVE_FOR_A_WHILE)
    a.heartbeat("for a while", instance_id="i", member_epoch=LEAVE_FOR_A_WHILE)
    look(play, "afterwards")


@session(setup=CONSUMERS)
def a_static_consumer_gets_another_instance(play: Play) -> None:
    _, a, _ = static_pair(play)
    a.heartbeat("with another", instance_id="i-c")
    a.join("joins with another", instance_id="i-c")
    look(play, "joined")
    a.heartbeat("with the one before", instance_id="i-a")
    a.heartbeat("with the newer", instance_id="i-c")
