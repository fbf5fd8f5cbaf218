"""What a restart of the broker leaves of transactions."""

from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.oracle.offsets import fetch_request
from tests.oracle.peers import ALONE
from tests.oracle.play import Play, Topic
from tests.oracle.producer import NEW, OLD, describe_producers, filled, stuck, transactional
from tests.oracle.session import session

BOTH = {"old": OLD, "new": NEW}


def stable_end(play: Play, topic: Topic, note: str) -> None:
    """Tells where committed records end. The version is one without leader epochs."""
    asked = ListOffsetsTopic(
        name=topic.name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
    )
    for level, what in ((0, "all"), (1, "committed")):
        play.ask(
            ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[asked]),
            3,
            "admin",
            f"{note}, {what}",
        )


@session(setup=ALONE, versions=tuple(BOTH))
def open_transactions_outlive_a_restart(play: Play, versions: str) -> None:
    orders, lines = play.topic(), play.topic("lines")
    names = ("empty", "committed", "open", "offsets")
    empty, over, mine, reader = (transactional(play, name, versions=BOTH[versions]) for name in names)
    filled(over, (lines, 0))
    over.end()
    filled(mine, (orders, 0), (lines, 0))
    with play.quietly():
        reader.add_offsets()
        reader.commit_offsets({(orders, 0): 5})
    play.restart()
    for each in (empty, over, mine, reader):
        each.describe("after the restart")
    stable_end(play, orders, "open")
    describe_producers(play, (orders, 0), (lines, 0))
    asked = fetch_request(play.group, 7, {orders: [0]}, require_stable=True)
    play.ask(asked, 7, note="pending")
    mine.produce(orders, note="goes on")
    mine.end()
    stable_end(play, orders, "committed")
    describe_producers(play, (orders, 0), (lines, 0))
    reader.end()
    play.ask(asked, 7, note="committed")
    over.init_again("as it is")
    over.init_again("a retry of that", producer_epoch=over.epoch - 1)
    empty.init()
    over.describe("at last")


@session(setup=ALONE, versions=tuple(BOTH), committed=(True, False))
def prepared_transactions_are_ended_after_a_restart(play: Play, versions: str, committed: bool) -> None:
    orders = play.topic()
    mine, other = (transactional(play, name, versions=BOTH[versions]) for name in ("t", "other"))
    filled(other, (orders, 1))
    other.end()
    with play.quietly():
        state = describe_producers(play, (orders, 1)).topics[0].partitions[0].active_producers[0]
    stuck(mine, orders, committed=committed, coordinator_epoch=state.coordinator_epoch + 1)
    mine.describe("owed")
    play.restart()
    mine.settle()
    mine.describe("after the restart")
    describe_producers(play, (orders, 0))
    stable_end(play, orders, "after the restart")
    mine.end(committed, "a retry")
    mine.init("anew")
