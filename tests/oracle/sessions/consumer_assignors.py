"""The assignments of the server-side assignors as members join and leave.

Kafka orders topics by a hash of their random ids. `in_order` creates topics whose ids sort like their names, so
that assignments are reproducible.
"""

import itertools
from collections.abc import Iterable, Mapping

from tests.oracle.answer import Plain
from tests.oracle.consumer import Consumer, group_of, known_topic, look, settle, stable, tell_group
from tests.oracle.peers import CONSUMERS, UPGRADING
from tests.oracle.play import Play, Topic
from tests.oracle.session import session
from tests.oracle.sessions.consumer_topics import delete, grow

BUCKETS = 16
"""Of a hash map of Java of up to twelve entries."""
SIZES = {"t1": 3, "t2": 5, "t3": 4}


def bucket(topic: Topic) -> int:
    """Where a hash map of Java has this topic's id."""
    both = int.from_bytes(topic.id[:8], "big") ^ int.from_bytes(topic.id[8:], "big")
    folded = (both ^ both >> 32) & 0xFFFF_FFFF
    return (folded ^ folded >> 16) & (BUCKETS - 1)


def in_order(play: Play, sizes: Mapping[str, int]) -> list[Topic]:
    """Create topics of these sizes that a Java hash map iterates in this order."""
    return [
        _topic_in(
            play, short, partitions, range(place * BUCKETS // len(sizes), (place + 1) * BUCKETS // len(sizes))
        )
        for place, (short, partitions) in enumerate(sizes.items())
    ]


def _topic_in(play: Play, short: str, partitions: int, buckets: range) -> Topic:
    while bucket(topic := known_topic(play, short, partitions=partitions)) not in buckets:
        delete(play, topic)
    return topic


def tell_targets(play: Play, note: str) -> None:
    """Record in short form the target of each member and the epochs."""
    group = group_of(play)
    targets: dict[str, Plain] = {
        each.member_id: {
            play.names.text(part.topic_name): " ".join(map(str, sorted(part.partitions)))
            for part in sorted(each.target_assignment.topic_partitions, key=lambda part: part.topic_name)
        }
        for each in sorted(group.members, key=lambda each: each.member_id)
    }
    epochs = [group.group_epoch, group.assignment_epoch]
    play.tell(
        note, {"state": group.group_state, "epochs": epochs, "assignor": group.assignor_name, **targets}
    )


def come(play: Play, members: Iterable[Consumer]) -> list[Consumer]:
    """Let members join one after the other, each after the previous ones are stable; record every target."""
    here: list[Consumer] = []
    for each in members:
        with play.quietly():
            each.join()
        here.append(each)
        settle(*here)
        tell_targets(play, f"{each.name} is there")
    return here


def go(play: Play, here: list[Consumer], *leaving: Consumer) -> None:
    """Let members leave one after the other; record every target."""
    for each in leaving:
        with play.quietly():
            each.leave()
        here.remove(each)
        if here:
            settle(*here)
        tell_targets(play, f"{each.name} is gone")


@session(setup=CONSUMERS, topics=(1, 2, 3), assignor=("uniform", "range"))
def five_consumers_come(play: Play, topics: int, assignor: str) -> None:
    read = in_order(play, dict(itertools.islice(SIZES.items(), topics)))
    come(play, [Consumer(play, name, read, assignor=assignor) for name in "abcde"])


@session(setup=CONSUMERS, topics=(1, 2, 3))
def five_consumers_come_at_once(play: Play, topics: int) -> None:
    read = in_order(play, dict(itertools.islice(SIZES.items(), topics)))
    members = [Consumer(play, name, read) for name in ("e", "dd", "ccc", "bbbb", "aaaaa")]
    stable(*members)
    tell_targets(play, "all")


@session(setup=CONSUMERS, order=["".join(names) for names in itertools.permutations("abc")])
def consumers_leave_in_this_order(play: Play, order: str) -> None:
    read = in_order(play, {"t1": 3, "t2": 5})
    members = {name: Consumer(play, name, read) for name in "abcd"}
    stable(*members.values())
    go(play, list(members.values()), *(members[name] for name in order), members["d"])


@session(setup=CONSUMERS)
def ranges_go_by_instances_first(play: Play) -> None:
    read = in_order(play, {"t1": 4, "t2": 7})
    instances = {"d": None, "a": "z", "c": None, "b": "y", "e": "x"}
    members = come(
        play,
        [Consumer(play, name, read, instance=each, assignor="range") for name, each in instances.items()],
    )
    go(play, members, members[3])


@session(setup=CONSUMERS, assignor=("uniform", "range"))
def consumers_of_different_topics(play: Play, assignor: str) -> None:
    one, two, three = in_order(play, SIZES)
    reads = {"a": [one, two], "b": [two, three], "c": [one, two, three], "d": [three]}
    members = come(play, [Consumer(play, name, read, assignor=assignor) for name, read in reads.items()])
    go(play, members, members[1], members[0])


@session(setup=CONSUMERS)
def consumers_of_the_same_after_different_topics(play: Play) -> None:
    one, two = in_order(play, {"t1": 5, "t2": 8})
    a, b, c = Consumer(play, "a", [one]), Consumer(play, "b", [one, two]), Consumer(play, "c", [two])
    members = come(play, [a, b, c])
    for each in (a, c):
        with play.quietly():
            each.subscribe(one, two)
        settle(*members)
        tell_targets(play, f"{each.name} reads both")
    with play.quietly():
        b.subscribe(two)
    settle(*members)
    tell_targets(play, "b reads one")


@session(setup=CONSUMERS)
def the_preferred_assignor_changes(play: Play) -> None:
    read = [known_topic(play, partitions=5)]
    a = Consumer(play, "a", read)
    stable(a)
    look(play, "no preference")
    a.heartbeat("range", server_assignor="range")
    look(play, "range")
    a.heartbeat("uniform", server_assignor="uniform")
    look(play, "uniform")
    a.heartbeat("nothing said of it")
    b = Consumer(play, "b", read, assignor="range")
    b.join("another wish")
    tell_targets(play, "another wish")
    a.leave()
    b.heartbeat()
    tell_targets(play, "only the other wish is left")


@session(setup=UPGRADING)
def the_first_assignor_is_the_one_without_a_wish(play: Play) -> None:
    a, b = (Consumer(play, name, [known_topic(play, name)]) for name in "ab")
    stable(a, b)
    look(play)
    a.heartbeat("uniform", server_assignor="uniform")
    look(play, "uniform")
    a.leave()
    b.heartbeat()
    look(play, "no wish is left")


@session(setup=CONSUMERS, first=("uniform", "range"))
def as_many_wish_one_assignor_as_the_other(play: Play, first: str) -> None:
    read = [known_topic(play, partitions=5)]
    second = "range" if first == "uniform" else "uniform"
    a, b = Consumer(play, "a", read, assignor=first), Consumer(play, "b", read, assignor=second)
    a.join()
    b.join()
    tell_targets(play, "a tie")
    for _ in range(4):
        for each in (a, b):
            each.confirm()
            tell_targets(play, f"after {each.name}")
    c = Consumer(play, "c", read, assignor=second)
    c.join("decides")
    tell_group(play, a, b, c)


@session(setup=CONSUMERS, assignor=("uniform", "range"))
def more_consumers_than_partitions(play: Play, assignor: str) -> None:
    read = [known_topic(play, partitions=2)]
    members = come(play, [Consumer(play, name, read, assignor=assignor) for name in "abcd"])
    go(play, members, members[0], members[1])


@session(setup=CONSUMERS)
def many_consumers_and_many_partitions(play: Play) -> None:
    read = [known_topic(play, partitions=50)]
    members = come(play, [Consumer(play, f"member {number}", read) for number in range(8)])
    go(play, members, members[2], members[5])


@session(setup=CONSUMERS)
def a_dozen_consumers_with_long_names(play: Play) -> None:
    read = in_order(play, {"t1": 17, "t2": 20})
    members = [Consumer(play, f"{number * 7919:012}-consumer", read) for number in range(12)]
    stable(*members)
    tell_targets(play, "all")
    go(play, members, members[3], members[7], members[0])


@session(setup=CONSUMERS, assignor=("uniform", "range"))
def a_topic_grows_below_three_consumers(play: Play, assignor: str) -> None:
    orders = known_topic(play, partitions=4)
    members = come(play, [Consumer(play, name, [orders], assignor=assignor) for name in "abc"])
    grow(play, orders, 11)
    play.until(lambda: members[0].confirm().member_epoch > 4)
    settle(*members)
    tell_targets(play, "grown")
