"""EndTxn v5, with an epoch bump at each end, in every state."""

from protocol.apis import ApiKey
from tests.oracle.batches import fetch_request
from tests.oracle.peers import ALONE, TRANSACTIONS
from tests.oracle.play import Play
from tests.oracle.producer import NEW, Producer, describe_producers, filled, stuck, transactional
from tests.oracle.session import session

NOBODY = 999_999_999_999


def new(play: Play) -> Producer:
    """Create a producer with epoch bumps; skip the session if the broker has no EndTxn v5."""
    play.require(ApiKey.END_TXN, 5)
    return transactional(play, versions=NEW)


@session(setup=TRANSACTIONS)
def a_new_end_of_nothing(play: Play) -> None:
    mine = new(play)
    first = mine.epoch
    mine.end(True, "commit of nothing")
    mine.end(False, "abort of nothing")
    mine.describe("it is aborted")
    mine.end(False, "a retry of the abort", producer_epoch=first)
    mine.end(True, "commit with the epoch of before", producer_epoch=first)
    mine.end(True, "commit of nothing again")
    mine.end(False, "abort of nothing again")
    mine.end(False, "an epoch two before", producer_epoch=first)
    mine.end(False, "the epoch after", producer_epoch=mine.epoch + 1)
    mine.describe()
    mine.init()
    mine.describe("it is empty")
    mine.end(False, "abort of nothing, once empty")


@session(setup=TRANSACTIONS, committed=(True, False))
def a_new_end_and_its_retries(play: Play, committed: bool) -> None:
    orders = play.topic()
    mine = new(play)
    before = mine.epoch
    mine.produce(orders)
    mine.end(committed)
    mine.describe("it is over")
    describe_producers(play, (orders, 0))
    mine.end(committed, "a retry", producer_epoch=before)
    mine.end(not committed, "the other with the epoch of before", producer_epoch=before)
    mine.end(True, "commit of nothing")
    mine.end(committed, "a retry, again", producer_epoch=before)
    mine.end(False, "abort of nothing")
    mine.describe("after the abort of nothing")
    mine.end(committed, "a retry, too late", producer_epoch=before)
    describe_producers(play, (orders, 0))


@session(setup=TRANSACTIONS, committed=(True, False))
def new_ends_with_an_old_epoch(play: Play, committed: bool) -> None:
    orders = play.topic()
    mine = new(play)
    before = mine.epoch
    filled(mine, (orders, 0))
    for note, epoch in (("before", mine.epoch - 1), ("after", mine.epoch + 1)):
        mine.end_now(committed, f"the epoch {note}, open", producer_epoch=epoch)
    mine.end(committed)
    filled(mine, (orders, 0))
    mine.end_now(committed, "a retry while the next is open", producer_epoch=before)
    mine.end_now(not committed, "the other while the next is open", producer_epoch=before)
    mine.describe()


@session(setup=TRANSACTIONS)
def new_ends_of_producers_that_are_not_there(play: Play) -> None:
    orders = play.topic()
    mine = new(play)
    for state in ("empty", "open", "committed", "aborted"):
        if state == "open":
            filled(mine, (orders, 0))
        if state == "committed":
            mine.end()
        if state == "aborted":
            mine.end(False)
        for note, fields in (
            ("an unknown id", {"transactional_id": play.name("nobody")}),
            ("an empty id", {"transactional_id": ""}),
            ("another producer", {"producer_id": NOBODY}),
            ("another producer, the last epoch", {"producer_id": NOBODY, "producer_epoch": 32766}),
            ("an epoch to come", {"producer_epoch": mine.epoch + 7}),
            ("a negative epoch", {"producer_epoch": -1}),
        ):
            mine.end_now(True, f"{note}, {state}", **fields)
            mine.end_now(False, f"{note}, {state}, abort", **fields)
    mine.describe()


@session(setup=TRANSACTIONS, committed=(True, False))
def new_ends_while_markers_are_owed(play: Play, committed: bool) -> None:
    orders = play.topic()
    mine = new(play)
    before = mine.epoch
    stuck(mine, orders, committed=committed)
    mine.end_now(committed, "a retry", producer_epoch=before)
    mine.end_now(not committed, "the other", producer_epoch=before)
    mine.end_now(committed, "the same with the new epoch")
    mine.end_now(committed, "another producer", producer_id=NOBODY)
    mine.init("over it")
    mine.describe()
    describe_producers(play, (orders, 0))


@session(setup=ALONE, committed=(True, False))
def a_new_end_of_a_transaction_that_was_begun_as_of_old(play: Play, committed: bool) -> None:
    orders = play.topic()
    mine = new(play)
    mine.add((orders, 0))
    mine.describe("begun")
    mine.produce(orders, version=11)
    mine.end(committed)
    mine.describe("it is over")
    mine.produce(orders, version=11, note="not added")
    mine.add((orders, 0))
    mine.produce(orders, version=11)
    mine.end(committed)
    play.ask(fetch_request((orders, 0, 0), isolation_level=1), 11, note="what is there")


@session(setup=TRANSACTIONS)
def the_epochs_of_many_ends(play: Play) -> None:
    orders = play.topic()
    mine = new(play)
    for committed in (True, False, True, True, False, False):
        mine.produce(orders)
        mine.end(committed)
    describe_producers(play, (orders, 0))
    mine.init_again()
    mine.init_again("a retry of that", producer_epoch=mine.epoch - 1)
    mine.init("without")
    play.ask(fetch_request((orders, 0, 0)), 11, note="what is there")


@session(setup=TRANSACTIONS)
def an_initialization_with_the_epoch_before_the_last_end(play: Play) -> None:
    orders = play.topic()
    mine = new(play)
    before = mine.epoch
    filled(mine, (orders, 0))
    mine.end()
    mine.init_again("as of before the end", producer_epoch=before)
    mine.init_again("as it is")
    mine.init_again("as of before the end, again", producer_epoch=before)
