"""Descriptions and configs of consumer groups for operators, and their state after a restart."""

from collections.abc import Callable

from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from tests.oracle.consumer import (
    LEAVE_FOR_A_WHILE,
    Consumer,
    group_of,
    known_topic,
    look,
    mixed,
    settle,
    stable,
    tell_group,
)
from tests.oracle.member import Member, commit_request
from tests.oracle.member import stable as stable_classic
from tests.oracle.offsets import fetch_request
from tests.oracle.peers import ALONE, CONSUMERS
from tests.oracle.play import Play
from tests.oracle.session import session
from tests.oracle.sessions.configs import DELETE, GROUP, SET, alter, describe, replace
from tests.oracle.sessions.consumer_reconciliation import short_sessions
from tests.oracle.sessions.consumer_regex import of_all, resolved

STATES = (
    "Stable", "stable", "RECONCILING", "Assigning", " Empty ", "Dead", "bogus", "", "NotReady", "not_ready",
    "PreparingRebalance",
)  # fmt: skip
TYPES = ("consumer", "Consumer", "classic", "share", "streams", "bogus", "")


def groups_of_every_kind(play: Play) -> list[str]:
    """A group of consumers in each state, one of both protocols, two classic ones and a simple one."""
    orders = known_topic(play)
    kinds = ("stable", "reconciling", "empty", "mixed", "classic", "connect", "simple", "consumer-nothing")
    names = dict(zip(kinds, map(play.name, kinds), strict=True))
    with play.quietly():
        stable(Consumer(play, "a", [orders], group=names["stable"]))
        b, c = (Consumer(play, name, [orders], group=names["reconciling"]) for name in "bc")
        stable(b)
        c.join()
        d = Consumer(play, "d", [orders], group=names["empty"])
        d.join()
        d.leave()
        Consumer(play, "e", [], group=names["consumer-nothing"]).join()
        e = Consumer(play, "e", [orders], group=names["mixed"])
        e.join()
        stable_classic(Member(play, "k", group=names["classic"]))
        stable_classic(Member(play, "w", group=names["connect"], protocol_type="connect"))
        play.ask(commit_request(names["simple"], {(orders, 0): 1}), 9)
    return [*names.values()]


@session(setup=CONSUMERS, version=(0, 1))
def consumer_groups_are_described(play: Play, version: int) -> None:
    names = groups_of_every_kind(play)
    for name in names:
        look(play, name.replace(play.suffix, ""), version, name)
    unknown = play.name("unknown")
    for note, asked in (
        ("unknown ones", [unknown, "", unknown]),
        ("none", []),
        ("twice", [names[0], names[0]]),
    ):
        request = ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=False)
        play.ask(request, version, note=note)
    everything = ConsumerGroupDescribeRequest(group_ids=[*names, unknown], include_authorized_operations=True)
    play.ask(everything, version, note="all, with operations")


@session(setup=CONSUMERS, version=(0, 1))
def a_group_of_both_protocols_is_described(play: Play, version: int) -> None:
    orders = known_topic(play)
    mixed(play, orders)
    look(play, version=version)
    play.describe(version=6)


@session(setup=CONSUMERS, version=(0, 3, 4, 5))
def groups_of_every_type_are_listed(play: Play, version: int) -> None:
    groups_of_every_kind(play)
    play.ask(ListGroupsRequest(), version, own=True)
    if version >= 4:
        for state in STATES:
            play.ask(ListGroupsRequest(states_filter=[state]), version, note=f"state '{state}'", own=True)
    if version >= 5:
        for kind in TYPES:
            play.ask(ListGroupsRequest(types_filter=[kind]), version, note=f"type '{kind}'", own=True)
        both = ListGroupsRequest(states_filter=["Empty", "Stable"], types_filter=["consumer", "share"])
        play.ask(both, version, note="states and types", own=True)


@session(setup=CONSUMERS, version=(0, 5, 6))
def groups_of_every_type_are_described_as_classic(play: Play, version: int) -> None:
    names = groups_of_every_kind(play)
    play.ask(DescribeGroupsRequest(groups=[*names, play.name("unknown")]), version)


@session(setup=CONSUMERS)
def groups_of_every_type_are_deleted(play: Play) -> None:
    names = groups_of_every_kind(play)
    play.ask(DeleteGroupsRequest(groups_names=[*names, play.name("unknown"), ""]), 2)
    play.ask(ListGroupsRequest(), 5, note="what is left", own=True)


