"""OffsetCommit and OffsetFetch: valid committers, stored fields, and every form of fetch."""

from typing import Any

from protocol.messages.offset_commit import OffsetCommitRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest
from tests.oracle.member import Member, commit_request, stable
from tests.oracle.offsets import fetch_request, group_request
from tests.oracle.play import Play, Topic
from tests.oracle.session import session

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)


def simple(play: Play, offsets: Any, version: int = 9, note: str = "", **fields: Any) -> None:
    """A commit by no member."""
    group = fields.pop("group_id", play.group)
    play.ask(commit_request(group, offsets, version, **fields), version, note=note)


@session(version=(0, 1))
def commits_of_the_oldest_clients(play: Play, version: int) -> None:
    orders = play.topic()
    simple(play, {(orders, 0): 5, (orders, 9): 1, ("nowhere", 0): 1}, version)
    play.ask(fetch_request(play.group, 1, {orders: [0, 1, 9]}), 1)
    play.describe()
    if version == 1:
        simple(play, {(orders, 0): 6}, version, "a generation", generation_id_or_member_epoch=3)
        simple(play, {(orders, 0): 7}, version, "a member", member_id="nobody")
        request = commit_request(play.group, {(orders, 1): 8}, 1)
        request.topics[0].partitions[0].commit_timestamp = 1_700_000_000_000
        play.ask(request, 1, note="with a time")
        play.ask(fetch_request(play.group, 1, {orders: [0, 1]}), 1)


@session()
def fetches_of_the_oldest_clients(play: Play) -> None:
    orders = play.topic()
    simple(play, {(orders, 0): 5}, 2)
    play.ask(fetch_request(play.group, 0, {orders: [0, 1, 9], "nowhere": [0]}), 0)


@session(version=COMMIT_VERSIONS)
def commits_without_a_group(play: Play, version: int) -> None:
    orders = play.topic()
    offsets: dict[tuple[Topic | str, int], int] = {(orders, 0): 5}
    simple(play, offsets, version, "a generation", generation_id_or_member_epoch=3, member_id="m")
    simple(play, offsets, version, "generation 0", generation_id_or_member_epoch=0)
    play.describe(note="still nothing")
    simple(play, offsets, version, "no generation, some member", member_id="m")
    play.describe()
    simple(play, {(orders, 0): 6, (orders, 1): 7, (orders, 5): 8}, version)
    simple(play, {(orders, 0): 6}, version, "no group id", group_id="")
    play.ask(fetch_request(play.group, 9), 9)
    play.ask(fetch_request("", 9, {orders: [0]}), 9)


@session(version=COMMIT_VERSIONS)
def commits_of_little(play: Play, version: int) -> None:
    orders = play.topic()
    simple(play, {}, version, "no topics")
    play.describe()
    request = commit_request(play.group, {(orders, 0): 1}, version)
    request.topics[0].partitions = []
    play.ask(request, version, note="no partitions")
    play.describe()
    request = commit_request(play.group, {(orders, 0): 1, (orders, 1): 2}, version)
    request.topics[0].partitions.append(request.topics[0].partitions[0])
    play.ask(request, version, note="a partition twice")
    request = commit_request(play.group, {(orders, 0): 3}, version)
    request.topics += commit_request(play.group, {(orders, 1): 4}, version).topics
    play.ask(request, version, note="a topic twice")
    play.ask(fetch_request(play.group, 9), 9)


