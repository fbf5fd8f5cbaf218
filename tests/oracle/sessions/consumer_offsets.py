"""Offsets of consumer groups: valid epochs for commit and fetch, deletion and expiration."""

from typing import Any

from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from tests.oracle.consumer import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Consumer,
    known_topic,
    look,
    mixed,
    settle,
    stable,
)
from tests.oracle.member import commit_request
from tests.oracle.offsets import delete_request, fetch_request
from tests.oracle.peers import ALONE, CONSUMERS, DOWNGRADING
from tests.oracle.play import Play, Topic
from tests.oracle.producer import transactional
from tests.oracle.session import session

SHORT_MS = 300


def left(play: Play, note: str = "what is left") -> None:
    """Tells the offsets of the group."""
    play.ask(fetch_request(play.group, 9), 9, note=note)


@session(setup=CONSUMERS, version=(2, 7, 8, 9, 10))
def a_consumer_commits(play: Play, version: int) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.commit({(orders, 0): 5}, version=version)
    a.commit({(orders, 0): 6}, "an older epoch", version=version, generation_id_or_member_epoch=1)
    left(play)


@session(setup=CONSUMERS, version=(9, 10))
def epochs_of_commits(play: Play, version: int) -> None:
    orders, lines = known_topic(play, partitions=4), known_topic(play, "lines", partitions=1)
    a, b = Consumer(play, "a", [orders, lines]), Consumer(play, "b", [orders])
    a.join()
    b.join()
    settle(a, b)
    mine, other = a.assigned, b.assigned[0].partitions
    last = next(part.partitions[0] for part in mine if part.topic_id == orders.id)
    for epoch in (a.epoch + 1, a.epoch, a.epoch - 1, 1, 0, LEAVE, LEAVE_FOR_A_WHILE):
        claims: dict[str, dict[tuple[Topic | str, int], int]] = {
            "its own": {(orders, last): epoch + 10},
            "the other's": {(orders, other[0]): epoch + 20},
            "both": {(orders, last): epoch + 30, (orders, other[0]): epoch + 30},
            "an unknown partition": {(orders, 77): 1},
        }
        for note, offsets in claims.items():
            a.commit(offsets, f"epoch {epoch}, {note}", version, generation_id_or_member_epoch=epoch)
    left(play)


@session(setup=CONSUMERS)
def commits_of_partitions_to_be_given_up(play: Play) -> None:
    orders = known_topic(play, partitions=4)
    a, b = Consumer(play, "a", [orders]), Consumer(play, "b", [orders])
    stable(a)
    b.join()
    a.heartbeat("has to give up")
    a.commit({(orders, 0): 1, (orders, 3): 1}, "in time")
    a.confirm("gave up")
    a.commit({(orders, 0): 2}, "of the epoch before, kept", generation_id_or_member_epoch=2)
    a.commit({(orders, 3): 2}, "of the epoch before, given up", generation_id_or_member_epoch=2)
    a.commit({(orders, 0): 3, (orders, 3): 3}, "of the epoch before, both", generation_id_or_member_epoch=2)
    a.commit({(orders, 3): 4}, "of this epoch, given up")
    b.commit({(orders, 3): 5}, "not received yet")
    b.heartbeat()
    b.commit({(orders, 3): 6}, "received")
    b.commit({(orders, 3): 7}, "before it was received", generation_id_or_member_epoch=2)
    left(play)


