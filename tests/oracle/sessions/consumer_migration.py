"""Conversions between the protocols, with and without members, and rejected conversions."""

from collections.abc import Callable

from tests.oracle import member as classic
from tests.oracle.consumer import (
    ClassicConsumer,
    Consumer,
    known_topic,
    look,
    mixed,
    stable,
)
from tests.oracle.member import Member, commit_request, gather
from tests.oracle.offsets import fetch_request
from tests.oracle.peers import CONSUMERS, DOWNGRADING, NEITHER, UPGRADING
from tests.oracle.play import Play, Topic
from tests.oracle.session import session


def classic_group(
    play: Play, names: str = "k", partitions: int = 3, **fields: object
) -> list[ClassicConsumer]:
    """A Stable classic group of a topic, its partitions given out round and round."""
    orders = known_topic(play, partitions=partitions)
    members = [ClassicConsumer(play, name, topics=[orders], **fields) for name in names]  # type: ignore[arg-type]
    for place, each in enumerate(members):
        each.part = {orders: list(range(place, partitions, len(members)))}
    classic.stable(*members)
    return members


def the_topic(member: ClassicConsumer) -> Topic:
    """The topic of such a group."""
    topic = member.topics[0]
    assert isinstance(topic, Topic)
    return topic


def both_ways(play: Play, note: str) -> None:
    """Record the group in the responses to both describe requests."""
    look(play, note)
    play.describe(version=6, note=note)


@session(setup=CONSUMERS, version=(0, 1), offsets=(True, False))
def a_consumer_joins_an_empty_classic_group(play: Play, version: int, offsets: bool) -> None:
    (k,) = classic_group(play)
    if offsets:
        k.commit({(the_topic(k), 0): 5})
    k.leave()
    play.until_state("Empty")
    both_ways(play, "empty")
    a = Consumer(play, "a", [the_topic(k)], version=version)
    a.heartbeat("an epoch", member_epoch=1)
    a.join()
    both_ways(play, "of consumers")
    play.ask(fetch_request(play.group, 9), 9)


@session(setup=CONSUMERS)
def a_consumer_joins_a_simple_group(play: Play) -> None:
    orders = known_topic(play)
    play.ask(commit_request(play.group, {(orders, 0): 5}), 9)
    both_ways(play, "simple")
    a = Consumer(play, "a", [orders])
    a.join()
    both_ways(play, "of consumers")
    play.ask(fetch_request(play.group, 9), 9)


@session(setup=CONSUMERS, version=(3, 9))
def a_classic_member_joins_an_empty_group_of_consumers(play: Play, version: int) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.commit({(orders, 0): 5})
    a.leave()
    k = ClassicConsumer(play, "k", topics=[orders], part={orders: [0, 1]})
    k.enter(version=version)
    both_ways(play, "classic")
    k.sync()
    both_ways(play, "Stable")
    play.ask(fetch_request(play.group, 9), 9)


@session(setup=CONSUMERS)
def a_connect_worker_joins_an_empty_group_of_consumers(play: Play) -> None:
    a = Consumer(play, "a", [])
    a.join()
    Member(play, "w", protocol_type="connect").join("not empty", version=3)
    a.leave()
    Member(play, "w", protocol_type="connect").join("empty", version=3)
    both_ways(play, "afterwards")


@session(setup=CONSUMERS, members=(1, 3))
def a_consumer_joins_a_stable_classic_group(play: Play, members: int) -> None:
    group = classic_group(play, "klm"[:members])
    k = group[0]
    orders = the_topic(k)
    k.commit({(orders, 0): 5})
    a = Consumer(play, "a", [orders])
    a.join()
    both_ways(play, "upgraded")
    play.ask(fetch_request(play.group, 9), 9)
    for each in group:
        each.heartbeat("with its generation")
    for each in group:
        each.join("first round")
        each.sync(note="first round")
    a.heartbeat()
    both_ways(play, "first round")
    for each in group:
        if each.heartbeat("after the first round").error_code:
            each.join("second round")
            each.sync(note="second round")
    a.heartbeat()
    both_ways(play, "second round")


@session(setup=CONSUMERS)
def a_consumer_joins_while_classic_members_join(play: Play) -> None:
    k, m = classic_group(play, "km")
    k.begin_join()
    a = Consumer(play, "a", k.topics)
    a.join()
    k.joined()
    both_ways(play, "upgraded")
    k.join("again")
    m.heartbeat()


@session(setup=CONSUMERS)
def a_consumer_joins_while_classic_members_sync(play: Play) -> None:
    k, m = classic_group(play, "km")
    gather(k, m)
    m.begin_sync()
    a = Consumer(play, "a", k.topics)
    a.join()
    m.synced()
    both_ways(play, "upgraded")
    k.sync(m, note="the leader, too late")
    m.heartbeat()


