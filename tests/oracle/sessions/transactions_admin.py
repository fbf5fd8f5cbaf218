"""DescribeTransactions and ListTransactions in every state."""

from typing import Any

from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.oracle.peers import TRANSACTIONS
from tests.oracle.play import Play
from tests.oracle.producer import NEW, OLD, Producer, filled, stuck, transactional
from tests.oracle.session import session

STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead"),
    *("PrepareEpochFence", "empty", "Nonsense", ""),
)


def one_of_each(play: Play, versions: dict[str, int]) -> dict[str, Producer]:
    """Producers in every state that lasts, by it."""
    orders, lines = play.topic(), play.topic("lines", partitions=3)
    names = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
    all_of_them = {name: transactional(play, name, versions=versions) for name in names}
    filled(all_of_them["Ongoing"], (orders, 0), (lines, 2), (lines, 0))
    with play.quietly():
        all_of_them["Ongoing"].add_offsets()
    stuck(all_of_them["PrepareCommit"], orders)
    stuck(all_of_them["PrepareAbort"], orders, committed=False)
    for name in ("CompleteCommit", "CompleteAbort"):
        filled(all_of_them[name], (orders, 1))
        with play.quietly():
            all_of_them[name].end(name == "CompleteCommit")
    return all_of_them


@session(setup=TRANSACTIONS, versions=("old", "new"))
def transactions_are_described(play: Play, versions: str) -> None:
    each = one_of_each(play, {"old": OLD, "new": NEW}[versions])
    for name, producer in each.items():
        producer.describe(name)
    names = [play.name("nobody"), "", play.name("Empty"), play.name("Ongoing"), play.name("Empty")]
    play.ask(DescribeTransactionsRequest(transactional_ids=names), 0, note="many")
    play.ask(DescribeTransactionsRequest(transactional_ids=[]), 0, note="none")


@session(setup=TRANSACTIONS, version=range(3))
def transactions_are_listed(play: Play, version: int) -> None:
    each = one_of_each(play, OLD)

    def listed(note: str, states: list[str], producers: list[int], **fields: Any) -> None:
        request = ListTransactionsRequest(state_filters=states, producer_id_filters=producers, **fields)
        play.ask(request, version, note=note, own=True)

    listed("all", [], [])
    for state in STATES:
        listed(f"state {state!r}", [state], [])
    listed("two states", ["Ongoing", "Empty"], [])
    listed("a state and nonsense", ["Nonsense", "Ongoing", "More"], [])
    listed("one producer", [], [each["Ongoing"].id])
    listed("two producers", [], [each["Ongoing"].id, each["Empty"].id, -1])
    listed("a producer in another state", ["Empty"], [each["Ongoing"].id])
    listed("an unknown producer", [], [999_999_999_999])


@session(setup=TRANSACTIONS, version=(1, 2))
def transactions_are_listed_by_their_duration(play: Play, version: int) -> None:
    one_of_each(play, OLD)
    for duration_ms in (-1, -5, 0, 600_000):
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], duration_filter=duration_ms
        )
        if duration_ms == 0:
            play.pause(5)
        play.ask(request, version, note=f"longer than {duration_ms} ms", own=True)


@session(setup=TRANSACTIONS)
def transactions_are_listed_by_a_pattern(play: Play) -> None:
    one_of_each(play, OLD)
    whole = play.name("Empty")
    for note, pattern in (
        ("null", None), ("nothing", ""), ("a whole id", whole), ("a part of one", "Empty"),
        ("the beginning", "Empty.*"), ("either", f"({whole}|{play.name('Ongoing')})"), ("anything", ".*"),
        ("letters of any case", "(?i)empty.*"), ("no pattern", "(("), ("a star", "*"), ("looking ahead", "(?=E).*"),
        ("a back reference", r"(E)\1"), ("many states", "Complete.*"), ("with anchors", "^Empty.*$"),
    ):  # fmt: skip
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
        )
        play.ask(request, 2, note=note, own=True)
    both = ListTransactionsRequest(
        state_filters=["Ongoing"], producer_id_filters=[], transactional_id_pattern="Empty.*"
    )
    play.ask(both, 2, note="a pattern of another state", own=True)
