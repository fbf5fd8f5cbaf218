"""Produce: accepted and rejected batches, and idempotent producers."""

import struct
import time

from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.batch import encode_batch
from storage.record import Record
from tests.oracle.batches import TIME_MS, batch, fetch_request, old_message, patched, produce_request
from tests.oracle.play import Play, Topic
from tests.oracle.session import session

VERSIONS = range(3, 14)
UNKNOWN = Topic("nowhere", b"\x01" * 16)
DAY_MS = 86_400_000


@session(version=VERSIONS)
def records_are_taken(play: Play, version: int) -> None:
    orders = play.topic()
    play.ask(produce_request((orders, 0, batch())), version)
    play.ask(produce_request((orders, 0, batch(3)), (orders, 1, batch())), version, note="two partitions")
    play.ask(produce_request((orders, 0, batch()), acks=1), version, note="acks 1")
    for codec in (1, 2, 3, 4):
        play.ask(produce_request((orders, 1, batch(5, codec=codec))), version, note=f"codec {codec}")
    play.ask(produce_request((orders, 1, batch(base_offset=77, leader_epoch=9))), version, note="any offset")
    play.ask(produce_request(), version, note="nothing")
    play.ask(fetch_request((orders, 0, 0)), 11, note="what is there")


@session(version=VERSIONS)
def partitions_that_take_nothing(play: Play, version: int) -> None:
    orders = play.topic()
    play.ask(produce_request((UNKNOWN, 0, batch())), version, note="an unknown topic")
    play.ask(produce_request((orders, 9, batch())), version, note="an unknown partition")
    play.ask(produce_request((orders, -1, batch())), version, note="a negative partition")
    mixed = produce_request((orders, 0, batch()), (UNKNOWN, 0, batch()))
    play.ask(mixed, version, note="and one that is there")
    play.ask(produce_request((orders, 0, batch()), acks=2), version, note="acks 2")
    play.ask(produce_request((orders, 0, batch()), acks=-2), version, note="acks -2")
    if version < 13:
        play.ask(produce_request(("__consumer_offsets", 0, batch())), version, note="the offsets topic")
        play.ask(produce_request(("", 0, batch())), version, note="no name")
    else:
        play.ask(produce_request(("", 0, batch())), version, note="the id zero")


@session(version=(0, 1, 2))
def versions_that_are_only_said_to_be_there(play: Play, version: int) -> None:
    play.ask(produce_request((play.topic(), 0, batch())), version)


BROKEN = {
    "a bad checksum": batch()[:-1] + b"w",
    "a message of format 0": old_message(0),
    "a message of format 1": old_message(1),
    "format 3": patched(batch(), 16, b"\3"),
    "no bytes": b"",
    "three bytes": b"abc",
    "zeros": bytes(70),
    "a batch without its end": batch(3)[:-5],
    "two batches": batch() + batch(),
    "too many records": patched(batch(2), 57, struct.pack(">i", 7)),
    "too large an offset range": patched(batch(2), 23, struct.pack(">i", 7)),
    "no records": patched(batch(), 57, struct.pack(">i", 0)),
    "a control batch": batch(is_control=True),
    "a batch of a transaction": batch(
        is_transactional=True, producer_id=5, producer_epoch=0, base_sequence=0
    ),
    "the time of the append": patched(batch(), 21, struct.pack(">h", 8)),
    "a negative time": batch(time_ms=-1),
    "a time before all times": batch(time_ms=-2),
    "a producer without an epoch": batch(producer_id=5),
}


@session(version=(3, 7, 8, 9, 13))
def batches_that_are_broken(play: Play, version: int) -> None:
    orders = play.topic()
    for note, data in BROKEN.items():
        play.ask(produce_request((orders, 0, data)), version, note=note)
    play.ask(fetch_request((orders, 0, 0)), 11, note="what is there")


@session(version=(3, 8, 13))
def batches_that_a_topic_does_not_take(play: Play, version: int) -> None:
    compacted = play.topic("compacted", cleanup_policy="compact")
    play.ask(produce_request((compacted, 0, batch(key=None))), version, note="without a key")
    play.ask(produce_request((compacted, 0, batch())), version, note="with a key")
    records = [Record(0, TIME_MS, b"k", b"v"), Record(1, TIME_MS, None, b"v"), Record(2, TIME_MS, None, b"w")]
    play.ask(produce_request((compacted, 0, encode_batch(records))), version, note="one of three with a key")
    small = play.topic("small", max_message_bytes="200")
    play.ask(produce_request((small, 0, batch(value=b"v" * 400))), version, note="too large")
    play.ask(produce_request((small, 0, batch(value=b"v" * 20))), version, note="not too large")
    recent = play.topic("recent", message_timestamp_before_max_ms="1000")
    play.ask(produce_request((recent, 0, batch())), version, note="too old")
    play.ask(produce_request((recent, 0, batch(time_ms=TIME_MS * 2))), version, note="from the future")
    stamped = play.topic("stamped", message_timestamp_type="LogAppendTime")
    play.ask(produce_request((stamped, 0, batch(3))), version, note="stamped by the broker")
    play.ask(fetch_request((stamped, 0, 0)), 11)


