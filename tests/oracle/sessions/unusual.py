"""Unusual requests: contradictions, repetitions, values with additional bytes, timeouts of zero."""

import struct
from typing import Any

from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from storage.batch import encode_batch
from storage.record import Record
from tests.oracle.batches import TIME_MS, batch, fetch_request, patched, produce_request
from tests.oracle.member import Member, commit_request, stable
from tests.oracle.offsets import fetch_request as offsets_request
from tests.oracle.play import Play, Topic
from tests.oracle.session import session
from tests.oracle.sessions.configs import SET, TOPIC, alter, describe
from tests.oracle.sessions.fetching import fill
from tests.oracle.sessions.frames import FLEXIBLE, HEARTBEAT, NO_TAGS, framed, header, heartbeat, shoot
from tests.oracle.sessions.topics import topic

NOWHERE = Topic("nowhere", b"\x01" * 16)
SHOWN_BYTES = 40


def as_appended(data: bytes, codec: int = 0) -> bytes:
    """The batch, which claims to have the time of its append."""
    return patched(data, 21, struct.pack(">h", 8 | codec))


@session(version=(3, 8, 13))
def batches_that_claim_the_time_of_the_append(play: Play, version: int) -> None:
    orders, recent = play.topic(), play.topic("recent", message_timestamp_before_max_ms="1000")
    stamped = play.topic("stamped", message_timestamp_type="LogAppendTime")
    untimed = [Record(row, -1, b"k", b"v") for row in range(3)]
    for note, data in (
        ("with times", as_appended(batch(3))),
        ("compressed", as_appended(batch(3, codec=1), 1)),
        ("without a time", as_appended(encode_batch(untimed))),
        ("the header says a later time", as_appended(patched(batch(3), 35, struct.pack(">q", TIME_MS * 2)))),
    ):
        for to, where in (
            ("a topic", orders),
            ("one that takes no old ones", recent),
            ("one that stamps", stamped),
        ):
            play.ask(produce_request((where, 0, data)), version, note=f"{note}, to {to}")
    compacted = play.topic("compacted", cleanup_policy="compact", message_timestamp_type="LogAppendTime")
    records = [Record(0, TIME_MS, None, b"v"), Record(1, TIME_MS, b"k", b"v")]
    keyless = as_appended(encode_batch(records))
    play.ask(produce_request((compacted, 0, keyless)), version, note="nor a key")
    play.ask(fetch_request((orders, 0, 0)), 11, note="what is there")
    play.ask(fetch_request((stamped, 0, 0)), 11, note="what is stamped")


@session(version=(7, 12, 13, 18))
def a_fetch_session_that_forgets_all_it_has(play: Play, version: int) -> None:
    orders, lines = play.topic(), play.topic("lines")
    fill(play, orders, 3, 3)
    fill(play, lines, 2)
    only, other = (orders, 0, 3), (lines, 0, 0)
    for note, places in (("adds it again", [only]), ("adds nothing", []), ("adds another", [other])):
        mine = play.ask(fetch_request((orders, 0, 0), session=(0, 0)), version, note="a new one").session_id
        request = fetch_request(*places, session=(mine, 1), forgotten=[(orders, 0)])
        play.ask(request, version, note=f"it forgets its only partition and {note}")
        play.ask(fetch_request(session=(mine, 2)), version, note="and goes on")
    mine = play.ask(fetch_request((orders, 0, 0), session=(0, 0)), version, note="a new one").session_id
    request = fetch_request(only, other, session=(mine, 1), forgotten=[(orders, 0), (lines, 0)])
    play.ask(request, version, note="two come and go")


@session(
    ballots=(
        "range sticky",
        "sticky range",
        "roundrobin range",
        "cooperative-sticky range sticky",
        "p@ p9 p8 p7 p6 p5 p4 p3 p2 p1 pA pB",
        "p@ p9 p8 p7 p6 p5 p4 p3 p2 p1 pA pB pC",
    )
)
def a_vote_that_ties(play: Play, ballots: str) -> None:
    """Names that share no slot of a hash map: which of those comes first hangs on the members' random ids."""
    names = ballots.split()
    members = []
    for letter, name in zip("abcdefghijklm", names, strict=False):
        others = [other for other in names if other != name]
        members.append(Member(play, letter, protocols=(name, *others)))
    stable(*members)
    play.describe()


