"""What is written of a consumer group, record by record."""

from protocol.messages.delete_groups import DeleteGroupsRequest
from tests.oracle.consumer import (
    LEAVE_FOR_A_WHILE,
    ClassicConsumer,
    Consumer,
    known_topic,
    mixed,
    settle,
    settle_all,
    stable,
)
from tests.oracle.peers import CONSUMERS
from tests.oracle.play import Play
from tests.oracle.session import session
from tests.oracle.sessions.consumer_migration import classic_group, the_topic
from tests.oracle.sessions.consumer_reconciliation import unrevoked
from tests.oracle.sessions.consumer_regex import of_all, resolved
from tests.oracle.written import tell_written


@session(setup=CONSUMERS, version=(0, 1))
def records_of_a_reconciliation(play: Play, version: int) -> None:
    orders = known_topic(play, partitions=3)
    a, b = (Consumer(play, name, [orders], version=version, member_id=None) for name in "ab")
    a.join()
    b.join()
    a.heartbeat("has to give up")
    b.heartbeat("waits")
    a.heartbeat("gave up", owns={orders: [0, 1]})
    b.heartbeat("has it")
    b.subscribe()
    settle(a, b)
    b.leave()
    a.heartbeat("has all")
    a.leave()
    tell_written(play)


@session(setup=CONSUMERS)
def records_of_an_owner_that_leaves(play: Play) -> None:
    orders, a, b = unrevoked(play)
    a.leave()
    settle(b)
    b.commit({(orders, 0): 5})
    tell_written(play)


@session(setup=CONSUMERS)
def records_of_a_static_member(play: Play) -> None:
    orders = known_topic(play, partitions=4)
    a, b = (Consumer(play, name, [orders], instance=f"i-{name}") for name in "ab")
    stable(a, b)
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    again = Consumer(play, "c", [orders], instance="i-a")
    again.join("comes back")
    again.leave("for a while", LEAVE_FOR_A_WHILE)
    other = Consumer(play, "d", [known_topic(play, "lines")], instance="i-a")
    other.join("comes back and reads other topics")
    settle(other, b)
    other.leave()
    settle(b)
    tell_written(play)


@session(setup=CONSUMERS)
def records_of_an_expression(play: Play) -> None:
    known_topic(play, "a1"), known_topic(play, "b")
    a, b = (Consumer(play, name, regex=of_all(play, "a.")) for name in "ab")
    resolved(play, a)
    b.join()
    settle(a, b)
    a.leave()
    settle(b)
    b.leave()
    tell_written(play)


@session(setup=CONSUMERS, members=(1, 3))
def records_of_an_upgrade(play: Play, members: int) -> None:
    group = classic_group(play, "klm"[:members])
    orders = the_topic(group[0])
    group[0].commit({(orders, 0): 5})
    a = Consumer(play, "a", [orders])
    a.join()
    settle_all(play, [a], group)
    tell_written(play)


@session(setup=CONSUMERS)
def records_of_an_upgrade_of_an_empty_group(play: Play) -> None:
    (k,) = classic_group(play)
    k.leave()
    play.until_state("Empty")
    a = Consumer(play, "a", [the_topic(k)])
    a.join()
    a.leave()
    tell_written(play)


@session(setup=CONSUMERS)
def records_of_a_downgrade(play: Play) -> None:
    orders = known_topic(play, partitions=4)
    a, k = mixed(play, orders)
    a.commit({(orders, 0): 5})
    a.leave("the last consumer")
    k.join("into a classic group")
    tell_written(play)


@session(setup=CONSUMERS)
def records_of_a_downgrade_by_a_replacement(play: Play) -> None:
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
    s.sync(note="in its place")
    tell_written(play)


@session(setup=CONSUMERS, kind=("consumers", "classic"))
def records_of_a_group_that_is_replaced_or_deleted(play: Play, kind: str) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.commit({(orders, 0): 5})
    a.leave()
    if kind == "classic":
        k = ClassicConsumer(play, "k", topics=[orders], part={orders: [0, 1]})
        k.enter()
        k.sync()
    else:
        play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)
    tell_written(play)
