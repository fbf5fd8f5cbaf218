"""EndTxn of clients that keep their epoch (v0-4), in every state."""

from tests.oracle.peers import TRANSACTIONS
from tests.oracle.play import Play
from tests.oracle.producer import NEW, OLD, Producer, describe_producers, filled, stuck, transactional
from tests.oracle.session import session
from tests.oracle.sessions.deletions import delete_topic

VERSIONS = range(5)
NOBODY = 999_999_999_999


def both(producer: Producer, note: str, version: int) -> None:
    """Asks for both ends."""
    for committed in (True, False):
        what = "commit" if committed else "abort"
        producer.end(committed, f"{what}, {note}", version)


@session(setup=TRANSACTIONS, version=VERSIONS, committed=(True, False))
def a_transaction_ends(play: Play, version: int, committed: bool) -> None:
    orders = play.topic()
    mine = transactional(play)
    both(mine, "of nothing", version)
    filled(mine, (orders, 0), (orders, 1))
    mine.end(committed, version=version)
    mine.describe("it is over")
    both(mine, "once more", version)
    describe_producers(play, (orders, 0), (orders, 1))
    filled(mine, (orders, 0))
    mine.end(not committed, version=version, note="the next one")
    both(mine, "the other way round", version)
    mine.init("anew")
    both(mine, "of nothing again", version)


@session(setup=TRANSACTIONS, version=VERSIONS)
def ends_of_producers_that_are_not_there(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    with play.quietly():
        mine.init()
    for state in ("empty", "open", "committed"):
        if state == "open":
            filled(mine, (orders, 0))
        if state == "committed":
            mine.end()
        for note, fields in (
            ("an unknown id", {"transactional_id": play.name("nobody")}),
            ("an empty id", {"transactional_id": ""}),
            ("another producer", {"producer_id": NOBODY}),
            ("another producer and epoch", {"producer_id": NOBODY, "producer_epoch": 9}),
            ("the epoch before", {"producer_epoch": mine.epoch - 1}),
            ("the epoch after", {"producer_epoch": mine.epoch + 1}),
        ):
            mine.end_now(True, f"{note}, {state}", version, **fields)
            mine.end_now(False, f"{note}, {state}, abort", version, **fields)
    mine.describe()


@session(setup=TRANSACTIONS, version=VERSIONS, committed=(True, False))
def ends_while_markers_are_owed(play: Play, version: int, committed: bool) -> None:
    mine = transactional(play)
    orders = play.topic()
    stuck(mine, orders, committed=committed)
    mine.end_now(committed, "the same again", version)
    mine.end_now(not committed, "the other", version)
    mine.end_now(committed, "another producer", version, producer_id=NOBODY)
    mine.end_now(committed, "the epoch after", version, producer_epoch=mine.epoch + 1)
    mine.describe()
    describe_producers(play, (orders, 0))


@session(setup=TRANSACTIONS, version=VERSIONS, committed=(True, False))
def an_old_end_of_a_new_transaction(play: Play, version: int, committed: bool) -> None:
    orders = play.topic()
    mine = transactional(play, versions=NEW)
    mine.produce(orders, note="adds by itself")
    mine.describe()
    mine.end(committed, version=version)
    mine.describe("it is over")
    describe_producers(play, (orders, 0))
    mine.produce(orders, note="goes on")
    mine.end(committed, version=5, note="a new end")
    describe_producers(play, (orders, 0))
    both(mine, "after a new end", version)


@session(setup=TRANSACTIONS)
def a_transaction_ends_without_records(play: Play) -> None:
    orders = play.topic()
    mine = transactional(play)
    for committed in (True, False):
        mine.add((orders, 0), (orders, 1))
        mine.end(committed)
        describe_producers(play, (orders, 0), (orders, 1))
    mine.add_offsets()
    mine.end()
    mine.describe()


@session(setup=TRANSACTIONS, versions=("old", "new"))
def a_topic_is_deleted_within_a_transaction(play: Play, versions: str) -> None:
    orders, lines = play.topic(), play.topic("lines")
    mine = transactional(play, versions={"old": OLD, "new": NEW}[versions])
    filled(mine, (orders, 0), (lines, 0))
    delete_topic(play, lines)
    play.until(lambda: describe_producers(play, (lines, 0)).topics[0].partitions[0].error_code != 0)
    mine.describe("a topic is deleted")
    mine.produce(lines, note="it is gone")
    mine.add((lines, 0), note="it is gone")
    mine.produce(orders, note="the other is there")
    mine.end()
    mine.describe("it is over")
    describe_producers(play, (orders, 0), (lines, 0))
