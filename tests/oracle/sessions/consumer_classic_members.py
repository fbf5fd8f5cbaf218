"""Members of a consumer group that speak the classic protocol."""

from typing import Any

from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.oracle.consumer import ClassicConsumer, Consumer, known_topic, look, mixed, stable, tell_group
from tests.oracle.peers import CONSUMERS, NEITHER
from tests.oracle.play import Play, Topic
from tests.oracle.session import session


def until_gone(play: Play, classic: ClassicConsumer) -> None:
    """Waits until the coordinator knows the member no more."""
    play.until(lambda: classic.member_id not in _members(play))


def _members(play: Play) -> list[str]:
    with play.quietly():
        return [each.member_id for each in look(play).groups[0].members]


def alone(play: Play, partitions: int = 2) -> tuple[Topic, Consumer]:
    """A consumer that has every partition of a topic."""
    orders = known_topic(play, partitions=partitions)
    a = Consumer(play, "a", [orders])
    stable(a)
    return orders, a


@session(setup=CONSUMERS, version=(0, 1, 3, 4, 5, 9))
def a_classic_member_joins_consumers(play: Play, version: int) -> None:
    orders, a = alone(play)
    k = ClassicConsumer(play, "k", topics=[orders], versions={"join": version, "sync": min(version, 5)})
    k.join()
    if version >= 4:
        look(play, "promised an id")
        k.join("with the id")
    look(play, "joined")
    a.heartbeat("has to give up")
    k.heartbeat("joined")
    k.sync(note="nothing yet")
    look(play, "waits")
    a.confirm("gave up")
    k.heartbeat("there is something")
    k.join("again")
    k.sync(note="has its part")
    k.heartbeat("settled")
    a.heartbeat()
    look(play, "settled")
    play.describe(version=6)


@session(setup=CONSUMERS, version=(3, 9))
def an_unknown_classic_member_joins_consumers(play: Play, version: int) -> None:
    orders, _ = alone(play)
    k = ClassicConsumer(play, "k", topics=[orders], member_id="made-up")
    k.join("an id that it made up", version=version)
    look(play, "joined")
    s = ClassicConsumer(play, "s", topics=[orders], instance="i", versions={"join": max(version, 5)})
    s.join("a static one with such an id", member_id="another")
    s.join("a static one")
    look(play, "a static one joined")