SESSION, HEARTBEAT, INTERVAL = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
)
CHANGES: dict[str, list[tuple[str, int, str | None]]] = {
    "an unknown config": [("consumer.x", SET, "1")],
    "a config of another kind": [("retention.ms", SET, "1")],
    "no number": [(SESSION, SET, "abc")],
    "no value": [(SESSION, SET, None)],
    "an empty value": [(SESSION, SET, "")],
    "too short a session": [(SESSION, SET, "999")],
    "too long a session": [(SESSION, SET, "60001")],
    "a session of no time": [(SESSION, SET, "0")],
    "a session as short as a heartbeat": [(SESSION, SET, "5000")],
    "too short a heartbeat": [(HEARTBEAT, SET, "499")],
    "too long a heartbeat": [(HEARTBEAT, SET, "15001")],
    "too long an interval": [(INTERVAL, SET, "15001")],
    "a negative interval": [(INTERVAL, SET, "-1")],
    "a heartbeat as long as a session": [(SESSION, SET, "6000"), (HEARTBEAT, SET, "6000")],
    "a session": [(SESSION, SET, "30000")],
    "all three": [(SESSION, SET, "20000"), (HEARTBEAT, SET, "4000"), (INTERVAL, SET, "100")],
    "a config is removed": [(INTERVAL, DELETE, None)],
    "a config that is not there is removed": [(INTERVAL, DELETE, None)],
    "a config twice": [(SESSION, SET, "20000"), (SESSION, SET, "30000")],
    "a good one and a bad one": [(SESSION, SET, "25000"), ("consumer.x", SET, "1")],
}
ASKED = [SESSION, HEARTBEAT, INTERVAL, "consumer.x"]


@session(setup=CONSUMERS, version=(0, 1))
def configs_of_a_group_are_altered(play: Play, version: int) -> None:
    for note, changes in CHANGES.items():
        checked = alter(*changes, name=play.group, kind=GROUP, validate_only=True)
        play.ask(checked, version, note=f"{note}, validated")
        play.ask(alter(*changes, name=play.group, kind=GROUP), version, note=note)
    play.until(lambda: _described(play, INTERVAL) == ["0"] and _described(play) == ["20000", "4000"])
    play.ask(describe((GROUP, play.group, ASKED), synonyms=True), 4)
    play.ask(alter((SESSION, SET, "20000"), name="", kind=GROUP), version, note="of no group")


def _described(play: Play, *names: str) -> list[str]:
    answer = play.ask(describe((GROUP, play.group, [*(names or (SESSION, HEARTBEAT))])), 4, "admin")
    return [
        each.value for each in sorted(answer.results[0].configs, key=lambda each: each.name, reverse=True)
    ]


@session(setup=CONSUMERS, version=(1, 4))
def configs_of_a_group_are_described(play: Play, version: int) -> None:
    play.ask(describe((GROUP, play.group, ASKED), synonyms=True), version, note="nothing was set")
    play.ask(describe((GROUP, "", ASKED)), version, note="of no group")
    play.ask(describe((GROUP, play.group, [])), version, note="of no config")
    play.ask(describe((GROUP, play.group, ["nothing"])), version, note="of an unknown config")


@session(setup=CONSUMERS, version=(0, 2))
def configs_of_a_group_are_replaced(play: Play, version: int) -> None:
    play.ask(replace((SESSION, "20000"), (HEARTBEAT, "4000"), name=play.group, kind=GROUP), version)
    play.until(lambda: _described(play) == ["20000", "4000"])
    play.ask(replace((HEARTBEAT, "3000"), name=play.group, kind=GROUP), version, note="one only")
    play.until(lambda: _described(play) == ["45000", "3000"])
    play.ask(replace((HEARTBEAT, "1"), name=play.group, kind=GROUP), version, note="too short")
    play.ask(replace(name=play.group, kind=GROUP), version, note="none")
    play.until(lambda: _described(play) == ["45000", "5000"])
    play.ask(describe((GROUP, play.group, ASKED), synonyms=True), 4)


