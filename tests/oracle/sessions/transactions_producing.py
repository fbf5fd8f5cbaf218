"""Produce of transactional batches: verification, implicit addition, sequences and rejections."""

from protocol.apis import ApiKey
from protocol.messages.produce import ProduceRequest
from tests.oracle.batches import fetch_request, produce_request
from tests.oracle.peers import ALONE, TRANSACTIONS
from tests.oracle.play import Play, Topic
from tests.oracle.producer import NEW, OLD, Fields, Producer, describe_producers, filled, stuck, transactional
from tests.oracle.session import session

VERIFYING = (3, 9, 10, 11)
ADDING = (12, 13)
ALL = (*VERIFYING, *ADDING)
NOBODY = 999_999_999_999


def two(producer: Producer, *data: tuple[Topic | str, int, bytes], name: str | None = "") -> ProduceRequest:
    """One request of several batches."""
    return produce_request(*data, transactional_id=producer.transactional_id if name == "" else name)


@session(setup=TRANSACTIONS, version=ALL)
def records_of_a_transaction(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    with play.quietly():
        mine.add((orders, 0), (orders, 1))
    mine.produce(orders, 0, version=version, note="the first")
    mine.produce(orders, 0, 3, version=version, note="three more")
    data = (mine.records(orders, 0), mine.records(orders, 1))
    play.ask(two(mine, (orders, 0, data[0]), (orders, 1, data[1])), version, note="two partitions")
    describe_producers(play, (orders, 0), (orders, 1))
    mine.end()
    describe_producers(play, (orders, 0), (orders, 1))
    with play.quietly():
        mine.add((orders, 0))
    mine.produce(orders, 0, version=version, note="the next transaction")
    mine.end(False)
    play.ask(fetch_request((orders, 0, 0)), 11, note="what is there")


@session(setup=ALONE, version=VERIFYING)
def records_of_partitions_that_were_not_added(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    mine.produce(orders, version=version, note="it is empty")
    with play.quietly():
        mine.add((orders, 1))
    mine.produce(orders, version=version, note="another is added")
    data = (mine.records(orders, 0), mine.records(orders, 1))
    play.ask(two(mine, (orders, 0, data[0]), (orders, 1, data[1])), version, note="one is added")
    mine.end()
    mine.produce(orders, 1, version=version, note="it is over")
    mine.describe()
    describe_producers(play, (orders, 0), (orders, 1))
    play.ask(fetch_request((orders, 0, 0), (orders, 1, 0)), 11, note="what is there")


@session(setup=TRANSACTIONS, version=ADDING)
def records_that_add_their_partition(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play, versions=NEW)
    mine.produce(orders, version=version, note="one")
    mine.describe("one")
    data = (mine.records(orders, 0), mine.records(orders, 1))
    play.ask(two(mine, (orders, 0, data[0]), (orders, 1, data[1])), version, note="one more")
    mine.describe("two")
    mine.end()
    mine.produce(orders, version=version, note="the epoch of before", producer_epoch=mine.epoch - 1)
    mine.produce(orders, 1, version=version, note="the next")
    mine.describe("the next")
    mine.end(False)
    play.ask(fetch_request((orders, 0, 0), (orders, 1, 0)), 11, note="what is there")


@session(setup=ALONE, version=ALL)
def records_of_no_transaction(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    mine.produce(orders, version=version, transactional_id=None, note="no id")
    plain = mine.records(
        orders, 0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1
    )
    data = mine.records(orders, 1)
    play.ask(two(mine, (orders, 0, plain), (orders, 1, data), name=None), version, note="no id, one plain")
    play.ask(two(mine, (orders, 0, plain)), version, note="an id, and a plain batch")
    mine.produce(orders, version=version, transactional_id=play.name("nobody"), note="an unknown id")
    mine.produce("nowhere", version=version, note="an unknown topic")
    mine.produce(orders, 9, version=version, note="an unknown partition")
    mine.describe()
    filled(mine, (orders, 0))
    mine.produce(orders, version=version, transactional_id=None, note="no id, while it is open")
    mine.produce(
        orders, version=version, transactional_id=play.name("nobody"), note="an unknown id, while it is open"
    )
    mine.produce(orders, version=version, transactional_id="", note="its own")


@session(setup=ALONE, version=ALL)
def records_of_another_producer(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    with play.quietly():
        mine.init()
        mine.add((orders, 0))
    strangers: dict[str, Fields] = {
        "another producer": {"producer_id": NOBODY},
        "the epoch before": {"producer_epoch": mine.epoch - 1},
        "the epoch after": {"producer_epoch": mine.epoch + 1},
    }
    for note, fields in strangers.items():
        mine.produce(orders, version=version, note=note, base_sequence=0, **fields)
    mine.produce(orders, version=version)
    mine.produce(orders, version=version, note="the epoch before, open", producer_epoch=mine.epoch - 1)
    other = transactional(play, "other")
    mine.produce(orders, version=version, note="another id, open", transactional_id=other.transactional_id)
    mine.produce(
        orders, 1, version=version, note="another id, elsewhere", transactional_id=other.transactional_id
    )
    late: Fields = {"producer_epoch": mine.epoch + 1, "base_sequence": 0}
    mine.produce(orders, version=version, note="the epoch after, open", **late)
    mine.produce(orders, version=version, note="its own, after that")
    data = (mine.records(orders, 0), other.records(orders, 1))
    play.ask(two(mine, (orders, 0, data[0]), (orders, 1, data[1])), version, note="two producers")
    mine.describe()
    other.describe()


@session(setup=ALONE, version=(9, 11, 12))
def sequences_of_a_transaction(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play, versions=OLD if version < 12 else NEW)
    with play.quietly():
        mine.add((orders, 0))
    for note, sequence, count in (
        ("0", 0, 1), ("0 again", 0, 1), ("a gap", 7, 1), ("1 to 3", 1, 3),
        ("1 to 3 again", 1, 3), ("inside of it", 2, 1), ("4", 4, 1),
    ):  # fmt: skip
        mine.produce(orders, 0, count, version=version, note=note, base_sequence=sequence)
    last = (5 if version < 12 else 0, "4" if version < 12 else "none")
    mine.end()
    mine.produce(orders, version=version, note=f"the next, after {last[1]}", base_sequence=last[0])
    mine.produce(orders, version=version, note="0 of before", base_sequence=0)
    with play.quietly():
        mine.add((orders, 0))
    mine.produce(orders, version=version, note="4 of before, added", base_sequence=4)
    mine.produce(orders, version=version, note="0 of before, added", base_sequence=0)
    mine.produce(orders, version=version, note="the next, added", base_sequence=last[0])
    mine.produce(orders, version=version, note="the one after it", base_sequence=last[0] + 1)
    describe_producers(play, (orders, 0))


@session(setup=TRANSACTIONS, version=(9, 11, 12))
def plain_records_within_a_transaction(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play, versions=OLD if version < 12 else NEW)
    idempotent: Fields = {"is_transactional": False}
    mine.produce(orders, 1, version=version, note="idempotent, before", **idempotent)
    filled(mine, (orders, 0))
    mine.produce(orders, version=version, note="idempotent", base_sequence=1, **idempotent)
    mine.produce(
        orders,
        version=version,
        note="idempotent, no id",
        base_sequence=1,
        transactional_id=None,
        **idempotent,
    )
    mine.produce(
        orders, 1, version=version, note="idempotent, elsewhere", transactional_id=None, **idempotent
    )
    nobody: Fields = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | idempotent
    mine.produce(orders, version=version, note="plain", transactional_id=None, **nobody)
    mine.produce(orders, version=version, note="transactional")
    mine.end()
    mine.produce(orders, version=version, note="idempotent, over", transactional_id=None, **idempotent)
    describe_producers(play, (orders, 0), (orders, 1))


@session(setup=ALONE, version=ALL)
def records_while_markers_are_owed(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    stuck(mine, orders)
    mine.produce(orders, version=version, note="the partition of the marker")
    mine.produce(orders, 1, version=version, note="another partition")
    mine.describe()


@session(setup=ALONE)
def a_first_sequence_that_is_not_0(play: Play) -> None:
    play.require(ApiKey.PRODUCE, 12)
    orders = play.topic()
    mine = transactional(play, versions=NEW)
    mine.produce(orders, note="begins with 5", base_sequence=5)
    mine.produce(orders, note="6", base_sequence=6)
    mine.produce(orders, note="0", base_sequence=0)
    mine.produce(orders, 1, note="begins with 5, as of old", version=11, base_sequence=5)
    mine.add((orders, 1))
    mine.produce(orders, 1, note="begins with 5, as of old, added", version=11, base_sequence=5)
    mine.describe()


@session(setup=TRANSACTIONS, versions=("old", "new"))
def a_producer_that_was_fenced(play: Play, versions: str) -> None:
    orders = play.topic()
    zombie = transactional(play, versions={"old": OLD, "new": NEW}[versions])
    filled(zombie, (orders, 0))
    later = Producer(play, versions=zombie.versions, by="b")
    later.init("while the zombie's is open")
    later.settle()
    later.init("once it is aborted")
    zombie.produce(orders, note="the zombie")
    zombie.produce(orders, 1, note="the zombie, elsewhere")
    zombie.add((orders, 0), note="the zombie")
    zombie.add_offsets(note="the zombie")
    zombie.end_now(note="the zombie")
    zombie.init_again("the zombie")
    filled(later, (orders, 0))
    zombie.produce(orders, note="the zombie, the later is open")
    zombie.end_now(note="the zombie, the later is open")
    later.end()
    play.ask(fetch_request((orders, 0, 0), isolation_level=1), 11, note="what is there")
    describe_producers(play, (orders, 0))


@session(setup=TRANSACTIONS, versions=("old", "new"))
def transactions_of_acks_1_and_all(play: Play, versions: str) -> None:
    orders = play.topic()
    mine = transactional(play, versions={"old": OLD, "new": NEW}[versions])
    filled(mine, (orders, 0))
    for acks in (1, -1):
        request = produce_request(
            (orders, 0, mine.records(orders, 0)), acks=acks, transactional_id=mine.transactional_id
        )
        play.ask(request, mine.versions["produce"], note=f"acks {acks}")
    mine.end()