@session(version=range(2, 11))
def commits_that_name_a_topic_twice(play: Play, version: int) -> None:
    orders = play.topic()
    nowhere: Topic | str = NOWHERE if version >= 10 else NOWHERE.name
    for note, places in (
        ("one that is not there", [(nowhere, 0), (nowhere, 1)]),
        ("one that is not there, and one that is", [(nowhere, 0), (orders, 0), (nowhere, 1)]),
        ("one that is, with a partition that is not", [(orders, 0), (orders, 9), (orders, 1)]),
        ("one that is, with none that is", [(orders, 8), (orders, 9)]),
        ("both", [(orders, 0), (nowhere, 0), (orders, 9), (nowhere, 1), (orders, 1)]),
        ("a partition twice, which is not there", [(orders, 9), (orders, 9)]),
    ):
        request = commit_request(play.group, {}, version)
        for place in places:
            request.topics += commit_request(play.group, {place: 1}, version).topics
        play.ask(request, version, note=note)
    play.ask(offsets_request(play.group, 9), 9)


PADDED = (
    ("retention.ms", " 7000 "), ("retention.ms", "+7001"), ("retention.ms", "007002"), ("retention.ms", "\t7003"),
    ("preallocate", "TRUE"), ("preallocate", " true "), ("min.cleanable.dirty.ratio", " .25 "),
    ("min.cleanable.dirty.ratio", "0.750"), ("min.cleanable.dirty.ratio", "2.5e-1"),
    ("min.cleanable.dirty.ratio", "1"), ("min.cleanable.dirty.ratio", "1e-4"),
    ("cleanup.policy", " compact , delete "), ("cleanup.policy", " compact"), ("compression.type", " gzip"),
    ("message.timestamp.type", "CreateTime "), ("segment.index.bytes", " 4096"),
    ("max.compaction.lag.ms", " 9223372036854775807"), ("segment.bytes", " 1048576 "),
    ("leader.replication.throttled.replicas", " 0:1 , 1:1 "),
)  # fmt: skip


@session(version=(1, 4))
def values_with_something_around_them(play: Play, version: int) -> None:
    orders = play.topic()
    for row, (name, value) in enumerate(PADDED):
        play.ask(alter((name, SET, value), name=orders.name), 1, note=f"{name}={value!r}")
        with play.quietly():
            mark = ("file.delete.delay.ms", SET, str(row))
            play.ask(alter(mark, name=orders.name), 1, "admin")
            play.until(lambda row=row: _delay(play, orders) == str(row))  # type: ignore[misc]
        play.ask(describe((TOPIC, orders.name, [name]), synonyms=True), version, note=f"{name}={value!r}")


def _delay(play: Play, topic: Topic) -> str:
    seen = describe((TOPIC, topic.name, ["file.delete.delay.ms"]))
    return str(play.ask(seen, 4, "admin").results[0].configs[0].value)


@session(version=(1, 4, 7))
def topics_are_made_in_no_time(play: Play, version: int) -> None:
    for timeout_ms in (0, -1, -(2**31)):
        name = play.name(f"t{timeout_ms}")
        for note, topics, validate_only in (
            ("validated", [topic(name)], True),
            ("one", [topic(name)], False),
            ("one that cannot be", [topic("not a name!")], False),
            ("one that is there", [topic("__consumer_offsets")], False),
            ("none", [], False),
            ("two", [topic(name + "a"), topic(name + "b", 0)], False),
            ("a name twice", [topic(name + "c"), topic(name + "c"), topic(name + "d")], False),
        ):
            request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
            play.ask(request, version, note=f"{note}, {timeout_ms} ms")


