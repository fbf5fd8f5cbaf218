"""ConsumerGroupHeartbeat: membership, and every rejected heartbeat."""

from typing import Any

from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.oracle.consumer import (
    JOIN,
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Consumer,
    known_topic,
    look,
    owned,
    settle,
    stable,
)
from tests.oracle.peers import CONSUMERS, NEITHER
from tests.oracle.play import Play
from tests.oracle.session import session


@session(setup=CONSUMERS, version=(0, 1))
def a_first_consumer_joins(play: Play, version: int) -> None:
    orders = known_topic(play, partitions=3)
    a = Consumer(play, "a", [orders], version=version)
    a.join()
    look(play, version=version)
    a.heartbeat()
    a.confirm()
    a.full()
    play.describe(note="as a classic group", version=6)


@session(setup=CONSUMERS)
def a_consumer_without_an_id(play: Play) -> None:
    orders = known_topic(play, partitions=3)
    a = Consumer(play, "a", [orders], version=0, member_id="")
    a.join("by the oldest client")
    a.heartbeat()
    look(play)
    nobody = Consumer(play, "b", [orders], member_id="")
    nobody.join("by the newest client")
    for version in (0, 1):
        for epoch in (1, LEAVE, LEAVE_FOR_A_WHILE):
            nobody.heartbeat(f"epoch {epoch}", version=version, member_epoch=epoch)
            nobody.heartbeat(f"epoch {epoch}, static", version=version, member_epoch=epoch, instance_id="i")
    look(play, "afterwards")


@session(setup=CONSUMERS, version=(0, 1))
def a_consumer_that_reads_nothing(play: Play, version: int) -> None:
    a = Consumer(play, "a", [], version=version)
    a.join()
    look(play)
    a.heartbeat()
    a.full()
    a.leave()
    look(play, "left")


@session(setup=CONSUMERS, version=(0, 1))
def a_consumer_of_an_unknown_topic(play: Play, version: int) -> None:
    a = Consumer(play, "a", [play.name("unknown")], version=version)
    a.join()
    look(play)
    a.heartbeat()
    b = Consumer(play, "b", [play.name("unknown"), known_topic(play)], version=version)
    b.join()
    look(play, "with one that exists")
    settle(a, b)
    look(play, "settled")


REFUSED: dict[str, dict[str, Any]] = {
    "no_member_at_one": {"member_id": "", "member_epoch": 1},
    "a_blank_member": {"member_id": " \t"},
    "no_group": {"group_id": ""},
    "a_blank_group": {"group_id": "  "},
    "no_instance": {"instance_id": ""},
    "a_blank_instance": {"instance_id": " "},
    "no_rack": {"rack_id": ""},
    "a_blank_rack": {"rack_id": " "},
    "no_rebalance_timeout": {"rebalance_timeout_ms": -1},
    "a_rebalance_timeout_of_zero": {"rebalance_timeout_ms": 0},
    "a_negative_rebalance_timeout": {"rebalance_timeout_ms": -2},
    "nothing_said_of_partitions": {"topic_partitions": None},
    "some_partitions": {"topic_partitions": [(bytes(15) + b"\1", [0])]},
    "no_subscription": {"subscribed_topic_names": None},
    "an_empty_topic_name": {"subscribed_topic_names": [""]},
    "a_strange_topic_name": {"subscribed_topic_names": ["no topic!", "no topic!"]},
    "leaves_for_a_while_as_nobody": {"member_epoch": LEAVE_FOR_A_WHILE},
    "a_strange_epoch": {"member_epoch": -3},
    "the_lowest_epoch": {"member_epoch": -(2**31)},
    "an_unknown_assignor": {"server_assignor": "sticky"},
    "no_assignor": {"server_assignor": ""},
    "an_assignor_in_capitals": {"server_assignor": "UNIFORM"},
}


@session(setup=CONSUMERS, version=(0, 1), what=REFUSED)
def heartbeats_that_are_wrong(play: Play, version: int, what: str) -> None:
    orders = known_topic(play)
    wrong = dict(REFUSED[what])
    if wrong.get("topic_partitions"):
        wrong["topic_partitions"] = owned({orders: [0]})
    a = Consumer(play, "a", [orders], version=version)
    a.join("to join", **wrong)
    look(play)
    b = Consumer(play, "b", [orders], version=version)
    with play.quietly():
        b.join()
        b.heartbeat()
    b.heartbeat("of a member", **wrong)
    look(play, "afterwards")


@session(setup=CONSUMERS)
def what_is_wrong_is_told_in_order(play: Play) -> None:
    faults: list[dict[str, Any]] = [
        {"server_assignor": "sticky"},
        {"subscribed_topic_names": None},
        {"topic_partitions": None},
        {"rebalance_timeout_ms": -1},
        {"rack_id": " "},
        {"instance_id": " "},
        {"group_id": " "},
        {"member_id": " "},
    ]
    wrong: dict[str, Any] = {}
    a = Consumer(play, "a", ["orders"])
    for fault in faults:
        wrong |= fault
        a.join(f"and {next(iter(fault))}", **wrong)


