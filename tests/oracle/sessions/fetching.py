"""Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.oracle.batches import TIME_MS, batch, fetch_request, produce_request
from tests.oracle.play import Play, Topic
from tests.oracle.session import session

VERSIONS = range(4, 19)
UNKNOWN = Topic("nowhere", b"\x01" * 16)


def fill(play: Play, topic: Topic, *counts: int, partition: int = 0, time_ms: int = TIME_MS) -> None:
    """Write batches of so many records each, one second apart; not recorded."""
    with play.quietly():
        for row, count in enumerate(counts):
            data = batch(count, value=b"0123456789", time_ms=time_ms + 1000 * row)
            answer = play.ask(produce_request((topic, partition, data)), 11, "p")
            assert answer.responses[0].partition_responses[0].error_code == 0


@session(version=VERSIONS)
def records_are_fetched(play: Play, version: int) -> None:
    orders, lines = play.topic(partitions=3), play.topic("lines")
    fill(play, orders, 3, 3, 3)
    for note, offset in (
        ("the first", 0),
        ("the middle of a batch", 4),
        ("the end", 9),
        ("past it", 10),
        ("-1", -1),
    ):
        play.ask(fetch_request((orders, 0, offset)), version, note=note)
    play.ask(fetch_request((UNKNOWN, 0, 0)), version, note="an unknown topic")
    play.ask(fetch_request((orders, 7, 0)), version, note="an unknown partition")
    play.ask(fetch_request((orders, 0, 0), (lines, 0, 0)), version, note="two topics")
    play.ask(fetch_request(), version, note="nothing")
    play.ask(fetch_request((orders, 0, 0), isolation_level=1), version, note="committed ones")
    play.ask(fetch_request(("", 0, 0)), version, note="a topic without name and id")


@session(version=(4, 7, 11, 12, 13, 17, 18))
def sizes_of_a_fetch(play: Play, version: int) -> None:
    orders = play.topic()
    fill(play, orders, 3, 3, 3)
    fill(play, orders, 3, 3, partition=1)
    both = ((orders, 0, 0), (orders, 1, 0))
    for size in (0, 1, 130, 250, 100_000):
        play.ask(fetch_request(both[0], partition_max_bytes=size), version, note=f"{size} bytes")
        play.ask(fetch_request(*both, max_bytes=size), version, note=f"{size} bytes in all")


@session(version=(4, 9, 13))
def fetches_that_wait(play: Play, version: int) -> None:
    orders = play.topic()
    fill(play, orders, 1)
    play.park(fetch_request((orders, 0, 1), wait_ms=20_000), version, "w", "at the end")
    fill(play, orders, 2)
    play.answer("w")
    play.ask(fetch_request((orders, 0, 3), wait_ms=0), version, note="no patience")
    play.ask(fetch_request((orders, 0, 3), wait_ms=5000, min_bytes=0), version, note="any number of bytes")
    play.ask(fetch_request((orders, 0, 0), wait_ms=200, min_bytes=1 << 30), version, note="too many bytes")
    play.ask(fetch_request((orders, 0, 9), wait_ms=20_000), version, note="an error is not waited for")
    play.park(fetch_request((orders, 0, 3), wait_ms=20_000, min_bytes=200), version, "w", "for many bytes")
    fill(play, orders, 1)
    play.still_waits("w")
    fill(play, orders, 8)
    play.answer("w")


@session(version=(9, 12, 15, 18))
def leader_epochs_of_a_fetch(play: Play, version: int) -> None:
    orders = play.topic()
    fill(play, orders, 3, 3)
    for epoch in (0, 3, -2):
        play.ask(fetch_request((orders, 0, 0), epochs=(epoch, -1)), version, note=f"leader epoch {epoch}")
    if version >= 12:
        for epoch, offset in ((0, 4), (5, 4), (0, 99)):
            request = fetch_request((orders, 0, offset), epochs=(-1, epoch))
            play.ask(request, version, note=f"offset {offset} after epoch {epoch}")


@session(version=range(7, 19))
def a_fetch_session(play: Play, version: int) -> None:
    orders, lines = play.topic(), play.topic("lines")
    fill(play, orders, 3, 3)
    first = fetch_request((orders, 0, 0), (lines, 0, 0), session=(0, 0))
    mine = play.ask(first, version, note="a new one").session_id
    for note, epoch, places, forgotten in (
        ("the same", 1, [], []),
        ("further on", 2, [(orders, 0, 6)], []),
        ("nothing new", 3, [], []),
        ("an epoch too far", 9, [], []),
        ("an epoch again", 3, [], []),
        ("one topic less", 4, [], [(lines, 0)]),
        ("one partition more", 5, [(orders, 1, 0)], []),
        ("past the end", 6, [(orders, 0, 55)], []),
        ("back", 7, [(orders, 0, 0)], []),
        ("an unknown partition more", 8, [(orders, 9, 0)], []),
    ):
        request = fetch_request(*places, session=(mine, epoch), forgotten=forgotten)
        play.ask(request, version, note=note)
    play.ask(fetch_request(session=(mine, -1)), version, note="it is closed")
    play.ask(fetch_request(session=(mine, 9)), version, note="and gone")


@session(version=(7, 12, 13, 18))
def fetch_sessions_that_are_not_there(play: Play, version: int) -> None:
    orders = play.topic()
    fill(play, orders, 1)
    play.ask(fetch_request(session=(123, 1)), version, note="an unknown one")
    play.ask(fetch_request((orders, 0, 0), session=(0, 3)), version, note="none, but an epoch")
    play.ask(fetch_request((orders, 0, 0), session=(77, -1)), version, note="an unknown one is closed")
    play.ask(fetch_request((orders, 0, 0), session=(77, 0)), version, note="an unknown one is begun")


def list_offsets(topic: Topic | str, *times_ms: int, **fields: int) -> ListOffsetsRequest:
    """One partition entry for each time."""
    name = topic if isinstance(topic, str) else topic.name
    isolation_level, index = fields.pop("isolation_level", 0), fields.pop("index", 0)
    asked = [ListOffsetsPartition(partition_index=index, timestamp=time_ms, **fields) for time_ms in times_ms]
    topics = [ListOffsetsTopic(name=name, partitions=asked)]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)


@session(version=range(12))
def offsets_are_listed(play: Play, version: int) -> None:
    orders = play.topic()
    fill(play, orders, 2, 3, 2)
    for time_ms in (
        -1,
        -2,
        -3,
        -4,
        -5,
        -6,
        -7,
        -100,
        0,
        TIME_MS,
        TIME_MS + 1,
        TIME_MS + 1001,
        TIME_MS + 9999,
    ):
        note = f"{time_ms - TIME_MS} ms later" if time_ms >= TIME_MS else f"time {time_ms}"
        play.ask(list_offsets(orders, time_ms), version, note=note)
        if version >= 1 and time_ms < TIME_MS:
            play.ask(list_offsets(orders, time_ms, index=1), version, note=f"{note} of an empty partition")
    play.ask(list_offsets(play.name("unknown"), -1), version, note="an unknown topic")
    play.ask(list_offsets("not a name!", -1), version, note="a strange topic")
    play.ask(list_offsets(orders, -1, index=8), version, note="an unknown partition")
    play.ask(ListOffsetsRequest(replica_id=-1, topics=[]), version, note="nothing")
    if version >= 1:
        play.ask(list_offsets(orders, -1, -2), version, note="a partition twice")
    if version >= 2:
        play.ask(list_offsets(orders, -1, isolation_level=1), version, note="committed ones")
    if version >= 4:
        for epoch in (0, 5):
            request = list_offsets(orders, -1, current_leader_epoch=epoch)
            play.ask(request, version, note=f"leader epoch {epoch}")


@session(version=range(5))
def ends_of_leader_epochs(play: Play, version: int) -> None:
    orders = play.topic()
    fill(play, orders, 3)
    replica = -1 if version >= 3 else -2
    for current, epoch in ((-1, 0), (-1, 1), (-1, -1), (0, 0), (5, 0), (-1, 5)):
        for name, partition in (
            (orders.name, 0),
            (orders.name, 1),
            (orders.name, 8),
            (play.name("unknown"), 0),
        ):
            asked = OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=current if version >= 2 else -1, leader_epoch=epoch
            )
            topic = OffsetForLeaderTopic(topic=name, partitions=[asked])
            request = OffsetForLeaderEpochRequest(replica_id=replica, topics=[topic])
            place = name.replace(play.suffix, "")
            play.ask(request, version, note=f"{place}-{partition}, epochs {current} and {epoch}")


@session(version=range(3))
def records_are_deleted(play: Play, version: int) -> None:
    orders = play.topic()
    fill(play, orders, 2, 2, 2)
    for note, name, partition, offset in (
        ("up to 2", orders.name, 0, 2),
        ("less than before", orders.name, 0, 1),
        ("the middle of a batch", orders.name, 0, 3),
        ("past the end", orders.name, 0, 99),
        ("-2", orders.name, 0, -2),
        ("of an unknown partition", orders.name, 7, 1),
        ("of an unknown topic", play.name("unknown"), 0, 1),
        ("of an empty partition", orders.name, 1, -1),
        ("of the offsets topic", "__consumer_offsets", 0, 0),
    ):
        entry = DeleteRecordsPartition(partition_index=partition, offset=offset)
        topics = [DeleteRecordsTopic(name=name, partitions=[entry])]
        play.ask(DeleteRecordsRequest(timeout_ms=5000, topics=topics), version, note=note)
    play.ask(fetch_request((orders, 0, 0)), 11, note="what is gone")
    play.ask(fetch_request((orders, 0, 3)), 11, note="what is left")
    for time_ms in (-1, -2, 0):
        play.ask(list_offsets(orders, time_ms), 7, note=f"time {time_ms}")
    entry = DeleteRecordsPartition(partition_index=0, offset=-1)
    topics = [DeleteRecordsTopic(name=orders.name, partitions=[entry])]
    play.ask(DeleteRecordsRequest(timeout_ms=5000, topics=topics), version, note="all")
    play.ask(list_offsets(orders, -2), 7)