@session(version=(1, 4, 6))
def topics_are_deleted_in_no_time(play: Play, version: int) -> None:
    orders, lines = play.topic(), play.topic("lines")
    for timeout_ms in (0, -1):
        for note, names in (
            ("one", [orders.name]),
            ("one that is not there", [play.name("nowhere")]),
            ("none", []),
            ("two", [lines.name, play.name("nowhere")]),
            ("a name twice", [lines.name, lines.name, orders.name]),
        ):
            states = [DeleteTopicState(name=name, topic_id=bytes(16)) for name in names]
            asked: dict[str, Any] = {"topics": states} if version >= 6 else {"topic_names": names}
            request = DeleteTopicsRequest(timeout_ms=timeout_ms, **asked)
            play.ask(request, version, note=f"{note}, {timeout_ms} ms")
    if version >= 6:
        states = [DeleteTopicState(name=None, topic_id=orders.id)]
        play.ask(DeleteTopicsRequest(topics=states, timeout_ms=0), version, note="one by its id, 0 ms")


@session(version=(0, 2))
def topics_grow_in_no_time(play: Play, version: int) -> None:
    orders = play.topic()
    for timeout_ms in (0, -1):
        for note, name, count in (
            ("one", orders.name, 5),
            ("one that is not there", play.name("nowhere"), 2),
            ("one to less", orders.name, 1),
        ):
            asked = [CreatePartitionsTopic(name=name, count=count)]
            request = CreatePartitionsRequest(topics=asked, timeout_ms=timeout_ms, validate_only=False)
            play.ask(request, version, note=f"{note}, {timeout_ms} ms")


@session(length=(-1, -2, -32_768))
def lengths_below_null(play: Play, length: int) -> None:
    short, long = struct.pack(">h", length), struct.pack(">i", length)
    null, group = struct.pack(">h", -1), struct.pack(">h", 1) + b"g"
    member = group + struct.pack(">i", 1) + struct.pack(">h", 1) + b"m"
    offset = struct.pack(">ih", 1, 1) + b"t" + struct.pack(">iiqi", 1, 0, 5, -1)
    join = (
        group + struct.pack(">ih", 10_000, 0) + struct.pack(">h", 1) + b"c" + struct.pack(">ih", 1, 1) + b"r"
    )
    batches = struct.pack(">hi", 1, 1000) + struct.pack(">ih", 1, 1) + b"t" + struct.pack(">ii", 1, 0)
    for note, content in (
        ("the client id", struct.pack(">hhi", HEARTBEAT, 0, 7) + short + heartbeat()),
        ("an instance id", header(HEARTBEAT, 3) + member + short),
        ("the text of a commit", header(8, 7) + member + null + offset + short),
        ("the topics of an OffsetFetch", header(9, 2) + group + long),
        ("the groups of a DescribeGroups", header(15, 0) + long),
        ("the metadata of a JoinGroup", header(11, 0) + join + long),
        ("the records of a Produce", header(0, 3) + null + batches + long),
        ("the transaction of a Produce", header(0, 3) + short + struct.pack(">hii", 1, 1000, 0)),
    ):
        shoot(play, note, framed(content), SHOWN_BYTES)


@session()
def tags_that_come_again(play: Play) -> None:
    start = header(HEARTBEAT, 4, tags=NO_TAGS) + FLEXIBLE
    fetch = header(1, 12, tags=NO_TAGS) + struct.pack(">iiiibii", -1, 0, 0, 1 << 20, 0, 0, -1) + b"\1\1\1"
    twice, descending = b"\2\x07\x01a\x07\x01b", b"\2\x07\x01a\x05\x01b"
    for note, content in (
        ("an unknown tag twice", start + twice),
        ("unknown tags in another order", start + descending),
        ("in the header, twice", header(HEARTBEAT, 4, tags=twice) + FLEXIBLE + NO_TAGS),
        ("in the header, in another order", header(HEARTBEAT, 4, tags=descending) + FLEXIBLE + NO_TAGS),
        ("a known tag", fetch + b"\1" + b"\0\2\2x"),
        ("a known tag twice", fetch + b"\2" + b"\0\2\2x" + b"\0\2\2y"),
        ("a known tag behind an unknown one", fetch + b"\2" + b"\x09\x01a" + b"\0\2\2x"),
        ("a known tag that says another size", fetch + b"\1" + b"\0\3\2x"),
        ("a known tag that is too long", fetch + b"\1" + b"\0\3\2xz"),
    ):
        shoot(play, note, framed(content), SHOWN_BYTES)