@session(setup=CONSUMERS)
def a_regular_expression_is_for_the_newest_version(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a")
    a.join("no subscription")
    a.join("an empty one", subscribed_topic_regex="")
    b = Consumer(play, "b", [orders])
    b.join("both", subscribed_topic_regex="")
    look(play)


@session(setup=CONSUMERS)
def a_consumer_joins_twice(play: Play) -> None:
    orders = known_topic(play, partitions=3)
    a = Consumer(play, "a", [orders])
    a.join()
    a.join("again")
    look(play)
    a.heartbeat()
    a.join("at another address", by="b")
    a.join("other topics", subscribed_topic_names=[orders.name, "another"])
    look(play, "afterwards")


@session(setup=CONSUMERS)
def epochs_of_a_consumer(play: Play) -> None:
    orders, lines = known_topic(play, partitions=4), known_topic(play, "lines")
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    stable(a, b)
    now = a.epoch
    part = list(a.assigned[0].partitions)
    claims: dict[str, Any] = {
        "nothing said": None,
        "nothing": [],
        "its own": owned({orders: part}),
        "a part": owned({orders: part[:1]}),
        "the other's": owned({orders: list(b.assigned[0].partitions)}),
        "another topic's": owned({lines: [0]}),
    }
    for epoch in (now, now - 1, now - 2, now + 1, 2**31 - 1):
        for claim, partitions in claims.items():
            note = f"epoch {epoch - now:+} owns {claim}" if epoch < 100 else f"the last epoch owns {claim}"
            a.heartbeat(note, member_epoch=epoch, topic_partitions=partitions)
            a.epoch = now
    look(play)
    a.heartbeat("epoch 0 without the rest", member_epoch=JOIN)
    a.full("epoch 0 with partitions", member_epoch=JOIN)
    a.join()
    look(play, "afterwards")


@session(setup=CONSUMERS, version=(0, 1))
def strangers_to_a_consumer_group(play: Play, version: int) -> None:
    orders = known_topic(play)
    stranger = Consumer(play, "x", [orders], version=version)
    for epoch in (1, LEAVE, LEAVE_FOR_A_WHILE):
        stranger.heartbeat(f"epoch {epoch}, no group", member_epoch=epoch)
        stranger.heartbeat(f"epoch {epoch}, no group, static", member_epoch=epoch, instance_id="i")
    a = Consumer(play, "a", [orders], version=version)
    a.join()
    for epoch in (1, 2, 3, LEAVE, LEAVE_FOR_A_WHILE):
        stranger.heartbeat(f"epoch {epoch}", member_epoch=epoch)
        stranger.heartbeat(f"epoch {epoch}, static", member_epoch=epoch, instance_id="i")
    a.heartbeat("a member, now static", instance_id="i")
    look(play)


@session(setup=CONSUMERS, version=(0, 1))
def a_consumer_leaves(play: Play, version: int) -> None:
    orders = known_topic(play, partitions=3)
    a, b = (Consumer(play, name, [orders], version=version) for name in "ab")
    stable(a, b)
    a.leave()
    look(play)
    a.leave("again")
    a.heartbeat("too late", member_epoch=3)
    b.heartbeat()
    look(play, "the other has all")
    b.leave("the last")
    look(play, "empty")
    play.describe(version=6, note="empty")
    a.heartbeat("of an empty group", member_epoch=3)
    a.join("as the first again")
    look(play, "at last")


@session(setup=NEITHER, version=(0, 1))
def a_full_consumer_group(play: Play, version: int) -> None:
    orders = known_topic(play, partitions=3)
    a, b, c = (Consumer(play, name, [orders], version=version) for name in "abc")
    stable(a, b)
    c.join("a third")
    c.heartbeat("a stranger", member_epoch=5)
    c.heartbeat("a stranger leaves", member_epoch=LEAVE)
    c.join("a static third", instance_id="i")
    c.heartbeat("a static stranger", member_epoch=5, instance_id="i")
    a.join("a member again")
    b.leave()
    c.join("in place of another")
    settle(a, c)
    look(play)


@session(setup=NEITHER)
def a_full_group_of_static_consumers(play: Play) -> None:
    orders = known_topic(play, partitions=3)
    a, b = (Consumer(play, name, [orders], instance=f"i-{name}") for name in "ab")
    stable(a, b)
    Consumer(play, "c", [orders], instance="i-b").join("in place of one that is there")
    b.leave(member_epoch=LEAVE_FOR_A_WHILE)
    Consumer(play, "d", [orders], instance="i-d").join("somebody else")
    Consumer(play, "e", [orders], instance="i-b").join("in place of one that left")
    look(play)


@session(setup=CONSUMERS)
def a_consumer_at_another_address(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    look(play)
    a.heartbeat("another client id", by="b")
    look(play, "another client id")


@session(setup=CONSUMERS)
def a_consumer_in_another_rack(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders], rack="r1")
    stable(a)
    look(play)
    a.heartbeat("another rack", rack_id="r2")
    look(play, "another rack")
    a.heartbeat("nothing said of it")
    look(play, "still there")


@session(setup=CONSUMERS, version=(0, 1))
def a_heartbeat_with_nothing_in_it(play: Play, version: int) -> None:
    play.ask(ConsumerGroupHeartbeatRequest(group_id="", member_id="", member_epoch=0), version)
    play.ask(ConsumerGroupHeartbeatRequest(group_id=play.group, member_id="a", member_epoch=0), version)