@session(setup=CONSUMERS)
def metadata_that_is_too_long(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.commit({(orders, 0): 1}, "of this epoch", metadata="x" * 5000)
    a.commit({(orders, 0): 1}, "of an older one", metadata="x" * 5000, generation_id_or_member_epoch=1)


@session(setup=CONSUMERS, version=(2, 8, 9, 10))
def commits_by_nobody(play: Play, version: int) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    offsets: dict[tuple[Topic | str, int], int] = {(orders, 0): 1}
    for state in ("no group", "with a member", "empty"):
        if state == "with a member":
            stable(a)
        elif state == "empty":
            with play.quietly():
                a.leave()
        for member, epoch in (("", -1), ("", 2), ("nobody", 2), ("nobody", -1), ("a", 2), ("a", -1)):
            request = commit_request(
                play.group, offsets, version, member_id=member, generation_id_or_member_epoch=epoch
            )
            play.ask(request, version, note=f"{state}, {member or 'no member'} at {epoch}")
            left(play)


@session(setup=CONSUMERS, version=(9, 10))
def who_may_fetch(play: Play, version: int) -> None:
    orders = known_topic(play)
    a, k = mixed(play, orders)
    a.commit({(orders, 0): 1})
    look(play)
    callers: tuple[tuple[str | None, int], ...] = (
        *((None, -1), (None, 0), (None, 3), ("", -1), ("", 3), ("nobody", -1), ("nobody", 3)),
        *(("a", a.epoch), ("a", a.epoch - 1), ("a", a.epoch + 1), ("a", -1), ("a", 0)),
        *((k.member_id, k.generation), (k.member_id, k.generation - 1), (k.member_id, -1)),
    )
    for number, (member, epoch) in enumerate(callers):
        asked = a.fetching(orders, version, member_id=member, member_epoch=epoch)
        note = f"{number}: {'no' if member is None else play.names.member(member)} member at {epoch}"
        play.ask(OffsetFetchRequest(groups=[asked]), version, note=note)
    everything = a.fetching(orders, version)
    everything.topics = None
    play.ask(OffsetFetchRequest(groups=[everything]), version, note="all")
    play.ask(OffsetFetchRequest(groups=[everything], require_stable=True), version, note="all, stable")
    with play.quietly():
        a.leave()
        k.leave()
    for member, epoch in ((None, -1), (None, 3), ("a", 3), ("", -1), ("", 3)):
        asked = a.fetching(orders, version, member_id=member, member_epoch=epoch)
        note = f"empty: {'no' if member is None else member} member at {epoch}"
        play.ask(OffsetFetchRequest(groups=[asked]), version, note=note)


@session(setup=CONSUMERS, version=(2, 6, 7, 8))
def older_fetches_of_a_consumer_group(play: Play, version: int) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.commit({(orders, 0): 1})
    play.ask(fetch_request(play.group, version, {orders: [0, 1]}), version)
    play.ask(fetch_request(play.group, version), version, note="all")


@session(setup=CONSUMERS, version=(2, 6, 7, 9))
def commits_of_a_classic_member(play: Play, version: int) -> None:
    orders = known_topic(play)
    _, k = mixed(play, orders)
    mine = k.owns[0].partitions[0]
    for note, epoch in (("now", 0), ("older", -1), ("newer", 1)):
        generation = k.generation + epoch
        fields: dict[str, Any] = {"version": version, "generation_id_or_member_epoch": generation}
        k.commit({(orders, mine): 1}, note, **fields)
        k.commit({(orders, 1 - mine): 1}, f"{note}, the other's", **fields)
    k.commit({(orders, mine): 1}, "by nobody", version=version, member_id="nobody")
    left(play)


@session(setup=CONSUMERS)
def offsets_of_consumers_are_deleted(play: Play) -> None:
    orders, lines, gone = (known_topic(play, name) for name in ("orders", "lines", "gone"))
    a = Consumer(play, "a", [orders, gone])
    stable(a)
    a.commit({(orders, 0): 1, (lines, 0): 2, (gone, 0): 3})
    asked: dict[Topic | str, list[int]] = {orders: [0, 1, 9], lines: [0], gone: [0], "nowhere": [0]}
    play.ask(delete_request(play.group, asked), 0, note="two topics are read")
    left(play)
    a.subscribe(orders)
    play.ask(delete_request(play.group, asked), 0, note="one is read")
    left(play)
    a.leave()
    play.ask(delete_request(play.group, asked), 0, note="none is read")
    left(play)
    look(play)


@session(setup=CONSUMERS, version=range(3))
def consumer_groups_are_deleted(play: Play, version: int) -> None:
    orders = known_topic(play, partitions=3)
    a, b = Consumer(play, "a", [orders], instance="i"), Consumer(play, "b", [orders])
    request = DeleteGroupsRequest(groups_names=[play.group, play.name("unknown")])
    a.join()
    a.commit({(orders, 0): 1})
    play.ask(request, version, note="Stable")
    b.join()
    a.heartbeat()
    play.ask(request, version, note="Reconciling")
    b.leave()
    a.leave("for a while", LEAVE_FOR_A_WHILE)
    play.ask(request, version, note="away")
    a.leave()
    look(play, "Empty")
    play.ask(request, version, note="Empty")
    look(play, "deleted")
    left(play)
    play.ask(request, version, note="deleted")


@session(setup=CONSUMERS)
def a_consumer_goes_on_after_its_group_is_deleted(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.commit({(orders, 0): 1})
    with play.quietly():
        a.heartbeat(member_epoch=LEAVE)
        play.ask(DeleteGroupsRequest(groups_names=[play.group]), 2)
    a.commit({(orders, 0): 2}, "as a member", generation_id_or_member_epoch=2)
    a.commit({(orders, 0): 2}, "by nobody", member_id="", generation_id_or_member_epoch=-1)
    look(play, "a simple group")
    play.describe(version=6, note="a simple group")
    a.heartbeat("as a member", member_epoch=2)
    a.join("a simple group becomes one of consumers")
    look(play, "at last")
    left(play)


@session(setup=DOWNGRADING, state=("read", "not_read", "empty"))
def offsets_of_a_consumer_group_expire(play: Play, state: str) -> None:
    orders, lines = known_topic(play), known_topic(play, "lines")
    a = Consumer(play, "a", [orders])
    offsets: dict[tuple[Topic | str, int], int] = {(orders, 0): 1, (lines, 0): 2}
    if state == "not_read":
        stable(a)
        a.subscribe(lines)
        a.heartbeat(owns={})
    with play.quietly():
        play.ask(commit_request(play.group, offsets, 4, retention_time_ms=SHORT_MS), 4)
    if state == "read":
        stable(a)
    elif state == "empty":
        stable(a)
        with play.quietly():
            a.leave()
    play.until(lambda: len(play.ask(fetch_request(play.group, 8), 8, "admin").groups[0].topics) < 2)
    left(play)
    look(play)


@session(setup=DOWNGRADING)
def an_empty_consumer_group_is_removed(play: Play) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    a.leave()
    play.until(lambda: look(play).groups[0].error_code != 0)
    look(play, "removed")
    a.heartbeat("too late", member_epoch=2)
    a.join("as the first")
    look(play, "at last")


@session(setup=ALONE, version=(4, 5, 6))
def transactional_offsets_of_consumers(play: Play, version: int) -> None:
    orders = known_topic(play)
    a = Consumer(play, "a", [orders])
    stable(a)
    producer = transactional(play)
    for member, epoch in (("", -1), ("a", 2), ("a", 1), ("a", 3), ("nobody", 2), ("", 2)):
        with play.quietly():
            producer.add_offsets()
        producer.commit_offsets(
            {(orders, 0): 1},
            f"{member or 'no member'} at {epoch}",
            version,
            member_id=member,
            generation_id_or_member_epoch=epoch,
        )
    with play.quietly():
        producer.end()
    a.commit({(orders, 1): 1}, "with another instance", group_instance_id="i")
    left(play)