@session(setup=CONSUMERS)
def configs_of_a_group_act_on_the_next_heartbeat(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    a.join()
    with play.quietly():
        play.ask(short_sessions(play), 1, "admin")
    play.until(lambda: a.heartbeat().heartbeat_interval_ms == 600)
    a.full("more often now")
    a.leave("leaves")
    a.join("they outlive the members")
    with play.quietly():
        play.ask(
            alter((SESSION, DELETE, None), (HEARTBEAT, DELETE, None), name=play.group, kind=GROUP), 1, "admin"
        )
    play.until(lambda: a.join().heartbeat_interval_ms == 5000)
    a.full("as others")


@session(setup=CONSUMERS)
def an_interval_of_a_group(play: Play) -> None:
    orders = known_topic(play, partitions=4)
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    long = alter((INTERVAL, SET, "15000"), (HEARTBEAT, SET, "4000"), name=play.group, kind=GROUP)
    play.ask(long, 1, "admin", "a long interval")
    play.until(lambda: a.join().heartbeat_interval_ms == 4000 and a.epoch == 2)
    b.join("within the interval")
    a.heartbeat()
    look(play, "no target yet")
    short = alter((INTERVAL, SET, "0"), (HEARTBEAT, SET, "5000"), name=play.group, kind=GROUP)
    play.ask(short, 1, "admin", "no interval")
    play.until(lambda: b.heartbeat().heartbeat_interval_ms == 5000)
    look(play, "a target")
    tell_group(play, a, b, note="settled")


def _stable(play: Play) -> list[Consumer]:
    orders = known_topic(play, partitions=3)
    members = [Consumer(play, name, [orders]) for name in "ab"]
    stable(*members)
    members[0].commit({(orders, 0): 5})
    return members


def _unrevoked(play: Play) -> list[Consumer]:
    orders = known_topic(play, partitions=3)
    members = [Consumer(play, name, [orders]) for name in "ab"]
    stable(members[0])
    with play.quietly():
        members[1].join()
        members[0].heartbeat()
        members[1].heartbeat()
    return members


def _away(play: Play) -> list[Consumer]:
    orders = known_topic(play, partitions=3)
    members = [Consumer(play, name, [orders], instance=f"i-{name}") for name in "ab"]
    stable(*members)
    with play.quietly():
        members[0].leave("for a while", LEAVE_FOR_A_WHILE)
    return members


def _expression(play: Play) -> list[Consumer]:
    known_topic(play, "a1")
    members = [Consumer(play, name, regex=of_all(play, "a.")) for name in "ab"]
    resolved(play, *members)
    return members


def _empty(play: Play) -> list[Consumer]:
    members = _stable(play)
    with play.quietly():
        for each in members:
            each.leave()
    return members


def _nothing_read(play: Play) -> list[Consumer]:
    members = [Consumer(play, name, []) for name in "ab"]
    with play.quietly():
        for each in members:
            each.join()
    return members


RESTARTED: dict[str, Callable[[Play], list[Consumer]]] = {
    "stable": _stable,
    "unrevoked": _unrevoked,
    "away": _away,
    "expression": _expression,
    "empty": _empty,
    "nothing_read": _nothing_read,
}


@session(setup=ALONE, state=RESTARTED)
def consumer_groups_outlive_a_restart(play: Play, state: str) -> None:
    members = RESTARTED[state](play)
    look(play, "before")
    play.restart()
    look(play, "after")
    play.ask(fetch_request(play.group, 9), 9)
    for each in members:
        each.heartbeat("goes on")
    look(play, "goes on")
    again = [each for each in members if state != "empty" and each.epoch >= 0]
    if again:
        settle(*again)
    look(play, "settled")


@session(setup=ALONE)
def a_group_of_both_protocols_outlives_a_restart(play: Play) -> None:
    orders = known_topic(play, partitions=4)
    a, k = mixed(play, orders)
    play.restart()
    look(play, "after")
    k.heartbeat("goes on")
    k.sync(note="goes on")
    a.heartbeat("goes on")
    a.leave("the last consumer")
    play.describe(note="downgraded")
    play.restart()
    play.describe(note="after the second restart")
    assert group_of(play)


@session(setup=ALONE)
def configs_of_a_group_outlive_a_restart(play: Play) -> None:
    with play.quietly():
        play.ask(short_sessions(play), 1, "admin")
    play.until(lambda: _described(play) == ["1000", "600"])
    play.restart()
    play.ask(describe((GROUP, play.group, ASKED), synonyms=True), 4)
    Consumer(play, "a", []).join()