@session()
def requests_that_are_not_answered(play: Play) -> None:
    orders = play.topic()
    play.wire("a").send(produce_request((orders, 0, batch()), acks=0), 9)
    play.wire("a").forget()
    play.ask(produce_request((orders, 0, batch())), 9, note="behind one with acks 0")
    play.ask(fetch_request((orders, 0, 0)), 11)


@session(acks=(0,))
def a_refused_request_that_is_not_answered(play: Play, acks: int) -> None:
    play.wire("a").send(produce_request((UNKNOWN, 0, batch()), acks=acks), 9)
    play.wire("a").forget()
    play.ask(produce_request((play.topic(), 0, batch())), 9, note="behind it")


def producer(play: Play, version: int = 4) -> int:
    """The id of a new idempotent producer."""
    answer = play.ask(InitProducerIdRequest(transaction_timeout_ms=1000), version, note="a new producer")
    assert answer.error_code == 0
    return int(answer.producer_id)


def numbered(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytes:
    """Build a batch of an idempotent producer; the records differ by sequence.

    The timestamp is today, because a broker forgets producers whose last batch is a day old.
    """
    return batch(
        count,
        time_ms=time.time_ns() // 1_000_000,
        value=b"v%d" % sequence,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@session(version=VERSIONS)
def sequences_of_a_producer(play: Play, version: int) -> None:
    orders = play.topic()
    mine = producer(play)
    for note, sequence, count in (
        ("0", 0, 1), ("0 again", 0, 1), ("1 to 3", 1, 3), ("1 to 3 again", 1, 3), ("inside of it", 2, 1),
        ("a gap", 7, 1), ("4", 4, 1), ("5", 5, 1), ("6", 6, 1), ("7", 7, 1), ("8", 8, 1), ("4 again", 4, 1),
        ("1 to 3 once more", 1, 3), ("0, long ago", 0, 1),
    ):  # fmt: skip
        play.ask(produce_request((orders, 0, numbered(mine, sequence, count))), version, note=note)
    play.ask(produce_request((orders, 1, numbered(mine, 5))), version, note="begins with 5 elsewhere")
    play.ask(produce_request((orders, 1, numbered(mine, 6))), version, note="goes on there")


@session(version=(3, 8, 13))
def epochs_of_a_producer(play: Play, version: int) -> None:
    orders = play.topic()
    mine = producer(play)
    for note, sequence, epoch in (
        ("0 in epoch 0", 0, 0), ("3 in epoch 1", 3, 1), ("0 in epoch 1", 0, 1), ("1 in epoch 0", 1, 0),
        ("1 in epoch 1", 1, 1), ("0 in epoch 3", 0, 3), ("a negative sequence", -1, 3), ("a negative epoch", 1, -1),
    ):  # fmt: skip
        play.ask(produce_request((orders, 0, numbered(mine, sequence, 1, epoch))), version, note=note)
    unknown = batch(producer_id=999_999_999, producer_epoch=3, base_sequence=9)
    play.ask(produce_request((orders, 0, unknown)), version, note="a producer that nobody knows")
    two = numbered(mine, 1, 1, 3) + numbered(mine, 2, 1, 3)
    play.ask(produce_request((orders, 0, two)), version, note="two batches")


@session()
def the_last_sequence_is_followed_by_the_first(play: Play) -> None:
    orders = play.topic()
    mine = producer(play)
    last = 2**31 - 1
    play.ask(produce_request((orders, 0, numbered(mine, last - 1))), 9)
    play.ask(produce_request((orders, 0, numbered(mine, last))), 9)
    play.ask(produce_request((orders, 0, numbered(mine, 0))), 9)
    play.ask(produce_request((orders, 0, numbered(mine, 2))), 9)


@session(version=range(6))
def producers_get_an_id(play: Play, version: int) -> None:
    play.ask(InitProducerIdRequest(transaction_timeout_ms=1000), version)
    play.ask(InitProducerIdRequest(transaction_timeout_ms=-1), version, note="a negative timeout")
    play.ask(
        InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), version, note="an empty name"
    )
    if version >= 3:
        mine = producer(play)
        for note, producer_id, epoch in (
            ("what it has", mine, 0), ("an id without an epoch", mine, -1), ("an epoch without an id", -1, 3),
            ("the last epoch", mine, 32_767),
        ):  # fmt: skip
            request = InitProducerIdRequest(
                transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=epoch
            )
            play.ask(request, version, note=note)
