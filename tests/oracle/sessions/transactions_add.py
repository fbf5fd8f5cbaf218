"""AddPartitionsToTxn and AddOffsetsToTxn: the partitions and groups of a transaction."""

from typing import Any

from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.oracle.peers import TRANSACTIONS
from tests.oracle.play import Play, Topic
from tests.oracle.producer import NEW, Fields, Producer, filled, stuck, transactional
from tests.oracle.session import session

VERSIONS = range(4)
OFFSETS_VERSIONS = range(5)
NOBODY = 999_999_999_999


@session(setup=TRANSACTIONS, version=VERSIONS)
def partitions_are_added(play: Play, version: int) -> None:
    orders, lines = play.topic(partitions=3), play.topic("lines")
    mine = transactional(play)
    mine.describe("before")
    mine.add((orders, 0), version=version, note="one")
    mine.describe("after it")
    mine.add((orders, 0), version=version, note="the same")
    mine.add((orders, 2), (lines, 1), (lines, 0), (orders, 0), version=version, note="more")
    mine.add(version=version, note="nothing")
    mine.describe("after all")


@session(setup=TRANSACTIONS, version=VERSIONS)
def partitions_that_cannot_be_added(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    mine.add(("nowhere", 0), version=version, note="an unknown topic")
    mine.add((orders, 0), ("nowhere", 0), (orders, 1), version=version, note="and ones that are there")
    mine.add((orders, 0), (orders, 9), version=version, note="an unknown partition")
    mine.add((orders, 0), (orders, -1), version=version, note="a negative partition")
    mine.add(("__consumer_offsets", 0), version=version, note="an internal topic")
    mine.add((orders, 0), ("__consumer_offsets", 0), version=version, note="an internal one and another")
    mine.add(("__transaction_state", 0), version=version, note="the other internal topic")
    mine.add(("nowhere", 0), version=version, note="an unknown topic of another", producer_id=NOBODY)
    mine.add(("", 0), version=version, note="a topic without a name")
    mine.describe("nothing is added")


@session(setup=TRANSACTIONS, version=VERSIONS)
def partitions_of_producers_that_are_not_there(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    with play.quietly():
        mine.init()
    for note, fields in _strangers(mine).items():
        mine.add((orders, 0), version=version, note=note, **fields)
    mine.add(version=version, note="nothing, of nobody", producer_id=NOBODY)
    filled(mine, (orders, 0))
    for note, fields in _strangers(mine).items():
        mine.add((orders, 0), version=version, note=f"{note}, while it is open", **fields)


def _strangers(mine: Producer) -> dict[str, Fields]:
    return {
        "an unknown id": {"transactional_id": mine.play.name("nobody")},
        "an empty id": {"transactional_id": ""},
        "another producer": {"producer_id": NOBODY},
        "another producer and epoch": {"producer_id": NOBODY, "producer_epoch": 9},
        "a negative producer": {"producer_id": -1, "producer_epoch": -1},
        "the epoch before": {"producer_epoch": mine.epoch - 1},
        "the epoch after": {"producer_epoch": mine.epoch + 1},
    }


@session(setup=TRANSACTIONS, version=VERSIONS)
def partitions_while_markers_are_owed(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    stuck(mine, orders)
    mine.add((orders, 0), version=version, note="the same")
    mine.add((orders, 1), version=version, note="another")
    for note, fields in _strangers(mine).items():
        mine.add((orders, 0), version=version, note=note, **fields)


@session(setup=TRANSACTIONS)
def partitions_are_added_after_the_end(play: Play) -> None:
    orders = play.topic()
    mine = transactional(play)
    for committed in (True, False):
        filled(mine, (orders, 0))
        mine.end(committed)
        mine.describe("it is over")
        mine.add((orders, 1), note="the next one")
        mine.describe("the next one")
        mine.end(committed)


def batch_of(*transactions: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=list(transactions))


def one_of(
    producer: Producer, *partitions: tuple[Topic | str, int], verify_only: bool = False, **fields: Any
) -> AddPartitionsToTxnTransaction:
    """The part of a producer in a batch; each partition is a topic of its own there."""
    topics = [
        AddPartitionsToTxnTopic(name=topic.name if isinstance(topic, Topic) else topic, partitions=[row])
        for topic, row in partitions
    ]
    own = producer.identity(**fields)
    return AddPartitionsToTxnTransaction(verify_only=verify_only, topics=topics, **own)


@session(setup=TRANSACTIONS, version=(4, 5))
def partitions_are_verified(play: Play, version: int) -> None:
    orders, lines = play.topic(), play.topic("lines")
    mine = transactional(play)

    def verify(note: str, **fields: Any) -> None:
        each = one_of(mine, (orders, 0), (lines, 0), verify_only=True, **fields)
        play.ask(batch_of(each), version, note=note)

    verify("before anything")
    for note, fields in _strangers(mine).items():
        verify(note, **fields)
    filled(mine, (orders, 0))
    verify("one is in it")
    for note, fields in _strangers(mine).items():
        verify(f"{note}, while it is open", **fields)
    play.ask(batch_of(one_of(mine, ("nowhere", 0), verify_only=True)), version, note="an unknown topic")
    play.ask(
        batch_of(one_of(mine, ("__consumer_offsets", 3), verify_only=True)), version, note="an internal one"
    )
    play.ask(batch_of(one_of(mine, verify_only=True)), version, note="nothing")
    mine.end()
    verify("it is over")
    stuck(mine, lines)
    verify("markers are owed")
    mine.describe()


@session(setup=TRANSACTIONS, version=(4, 5))
def a_batch_of_transactions_is_added(play: Play, version: int) -> None:
    orders, lines = play.topic(), play.topic("lines")
    first, second = transactional(play, "first"), transactional(play, "second")
    good, bad = one_of(first, (orders, 0), (lines, 1)), one_of(second, (orders, 1), producer_id=NOBODY)
    play.ask(batch_of(good, bad), version, note="one of them is wrong")
    first.describe("the good one")
    second.describe("the bad one")
    unknown = one_of(second, ("nowhere", 0), (orders, 1))
    play.ask(batch_of(one_of(first, (orders, 1)), unknown), version, note="an unknown topic in one")
    internal = one_of(second, ("__consumer_offsets", 3))
    play.ask(batch_of(internal), version, note="an internal topic")
    second.describe("an internal topic")
    verify = one_of(second, (orders, 0), verify_only=True)
    play.ask(batch_of(one_of(first, (orders, 0)), verify), version, note="one adds, one verifies")
    for note, fields in _strangers(first).items():
        play.ask(batch_of(one_of(first, (orders, 0), **fields)), version, note=note)


@session(setup=TRANSACTIONS, version=OFFSETS_VERSIONS)
def groups_are_added(play: Play, version: int) -> None:
    mine = transactional(play)
    mine.add_offsets(version=version, note="a group that nobody knows")
    mine.describe("it has begun")
    mine.add_offsets(version=version, note="again")
    mine.add_offsets(play.name("other"), version=version, note="another")
    mine.add_offsets(version=version, note="a group without a name", group_id="")
    mine.describe()
    mine.end()
    mine.describe("it is over")


@session(setup=TRANSACTIONS, version=OFFSETS_VERSIONS)
def groups_of_producers_that_are_not_there(play: Play, version: int) -> None:
    mine = transactional(play)
    with play.quietly():
        mine.init()
    for note, fields in _strangers(mine).items():
        mine.add_offsets(version=version, note=note, **fields)
    mine.add_offsets(version=version, note="its own")
    for note, fields in _strangers(mine).items():
        mine.add_offsets(version=version, note=f"{note}, while it is open", **fields)
    other = transactional(play, "other")
    stuck(other, play.topic())
    other.add_offsets(version=version, note="markers are owed")
    for note, fields in _strangers(other).items():
        other.add_offsets(version=version, note=f"{note}, markers are owed", **fields)


@session(setup=TRANSACTIONS)
def partitions_after_an_end_that_raised_the_epoch(play: Play) -> None:
    orders = play.topic()
    mine = transactional(play, versions=NEW)
    filled(mine, (orders, 0))
    before = mine.epoch
    mine.end()
    for version in VERSIONS:
        mine.add((orders, 0), version=version, note="with the epoch of before", producer_epoch=before)
    mine.add((orders, 0), note="with its own")
    mine.describe()
