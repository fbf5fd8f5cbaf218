"""WriteTxnMarkers by a client: the markers that a partition accepts."""

from typing import Any

from protocol.apis import ApiKey
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.oracle.batches import fetch_request
from tests.oracle.offsets import fetch_request as offsets_request
from tests.oracle.peers import TRANSACTIONS
from tests.oracle.play import Play
from tests.oracle.producer import (
    NEW,
    NEW_LEVEL,
    Fields,
    Producer,
    describe_producers,
    filled,
    transactional,
    write_markers,
)
from tests.oracle.session import session

VERSIONS = (1, 2)
NOBODY = 999_999_999_999
HIGH = 1000


def of(producer: Producer, epoch: int = 0, **fields: Any) -> Fields:
    """Return the fields of a producer's marker. `epoch` is added to the producer's epoch."""
    return {"producer_id": producer.id, "producer_epoch": producer.epoch + epoch} | fields


@session(setup=TRANSACTIONS, version=VERSIONS)
def markers_of_a_client(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    filled(mine, (orders, 0), (orders, 1))
    write_markers(play, (orders, 0), version=version, note="commit", **of(mine))
    write_markers(play, (orders, 1), version=version, note="abort", **of(mine, transaction_result=False))
    describe_producers(play, (orders, 0), (orders, 1))
    write_markers(play, (orders, 0), version=version, note="commit again", **of(mine))
    write_markers(play, (orders, 0), version=version, note="the other", **of(mine, transaction_result=False))
    for level in (0, 1):
        play.ask(fetch_request((orders, 0, 0), (orders, 1, 0), isolation_level=level), 11)
    mine.describe("its coordinator knows nothing of it")
    mine.end()


@session(setup=TRANSACTIONS, version=VERSIONS)
def markers_for_partitions_that_are_not_there(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    places = (orders, 0), ("nowhere", 0), (orders, 9)
    write_markers(play, *places, version=version, note="some are there", **of(mine))
    write_markers(play, ("nowhere", 0), version=version, note="none is there", **of(mine))
    write_markers(play, version=version, note="no partition", **of(mine))
    write_markers(play, ("", 0), version=version, note="a topic without a name", **of(mine))
    write_markers(play, (orders, -1), version=version, note="a negative partition", **of(mine))
    play.ask(WriteTxnMarkersRequest(markers=[]), version, note="no marker")
    topics = [WritableTxnMarkerTopic(name=orders.name, partition_indexes=[1])]
    two = [
        WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=0,
            transaction_result=True,
            topics=topics,
            coordinator_epoch=HIGH,
        )
        for producer_id in (mine.id, NOBODY)
    ]
    play.ask(WriteTxnMarkersRequest(markers=two), version, note="two")
    describe_producers(play, (orders, 0), (orders, 1))


@session(setup=TRANSACTIONS, version=VERSIONS)
def epochs_of_markers(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    with play.quietly():
        mine.init()
    filled(mine, (orders, 0))
    for note, epoch in (
        ("the epoch before", -1), ("its epoch", 0), ("its epoch again", 0), ("the next", 1),
        ("its epoch, too late", 0), ("the next again", 1), ("a far one", 50),
    ):  # fmt: skip
        write_markers(play, (orders, 0), version=version, note=note, **of(mine, epoch))
    describe_producers(play, (orders, 0))
    mine.produce(orders, note="its own epoch is too low")
    write_markers(play, (orders, 1), version=version, note="a negative epoch", **of(mine, producer_epoch=-1))
    write_markers(play, (orders, 1), version=version, note="the last epoch", **of(mine, producer_epoch=32767))
    write_markers(play, (orders, 1), version=version, note="again", **of(mine, producer_epoch=32767))
    describe_producers(play, (orders, 1))


@session(setup=TRANSACTIONS)
def epochs_of_markers_of_the_new_level(play: Play) -> None:
    play.require(ApiKey.WRITE_TXN_MARKERS, 2)
    orders = play.topic()
    mine = transactional(play)
    with play.quietly():
        mine.init()
    filled(mine, (orders, 0), (orders, 1))
    new: Fields = {"version": 2, "transaction_version": NEW_LEVEL}
    for note, epoch in (
        ("the epoch before", -1), ("its epoch", 0), ("the next", 1), ("the next again", 1),
        ("its epoch, too late", 0), ("two on", 3), ("between", 2),
    ):  # fmt: skip
        write_markers(play, (orders, 0), note=note, **new, **of(mine, epoch))
    describe_producers(play, (orders, 0))
    write_markers(play, (orders, 1), note="of the level before", version=2, transaction_version=1, **of(mine))
    write_markers(play, (orders, 1), note="its epoch once closed", **new, **of(mine))
    write_markers(play, (orders, 1), note="the last epoch", **new, **of(mine, producer_epoch=32767))
    write_markers(play, (orders, 1), note="the last epoch again", **new, **of(mine, producer_epoch=32767))
    other = transactional(play, "other")
    write_markers(play, (orders, 1), note="of nobody", **new, **of(other))
    write_markers(
        play, (orders, 1), note="an unknown level", version=2, transaction_version=9, **of(other, 1)
    )
    write_markers(play, (orders, 1), note="a negative epoch", **new, **of(other, producer_epoch=-1))
    describe_producers(play, (orders, 1))


@session(setup=TRANSACTIONS, version=VERSIONS)
def coordinators_of_markers(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    filled(mine, (orders, 0))
    for note, epoch in (
        ("a late coordinator", HIGH + 1), ("the one before", HIGH), ("the late one again", HIGH + 1),
        ("none", -1), ("a later", HIGH + 2),
    ):  # fmt: skip
        write_markers(play, (orders, 0), version=version, note=note, **of(mine, coordinator_epoch=epoch))
    write_markers(
        play, (orders, 1), version=version, note="none, elsewhere", **of(mine, coordinator_epoch=-1)
    )
    describe_producers(play, (orders, 0), (orders, 1))
    mine.produce(orders, 0, note="goes on")
    describe_producers(play, (orders, 0))
    play.ask(fetch_request((orders, 0, 0), isolation_level=1), 11, note="what is there")


@session(setup=TRANSACTIONS, version=VERSIONS)
def markers_of_producers_that_nobody_knows(play: Play, version: int) -> None:
    orders = play.topic()
    marker: Fields = {"producer_id": NOBODY, "producer_epoch": 3}
    write_markers(play, (orders, 0), version=version, note="of nobody", **marker)
    describe_producers(play, (orders, 0))
    write_markers(
        play, (orders, 0), version=version, note="a lower epoch", producer_id=NOBODY, producer_epoch=2
    )
    write_markers(play, (orders, 0), version=version, note="no producer", producer_id=-1, producer_epoch=0)
    play.ask(fetch_request((orders, 0, 0), isolation_level=1), 11, note="what is there")


@session(setup=TRANSACTIONS, version=VERSIONS, committed=(True, False))
def markers_for_the_offsets_of_a_group(play: Play, version: int, committed: bool) -> None:
    orders = play.topic()
    mine = transactional(play)
    mine.add_offsets()
    mine.commit_offsets({(orders, 0): 5})
    place = next((each.topic, each.partitions[0]) for each in mine.describe().transaction_states[0].topics)
    asked = offsets_request(play.group, 7, {orders: [0]}, require_stable=True)
    play.ask(asked, 7, note="pending")
    write_markers(play, place, version=version, **of(mine, transaction_result=committed))
    play.ask(asked, 7, note="ended by a client")
    write_markers(play, place, version=version, note="again", **of(mine, transaction_result=committed))
    write_markers(play, ("__consumer_offsets", 99), version=version, note="an unknown partition", **of(mine))
    stale = of(mine, coordinator_epoch=-1)
    write_markers(play, place, version=version, note="no coordinator", **stale)
    mine.commit_offsets({(orders, 0): 7}, note="the coordinator still has it open")
    mine.end(committed)
    play.ask(asked, 7, note="ended by its coordinator")


@session(setup=TRANSACTIONS)
def a_new_transaction_begins_behind_a_marker(play: Play) -> None:
    play.require(ApiKey.END_TXN, 5)
    orders = play.topic()
    mine = transactional(play, versions=NEW)
    for row in range(3):
        mine.produce(orders, note=f"transaction {row}")
        describe_producers(play, (orders, 0))
        mine.end(row != 1)
        describe_producers(play, (orders, 0))
    late: Fields = {"version": 2, "transaction_version": NEW_LEVEL, "transaction_result": True}
    write_markers(play, (orders, 0), note="the last one again", **late, **of(mine))
    mine.produce(orders, note="after it")
    write_markers(play, (orders, 0), note="again while it is open", **late, **of(mine))
    mine.end()
    play.ask(fetch_request((orders, 0, 0), isolation_level=1), 11, note="what is there")