@session(setup=CONSUMERS)
def a_consumer_joins_the_first_join_of_a_classic_group(play: Play) -> None:
    orders = known_topic(play)
    k = ClassicConsumer(play, "k", topics=[orders])
    k.join("promised an id")
    a = Consumer(play, "a", [orders])
    a.join()
    both_ways(play, "upgraded or not")
    k.join("with the id")
    both_ways(play, "afterwards")


def _connect(play: Play) -> None:
    worker = Member(play, "w", protocol_type="connect")
    with play.quietly():
        worker.enter()
        worker.sync()


def _strange_subscription(play: Play) -> None:
    classic.stable(Member(play, "w"))


def _strange_assignment(play: Play) -> None:
    k = ClassicConsumer(play, "k", topics=["orders"])
    with play.quietly():
        k.enter()
        k.play.ask(_sync_with(k, b"\0\1\0"), 5, k.name)


def _user_data(play: Play) -> None:
    k = ClassicConsumer(play, "k", topics=["orders"])
    with play.quietly():
        k.enter()
        k.play.ask(_sync_with(k, b"\0\1\0\0\0\0\0\0\0\1x"), 5, k.name)


def _no_assignment(play: Play) -> None:
    k = ClassicConsumer(play, "k", topics=["orders"])
    with play.quietly():
        k.enter()
        k.play.ask(_sync_with(k, b""), 5, k.name)


def _too_many(play: Play) -> None:
    classic_group(play, "klmn")


def _sync_with(member: ClassicConsumer, assignment: bytes) -> object:
    request, _ = member.sync_request((), {})
    request.assignments[0].assignment = assignment
    return request


REFUSED: dict[str, Callable[[Play], None]] = {
    "another_type": _connect,
    "strange_subscriptions": _strange_subscription,
    "strange_assignments": _strange_assignment,
    "user_data": _user_data,
    "no_assignment": _no_assignment,
    "too_many": _too_many,
}


@session(setup=UPGRADING, what=REFUSED)
def groups_that_are_not_upgraded(play: Play, what: str) -> None:
    REFUSED[what](play)
    a = Consumer(play, "a", [play.name("nothing")])
    a.join("a consumer")
    a.heartbeat("with an epoch", member_epoch=1)
    a.leave()
    both_ways(play, "afterwards")


@session(setup=UPGRADING)
def a_refused_upgrade_ends_the_rebalance(play: Play) -> None:
    w, v = Member(play, "w"), Member(play, "v")
    classic.stable(w, v)
    v.begin_join(protocols=["range:other"])
    a = Consumer(play, "a", [])
    a.join("a consumer")
    play.settle(play.group)
    play.still_waits("v")
    play.describe(note="afterwards")


def _upgrade(play: Play) -> None:
    (k,) = classic_group(play)
    a = Consumer(play, "a", k.topics)
    a.join("a consumer")
    both_ways(play, "afterwards")
    k.heartbeat("afterwards")


def _upgrade_empty(play: Play) -> None:
    (k,) = classic_group(play)
    with play.quietly():
        k.leave()
    Consumer(play, "a", k.topics).join("a consumer")
    both_ways(play, "afterwards")


def _join(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    ClassicConsumer(play, "k", topics=[orders]).enter()
    both_ways(play, "afterwards")


def _join_empty(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.leave()
    ClassicConsumer(play, "k", topics=[orders]).enter()
    both_ways(play, "afterwards")


def _downgrade(play: Play) -> None:
    orders = known_topic(play)
    a, k = mixed(play, orders)
    a.leave()
    both_ways(play, "afterwards")
    k.heartbeat("afterwards")


WAYS: dict[str, Callable[[Play], None]] = {
    "upgrade": _upgrade,
    "upgrade_of_an_empty_one": _upgrade_empty,
    "classic_join": _join,
    "classic_join_of_an_empty_one": _join_empty,
    "downgrade": _downgrade,
}


@session(setup=CONSUMERS, way=WAYS)
def migration_where_both_ways_are_open(play: Play, way: str) -> None:
    WAYS[way](play)


@session(setup=UPGRADING, way=WAYS)
def migration_where_groups_are_upgraded(play: Play, way: str) -> None:
    WAYS[way](play)


@session(setup=DOWNGRADING, way=WAYS)
def migration_where_groups_are_downgraded(play: Play, way: str) -> None:
    WAYS[way](play)


@session(setup=NEITHER, way=[way for way in WAYS if way != "downgrade"])
def migration_where_no_way_is_open(play: Play, way: str) -> None:
    WAYS[way](play)