JOINS: dict[str, dict[str, Any]] = {
    "another_type": {"protocol_type": "connect"},
    "no_type": {"protocol_type": ""},
    "no_protocols": {"offered": ()},
    "another_protocol": {"offered": ("roundrobin",)},
    "bytes_that_are_no_subscription": {"metadata": b"\0\1\0"},
    "no_bytes": {"metadata": b""},
    "a_newer_version": {"metadata": b"\x00\x63\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00"},
    "a_negative_version": {"metadata": b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff"},
    "a_short_session": {"session_timeout_ms": 1},
    "a_long_session": {"session_timeout_ms": 100_000_000},
    "no_group": {"group_id": ""},
}


@session(setup=CONSUMERS, version=(3, 9), what=JOINS)
def classic_joins_that_are_wrong(play: Play, version: int, what: str) -> None:
    orders, a = alone(play)
    k = ClassicConsumer(play, "k", topics=[orders])
    k.join("to an upgraded group", version=version, **{"member_id": "nobody", **JOINS[what]})
    other = ClassicConsumer(play, "o", topics=[orders])
    with play.quietly():
        other.enter()
    k.join("with another classic member", version=version, **{"member_id": "nobody", **JOINS[what]})
    other.join("of a member", version=version, **JOINS[what])
    a.heartbeat()
    look(play, "afterwards")


CALLS: dict[str, dict[str, Any]] = {
    "now": {},
    "older": {"generation_id": -1},
    "newer": {"generation_id": 77},
    "an unknown member": {"member_id": "nobody"},
    "no member": {"member_id": ""},
    "an unknown instance": {"group_instance_id": "i"},
    "another's id": {"member_id": "a"},
}


@session(setup=CONSUMERS)
def calls_of_classic_members(play: Play) -> None:
    orders = known_topic(play)
    _, k = mixed(play, orders)
    for note, fields in CALLS.items():
        k.heartbeat(note, **fields)
        k.sync(note=note, **fields)
    k.sync(note="another type", protocol_type="connect")
    k.sync(note="another protocol", protocol_name="roundrobin")
    k.sync(note="neither", protocol_type=None, protocol_name=None)
    k.sync(note="with assignments", version=5, assignments=[])
    for version in (0, 1, 2, 3, 4):
        k.sync(note="older versions", version=version)
        k.heartbeat("older versions", version=version)
    look(play, "afterwards")


@session(setup=CONSUMERS)
def classic_members_of_an_instance(play: Play) -> None:
    orders, a = alone(play)
    k = ClassicConsumer(play, "k", topics=[orders], instance="i")
    k.join()
    k.join("again, with its id")
    k.join("again, without", member_id="")
    first = k.member_id
    k.heartbeat("the id before", member_id="nobody")
    k.heartbeat("another instance", group_instance_id="j")
    k.sync(note="another instance", group_instance_id="j")
    k.leave("an unknown id", member_id="nobody")
    c = Consumer(play, "c", [orders], instance="i")
    c.join("the other protocol takes over")
    look(play, "taken over")
    k.heartbeat("replaced", member_id=first)
    k.member_id = ""
    k.join("takes it back")
    look(play, "taken back")
    c.heartbeat("replaced")
    a.heartbeat()
    k.leave("by its instance", member_id="")
    look(play, "left")


@session(setup=CONSUMERS)
def a_classic_member_gives_up_in_two_rounds(play: Play) -> None:
    orders = known_topic(play, partitions=6)
    a, k = mixed(play, orders)
    c = Consumer(play, "c", [orders])
    c.join("a third")
    k.heartbeat("shall join again")
    k.join("first round")
    k.heartbeat("before it synced")
    k.sync(note="first round")
    look(play, "first round")
    c.heartbeat("waits")
    k.heartbeat("shall join again")
    k.join("second round")
    k.sync(note="second round")
    k.heartbeat("settled")
    a.confirm()
    look(play, "second round")
    tell_group(play, a, c, note="settled")


@session(setup=CONSUMERS)
def a_classic_member_reads_something_else(play: Play) -> None:
    orders = known_topic(play)
    lines = known_topic(play, "lines", partitions=1)
    a, k = mixed(play, orders)
    k.topics = [lines]
    k.join("another topic")
    k.sync(note="what is left")
    look(play, "another topic")
    k.heartbeat()
    k.join("gave up")
    k.sync(note="its part")
    a.heartbeat()
    look(play, "settled")


@session(setup=CONSUMERS)
def a_classic_member_that_does_not_join_again(play: Play) -> None:
    orders, a = alone(play)
    k = ClassicConsumer(play, "k", topics=[orders], rebalance_ms=800, versions={"join": 3})
    k.join()
    k.sync()
    a.heartbeat("has to give up")
    a.confirm("gave up")
    k.heartbeat("shall join again")
    k.heartbeat("and still")
    until_gone(play, k)
    look(play, "fenced")
    k.heartbeat("too late")


@session(setup=CONSUMERS)
def a_classic_member_that_does_not_sync(play: Play) -> None:
    orders, a = alone(play)
    k = ClassicConsumer(play, "k", topics=[orders], rebalance_ms=800, versions={"join": 3})
    k.join()
    until_gone(play, k)
    look(play, "fenced")
    a.heartbeat()


@session(setup=CONSUMERS)
def a_session_of_a_classic_member_expires(play: Play) -> None:
    orders, a = alone(play)
    k = ClassicConsumer(play, "k", topics=[orders], session_ms=500, versions={"join": 3})
    k.join()
    k.sync()
    until_gone(play, k)
    look(play, "expired")
    a.heartbeat()


@session(setup=CONSUMERS, version=(0, 2, 3, 5))
def members_of_both_protocols_leave_the_classic_way(play: Play, version: int) -> None:
    orders = known_topic(play)
    a, k = mixed(play, orders)
    b = Consumer(play, "b", [orders])
    with play.quietly():
        b.join()
    if version >= 3:
        strangers = [
            MemberIdentity(member_id="nobody"),
            MemberIdentity(member_id="", group_instance_id="i"),
            MemberIdentity(member_id="a", group_instance_id="i"),
        ]
        play.ask(LeaveGroupRequest(group_id=play.group, members=strangers), version, "x", "strangers")
        both = [MemberIdentity(member_id="b"), MemberIdentity(member_id=k.member_id)]
        play.ask(LeaveGroupRequest(group_id=play.group, members=both), version, "x", "one of each")
    else:
        k.leave("an unknown member", version=version, member_id="nobody")
        k.leave("the classic one", version=version)
        k.leave("of the other protocol", version=version, member_id="b")
    look(play, "left")
    b.heartbeat("too late")
    a.heartbeat()
    a.heartbeat("and again")
    look(play, "settled")


@session(setup=CONSUMERS)
def a_classic_member_speaks_the_newer_protocol(play: Play) -> None:
    orders = known_topic(play)
    _, k = mixed(play, orders)
    as_consumer = Consumer(play, "n", [orders], member_id=k.member_id)
    as_consumer.heartbeat("with its generation", member_epoch=k.generation)
    look(play, "of the newer protocol now")
    k.heartbeat("the old way")
    as_consumer.join("joins")
    look(play, "joined")


@session(setup=CONSUMERS)
def classic_calls_of_a_consumer(play: Play) -> None:
    orders, a = alone(play)
    k = ClassicConsumer(play, "k", topics=[orders], member_id="a", generation=2)
    k.heartbeat("of the newer protocol")
    k.sync(note="of the newer protocol")
    k.join("of the newer protocol")
    look(play, "joined")
    a.heartbeat("goes on")
    look(play, "afterwards")


@session(setup=NEITHER)
def a_classic_member_joins_a_full_group(play: Play) -> None:
    orders = known_topic(play)
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    stable(a, b)
    k = ClassicConsumer(play, "k", topics=[orders])
    k.join("policy first", version=3)
    k.join("policy first", version=9)
    a.leave()
    k.join("room", version=3)
    look(play)


@session(setup=CONSUMERS, metadata=(0, 1, 2, 3))
def subscriptions_of_each_version(play: Play, metadata: int) -> None:
    orders = known_topic(play)
    b = Consumer(play, "b", [])
    with play.quietly():
        b.join()
    k = ClassicConsumer(play, "k", topics=[orders], metadata_version=metadata, versions={"join": 3})
    k.join()
    k.sync(note="in its version")
    k.heartbeat()
    k.join("with what it owns")
    k.sync()
    look(play)