@session(version=COMMIT_VERSIONS)
def commits_to_topics_that_are_not_there(play: Play, version: int) -> None:
    orders = play.topic()
    stranger = {"member_id": "nobody", "generation_id_or_member_epoch": 1}
    if version < 10:
        for name in ("nowhere", "", "not a name!", "__consumer_offsets"):
            simple(play, {(name, 0): 1}, version, f"topic '{name}'")
        simple(play, {("nowhere", 0): 1, (orders, 0): 1}, version, "and one that is")
        simple(play, {("nowhere", 0): 1}, version, "by a stranger", **stranger)
        simple(
            play, {("nowhere", 0): 1, (orders, 0): 1}, version, "and one that is, by a stranger", **stranger
        )
    else:
        unknown, nothing = Topic("", b"\x01" * 16), Topic("", bytes(16))
        for note, topic in (("unknown", unknown), ("zero", nothing)):
            simple(play, {(topic, 0): 1}, version, f"an id that is {note}")
        request = commit_request(play.group, {(orders, 0): 1}, version)
        request.topics.insert(0, OffsetCommitRequestTopic(topic_id=unknown.id, partitions=[]))
        play.ask(request, version, note="an unknown id without partitions, and one that is")
        simple(play, {(unknown, 0): 1}, version, "by a stranger", **stranger)
    play.describe()
    play.ask(fetch_request(play.group, 9), 9)


@session(version=COMMIT_VERSIONS)
def values_that_are_committed(play: Play, version: int) -> None:
    orders = play.topic(partitions=8)
    for partition, (offset, metadata) in enumerate(
        [
            (0, ""),
            (2**62, "note"),
            (-7, "negative"),
            (5, None),
            (6, "x" * 4096),
            (7, "x" * 4097),
            (8, "é" * 4096),
        ]
    ):
        simple(play, {(orders, partition): offset}, version, f"partition {partition}", metadata=metadata)
    simple(play, {(orders, 7): 1}, version, "two letters for each sign", metadata="\U0001f600" * 2049)
    if version >= 6:
        request = commit_request(play.group, {(orders, 0): 9}, version)
        request.topics[0].partitions[0].committed_leader_epoch = 3
        play.ask(request, version, note="with a leader epoch")
    if version < 5:
        simple(play, {(orders, 1): 1}, version, "to be kept for long", retention_time_ms=10**9)
        simple(play, {(orders, 1): 2}, version, "to be kept for no time", retention_time_ms=-5)
    play.ask(fetch_request(play.group, 9, {orders: list(range(8))}), 9)


@session(version=COMMIT_VERSIONS)
def commits_of_members(play: Play, version: int) -> None:
    orders = play.topic()
    a, b = Member(play, "a", versions={"commit": version}), Member(play, "b", versions={"commit": version})
    stable(a, b)
    a.commit({(orders, 0): 5})
    b.commit({(orders, 0): 3}, "less than before")
    b.commit({(orders, 1): 3}, "another generation", generation_id_or_member_epoch=1)
    b.commit({(orders, 1): 3}, "no generation", generation_id_or_member_epoch=-1)
    b.commit({(orders, 1): 3}, "no member", member_id="")
    simple(play, {(orders, 1): 3}, version, "neither")
    b.begin_join(protocols=["range:other"])
    a.commit({(orders, 1): 6}, "while the group rebalances")
    a.join()
    b.joined()
    a.commit({(orders, 1): 7}, "before the leader syncs")
    a.commit({(orders, 1): 7}, "with the generation of before", generation_id_or_member_epoch=2)
    a.sync(b)
    a.commit({(orders, 1): 8}, "after it")
    a.leave()
    a.commit({(orders, 1): 9}, "it has left")
    play.ask(fetch_request(play.group, 9, {orders: [0, 1]}), 9)


@session(version=(7, 8, 9, 10))
def commits_of_static_members(play: Play, version: int) -> None:
    orders = play.topic()
    a = Member(play, "a", instance="ia", versions={"commit": version})
    a.join()
    a.sync()
    a.commit({(orders, 0): 1})
    a.commit({(orders, 0): 2}, "without its instance", group_instance_id=None)
    a.commit({(orders, 0): 3}, "of another instance", group_instance_id="ib")
    a.commit({(orders, 0): 4}, "of another member", member_id="nobody")
    a.commit({(orders, 0): 5}, "of no member", member_id="")
    simple(play, {(orders, 0): 6}, version, "only an instance", group_instance_id="ia")
    play.ask(fetch_request(play.group, 9), 9)


