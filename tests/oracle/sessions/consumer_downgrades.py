"""Groups of consumers that become classic ones again, at once or member by member."""

from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.oracle import member as classic
from tests.oracle.consumer import (
    LEAVE_FOR_A_WHILE,
    ClassicConsumer,
    Consumer,
    known_topic,
    look,
    mixed,
    settle_all,
    stable,
    tell_group,
)
from tests.oracle.offsets import fetch_request
from tests.oracle.peers import CONSUMERS, DOWNGRADING
from tests.oracle.play import Play, Topic
from tests.oracle.session import session
from tests.oracle.sessions.consumer_migration import both_ways


@session(setup=CONSUMERS)
def the_last_consumer_leaves_a_classic_member(play: Play) -> None:
    orders = known_topic(play, partitions=4)
    a, k = mixed(play, orders)
    both_ways(play, "mixed")
    a.commit({(orders, 0): 5})
    a.leave("the last consumer")
    both_ways(play, "downgraded")
    k.heartbeat("with the generation before")
    k.commit({(orders, 1): 6}, "with the generation before")
    play.ask(fetch_request(play.group, 9), 9)
    k.join("into a classic group")
    both_ways(play, "joined again")


@session(setup=CONSUMERS)
def the_last_consumer_is_fenced_and_leaves_classic_members(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders], rebalance_ms=700)
    k = ClassicConsumer(play, "k", topics=[orders])
    stable(a)
    k.enter()
    a.heartbeat("has to give up")
    play.until_state("PreparingRebalance")
    both_ways(play, "downgraded")
    k.join("into a classic group")


@session(setup=CONSUMERS)
def the_last_static_consumer_is_replaced_by_a_classic_member(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders], instance="i")
    k = ClassicConsumer(play, "k", topics=[orders])
    stable(a)
    with play.quietly():
        k.enter()
        k.sync()
    settle_all(play, [a], [k])
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    s = ClassicConsumer(play, "s", topics=[orders], instance="i")
    s.join("in its place")
    both_ways(play, "downgraded")
    s.sync(note="in its place")
    s.heartbeat()
    k.heartbeat()
    both_ways(play, "afterwards")


@session(setup=CONSUMERS)
def a_rolling_upgrade_of_static_members_and_back(play: Play) -> None:
    orders = known_topic(play, partitions=6)
    olds = [ClassicConsumer(play, f"k{place}", topics=[orders], instance=f"i{place}") for place in range(3)]
    for place, each in enumerate(olds):
        each.part = {orders: [2 * place, 2 * place + 1]}
    classic.stable(*olds)
    news = [Consumer(play, f"n{place}", [orders], instance=f"i{place}") for place in range(3)]
    for place, new in enumerate(news):
        new.join("a newer client starts")
        both_ways(play, f"{place + 1} of 3 upgraded")
        settle_all(play, news[: place + 1], olds[place + 1 :])
    look(play, "all upgraded")
    backs = [ClassicConsumer(play, f"b{place}", topics=[orders], instance=f"i{place}") for place in range(3)]
    for place, back in enumerate(backs):
        news[place].leave("for a while", LEAVE_FOR_A_WHILE)
        back.join("an older client starts")
        back.sync(note="an older client starts")
        both_ways(play, f"{place + 1} of 3 back")


@session(setup=DOWNGRADING)
def a_downgrade_that_would_be_too_large(play: Play) -> None:
    orders = known_topic(play, partitions=1)  # with more partitions the assignment depends on random ids
    a, k = mixed(play, orders)
    others = [ClassicConsumer(play, name, topics=[orders]) for name in "lm"]
    with play.quietly():
        for each in others:
            each.enter()
            each.sync()
    settle_all(play, [a], [k, *others])
    a.leave("the last consumer")
    both_ways(play, "three classic members are left")
    k.heartbeat()
    k.leave()
    both_ways(play, "two are left")


@session(setup=CONSUMERS)
def a_group_is_deleted_between_protocols(play: Play) -> None:
    orders = known_topic(play)
    a, k = mixed(play, orders)
    request = DeleteGroupsRequest(groups_names=[play.group])
    play.ask(request, 2, note="mixed")
    a.leave()
    play.ask(request, 2, note="downgraded")
    k.leave()
    play.until_state("Empty")
    play.ask(request, 2, note="empty")
    both_ways(play, "deleted")
    tell_group_again(play, orders)


def tell_group_again(play: Play, orders: Topic) -> None:
    """A consumer starts again."""
    a = Consumer(play, "a", [orders])
    stable(a)
    tell_group(play, a, note="anew")
