"""Transaction timeouts, and the expiration of unused transactional ids."""

from tests.oracle.batches import fetch_request
from tests.oracle.offsets import fetch_request as offsets_request
from tests.oracle.peers import FORGETFUL, TRANSACTIONS
from tests.oracle.play import Play
from tests.oracle.producer import NEW, OLD, Producer, describe_producers, filled, transactional
from tests.oracle.session import session

SHORT_MS = 1500
BOTH = {"old": OLD, "new": NEW}
CALLS = (
    "produce",
    "produce elsewhere",
    "add",
    "add old",
    "offsets",
    "commit",
    "end",
    "abort",
    "init",
    "init again",
)


def timed_out(play: Play, versions: str) -> Producer:
    """Return a producer whose transaction (records and offsets) timed out; the steps are not recorded."""
    orders = play.topic()
    mine = transactional(play, versions=BOTH[versions], timeout_ms=SHORT_MS)
    filled(mine, (orders, 0))
    with play.quietly():
        mine.add_offsets()
        mine.commit_offsets({(orders, 0): 5})
    mine.settle("CompleteAbort")
    return mine


@session(setup=TRANSACTIONS, versions=tuple(BOTH), call=CALLS)
def a_zombie_after_its_timeout(play: Play, versions: str, call: str) -> None:
    mine = timed_out(play, versions)
    orders = play.name("orders")
    if call == "produce":
        mine.produce(orders, version=min(mine.versions["produce"], 12))
    elif call == "produce elsewhere":
        mine.produce(orders, 1)
    elif call == "add":
        mine.add((orders, 0))
    elif call == "add old":
        mine.add((orders, 0), version=1)
    elif call == "offsets":
        mine.add_offsets()
    elif call == "commit":
        mine.commit_offsets({(orders, 0): 6})
    elif call in ("end", "abort"):
        mine.end(call == "end")
    elif call == "init":
        mine.init()
    else:
        mine.init_again()
    mine.describe()
    mine.init_again("after it")
    mine.describe("after it")


@session(setup=TRANSACTIONS, versions=tuple(BOTH))
def a_transaction_times_out(play: Play, versions: str) -> None:
    mine = timed_out(play, versions)
    orders = play.name("orders")
    mine.describe()
    describe_producers(play, (orders, 0))
    for level in (0, 1):
        play.ask(fetch_request((orders, 0, 0), isolation_level=level), 11)
    play.ask(offsets_request(play.group, 7, {orders: [0]}, require_stable=True), 7)


@session(setup=TRANSACTIONS, versions=tuple(BOTH))
def a_timeout_begins_with_the_transaction(play: Play, versions: str) -> None:
    orders = play.topic()
    mine = transactional(play, versions=BOTH[versions], timeout_ms=SHORT_MS)
    play.pause(2 * SHORT_MS)
    mine.describe("an empty one does not time out")
    mine.add((orders, 0))
    mine.settle("CompleteAbort")
    mine.describe("an open one does")
    mine.init_again()
    mine.init("a long timeout", transaction_timeout_ms=60_000)
    filled(mine, (orders, 0))
    play.pause(2 * SHORT_MS)
    mine.describe("a long one does not")
    mine.end()


@session(setup=FORGETFUL, state=("Empty", "CompleteCommit", "CompleteAbort"), versions=tuple(BOTH))
def a_transactional_id_that_nobody_uses(play: Play, state: str, versions: str) -> None:
    orders = play.topic()
    mine = transactional(play, versions=BOTH[versions])
    if state != "Empty":
        filled(mine, (orders, 0))
        mine.end(state == "CompleteCommit")
    mine.settle("")
    mine.describe("it is forgotten")
    mine.add((orders, 0))
    mine.add_offsets()
    mine.end_now()
    mine.produce(orders)
    mine.init_again()
    mine.describe("anew")


@session(setup=FORGETFUL)
def a_transactional_id_with_an_open_transaction(play: Play) -> None:
    orders = play.topic()
    mine = transactional(play)
    filled(mine, (orders, 0))
    play.pause(3000)
    mine.describe("it is kept")
    mine.end_now()