@session(version=FETCH_VERSIONS)
def every_way_to_ask_for_offsets(play: Play, version: int) -> None:
    orders, lines = play.topic(partitions=3), play.topic("lines")
    simple(play, {(orders, 0): 5, (orders, 2): 7, (lines, 1): 9})
    play.ask(fetch_request(play.group, version, {orders: [0, 1, 2, 7], lines: [1]}), version)
    play.ask(fetch_request(play.group, version, {orders: [0, 0]}), version, note="a partition twice")
    play.ask(fetch_request(play.group, version, {orders: []}), version, note="no partitions")
    play.ask(fetch_request(play.group, version, {}), version, note="no topics")
    play.ask(fetch_request(play.name("h"), version, {orders: [0]}), version, note="an unknown group")
    play.ask(fetch_request("", version, {orders: [0]}), version, note="no group id")
    if version < 10:
        play.ask(
            fetch_request(play.group, version, {"nowhere": [0], orders: [0]}), version, note="no such topic"
        )
    if version >= 2:
        play.ask(fetch_request(play.group, version), version, note="all")
        play.ask(fetch_request(play.name("h"), version), version, note="all of an unknown group")
    if version >= 7:
        request = fetch_request(play.group, version, {orders: [0, 1]}, require_stable=True)
        play.ask(request, version, note="stable ones")


@session(version=(8, 9, 10))
def offsets_of_many_groups(play: Play, version: int) -> None:
    orders = play.topic()
    groups = [play.name(name) for name in "ghi"]
    for number, group in enumerate(groups):
        simple(play, {(orders, 0): number}, group_id=group)
    requests = [
        group_request(groups[0], {orders: [0, 1]}, version),
        group_request(groups[1], None, version),
        group_request(play.name("unknown"), {orders: [0]}, version),
        group_request(groups[2], {}, version),
    ]
    play.ask(OffsetFetchRequest(groups=requests), version)
    twice = [group_request(groups[0], None, version), group_request(groups[0], {orders: [0]}, version)]
    play.ask(OffsetFetchRequest(groups=twice), version, note="a group twice")
    play.ask(OffsetFetchRequest(groups=[]), version, note="no groups")
    if version >= 9:
        strange = [group_request(groups[0], None, version, member_id="nobody", member_epoch=7)]
        play.ask(OffsetFetchRequest(groups=strange), version, note="by a member that is none")


@session()
def offsets_by_topic_ids(play: Play) -> None:
    orders, unknown, nothing = play.topic(), Topic("", b"\x01" * 16), Topic("", bytes(16))
    simple(play, {(orders, 0): 1}, 10)
    for note, topic in (("known", orders), ("unknown", unknown), ("zero", nothing)):
        play.ask(fetch_request(play.group, 10, {topic: [0]}), 10, note=note)
    play.ask(fetch_request(play.group, 10, {unknown: [0, 1], orders: [0]}), 10, note="two")
    play.ask(fetch_request(play.group, 10), 10, note="all")


@session()
def a_commit_to_many_partitions(play: Play) -> None:
    orders = play.topic(partitions=40)
    offsets: dict[tuple[Topic | str, int], int] = {(orders, partition): partition for partition in range(40)}
    simple(play, offsets)
    simple(play, offsets, note="long notes", metadata="x" * 4000)
    play.ask(fetch_request(play.group, 9, {orders: [0, 39, 40]}), 9)


@session()
def a_commit_that_no_log_takes(play: Play) -> None:
    orders = play.topic(partitions=300)
    offsets: dict[tuple[Topic | str, int], int] = {(orders, partition): partition for partition in range(300)}
    simple(play, offsets, note="1.2 MB", metadata="x" * 4000)
    play.ask(fetch_request(play.group, 9, {orders: [0, 299]}), 9)
    play.describe()


@session()
def a_group_that_no_log_takes(play: Play) -> None:
    a = Member(play, "a", versions={"join": 3}, protocols=("range:" + "m" * 700_000,))
    a.enter()
    a.sync(note="700 kB", assignments=[])
    b = Member(play, "b", versions={"join": 3}, protocols=("range:" + "m" * 700_000,))
    b.begin_join()
    with play.quietly():
        a.join()
        b.joined()
    b.begin_sync()
    a.sync(note="1.4 MB")
    b.synced()
    a.heartbeat()
