"""What readers see of transactions: Fetch, ListOffsets, DescribeProducers."""

from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.oracle.batches import TIME_MS, batch, fetch_request, produce_request
from tests.oracle.peers import TRANSACTIONS
from tests.oracle.play import Play, Topic
from tests.oracle.producer import NEW, OLD, describe_producers, filled, transactional, write_markers
from tests.oracle.session import session

VERSIONS = range(4, 19)
BOTH = {"old": OLD, "new": NEW}


def read(play: Play, topic: Topic, note: str, version: int = 11, offset: int = 0) -> None:
    """Fetches at both levels of isolation."""
    for level, what in ((0, "all"), (1, "committed")):
        request = fetch_request((topic, 0, offset), isolation_level=level)
        play.ask(request, version, note=f"{note}, {what}")


def plain(play: Play, topic: Topic, count: int = 1) -> None:
    """Produce records without a producer id, without recording."""
    with play.quietly():
        play.ask(produce_request((topic, 0, batch(count))), 11, "p")


@session(setup=TRANSACTIONS, version=VERSIONS)
def a_transaction_is_read(play: Play, version: int) -> None:
    orders = play.topic()
    mine = transactional(play)
    read(play, orders, "nothing", version)
    plain(play, orders)
    filled(mine, (orders, 0), count=2)
    plain(play, orders)
    read(play, orders, "open", version)
    read(play, orders, "open, past the stable end", version, 2)
    mine.end()
    read(play, orders, "committed", version)
    filled(mine, (orders, 0), count=2)
    mine.end(False)
    read(play, orders, "aborted", version)
    read(play, orders, "from the marker", version, 7)
    read(play, orders, "the end", version, 8)
    read(play, orders, "past it", version, 9)


@session(setup=TRANSACTIONS, versions=tuple(BOTH))
def transactions_that_overlap_are_read(play: Play, versions: str) -> None:
    orders = play.topic()
    first, second, third = (
        transactional(play, name, versions=BOTH[versions], by=name) for name in ("first", "second", "third")
    )
    filled(first, (orders, 0))
    filled(second, (orders, 0))
    filled(first, (orders, 0))
    filled(third, (orders, 0))
    read(play, orders, "three are open")
    second.end(False)
    read(play, orders, "the second is aborted")
    third.end(True)
    read(play, orders, "the third is committed")
    first.end(False)
    read(play, orders, "the first is aborted")
    filled(second, (orders, 0))
    read(play, orders, "the second goes on")
    for offset in range(9):
        request = fetch_request((orders, 0, offset), isolation_level=1)
        play.ask(request, 11, note=f"from {offset}")
    small = fetch_request((orders, 0, 0), isolation_level=1, partition_max_bytes=1)
    play.ask(small, 11, note="one batch")


@session(setup=TRANSACTIONS, versions=tuple(BOTH))
def aborted_transactions_of_many_segments(play: Play, versions: str) -> None:
    orders = play.topic(segment_bytes="1048576", partitions=1)
    first, second = (transactional(play, name, versions=BOTH[versions]) for name in ("first", "second"))
    for row in range(4):
        filled(first, (orders, 0))
        with play.quietly():
            second.add((orders, 0))
            second.produce(orders, value=b"%d" % row * 400_000)
        first.end(False)
        second.end(row == 1)
    plain(play, orders)
    describe_producers(play, (orders, 0))
    for offset in (0, 1, 5, 9, 13, 16):
        for size in (1, 1 << 20):
            request = fetch_request((orders, 0, offset), isolation_level=1, partition_max_bytes=size)
            play.ask(request, 11, note=f"{size} bytes from {offset}")


@session(setup=TRANSACTIONS, version=(4, 11, 18), versions=tuple(BOTH))
def a_reader_waits_behind_an_open_transaction(play: Play, version: int, versions: str) -> None:
    orders = play.topic()
    mine = transactional(play, versions=BOTH[versions])
    filled(mine, (orders, 0))
    request = fetch_request((orders, 0, 0), wait_ms=20_000, isolation_level=1)
    play.park(request, version, "w", "behind it")
    plain(play, orders)
    play.settle(play.group)
    play.still_waits("w")
    mine.end()
    play.answer("w")
    short = fetch_request((orders, 0, 4), wait_ms=100, isolation_level=1)
    play.ask(short, version, note="at the end")
    filled(mine, (orders, 0))
    play.ask(short, version, note="behind another, no longer than it wants")


def offsets_of(play: Play, topic: Topic, note: str, version: int, times: tuple[int, ...]) -> None:
    """ListOffsets for one partition at both levels of isolation."""
    for level, what in ((0, "all"), (1, "committed")):
        for time_ms in times:
            asked = ListOffsetsTopic(
                name=topic.name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=time_ms)]
            )
            request = ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[asked])
            play.ask(request, version, note=f"{note}, {what}, {time_ms}")


@session(setup=TRANSACTIONS, version=range(2, 12))
def offsets_are_listed_around_transactions(play: Play, version: int) -> None:
    orders = play.topic()
    times: tuple[int, ...] = (-1, -2, TIME_MS, TIME_MS + 1000, TIME_MS + 2000, TIME_MS + 9000)
    if version >= 7:
        times = (*times, -3)
    if version >= 8:
        times = (*times, -4)
    mine = transactional(play)
    offsets_of(play, orders, "nothing", version, times)
    plain(play, orders)
    with play.quietly():
        mine.add((orders, 0))
        mine.produce(orders, time_ms=TIME_MS + 1000)
        play.ask(produce_request((orders, 0, batch(time_ms=TIME_MS + 2000))), 11, "p")
    offsets_of(play, orders, "open", version, times)
    mine.end(False)
    offsets_of(play, orders, "aborted", version, times)


@session(setup=TRANSACTIONS, versions=tuple(BOTH))
def the_producers_of_a_partition(play: Play, versions: str) -> None:
    orders, lines = play.topic(), play.topic("lines")
    first, second = (transactional(play, name, versions=BOTH[versions]) for name in ("first", "second"))
    describe_producers(play, (orders, 0), note="nobody")
    filled(first, (orders, 0), (lines, 1), count=3)
    describe_producers(play, (orders, 0), (lines, 1), (orders, 1), note="one is open")
    filled(second, (orders, 0))
    plain(play, orders)
    describe_producers(play, (orders, 0), note="two are open")
    first.end()
    describe_producers(play, (orders, 0), (lines, 1), note="one is committed")
    second.end(False)
    describe_producers(play, (orders, 0), note="the other is aborted")
    first.produce(orders, is_transactional=False, transactional_id=None, note="idempotent")
    describe_producers(play, (orders, 0), note="and an idempotent batch")
    first.init("anew")
    describe_producers(play, (orders, 0), note="an initialization")
    describe_producers(play, ("nowhere", 0), (orders, 9), (orders, -1), ("", 0), note="what is not there")
    describe_producers(play, ("__transaction_state", 0), note="an internal topic")
    describe_producers(play, note="nothing")


@session(setup=TRANSACTIONS)
def an_open_transaction_that_a_client_ends(play: Play) -> None:
    orders = play.topic()
    mine = transactional(play)
    filled(mine, (orders, 0), count=2)
    write_markers(play, (orders, 0), producer_id=mine.id, producer_epoch=mine.epoch, note="a client's marker")
    read(play, orders, "closed by a client")
    mine.produce(orders, note="the coordinator still has it open")
    mine.end()
    read(play, orders, "ended")
    describe_producers(play, (orders, 0))
