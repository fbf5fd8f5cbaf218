"""The view of read_committed consumers: the last stable offset, and aborted transactions before it."""

from typing import Any

import pytest

from coordinator.config.properties import Config
from coordinator.core.response_status import BLOCKED
from coordinator.core.shared_types import LogFlush
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchResponse, PartitionData
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.producers.producer_state_manager import ProducerStateManager
from tests.topics.broker import NOW_MS, Broker, batch, produce_request
from tests.topics.fetching import Where, by_partition, fetch_request, offsets
from tests.topics.transacting import abort, commit, end, transactional, write

V = 12
"""The last version that fetches by name."""
ORDERS: Where = ("orders", 0)
DAY_MS = 24 * 60 * 60 * 1000
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@pytest.fixture(autouse=True)
def orders(broker: Broker) -> None:
    broker.create("orders")


def fetch(
    broker: Broker, offset: int = 0, *, level: int = 1, where: Where = ORDERS, **more: Any
) -> PartitionData:
    request = fetch_request({where: offset}, isolation_level=level, **more)
    return by_partition(broker.ask(request, FetchResponse, V))[where]


def park(broker: Broker, offset: int, *, level: int = 1, min_bytes: int = 1) -> int:
    """A fetch that waits; its number."""
    request = fetch_request({ORDERS: offset}, isolation_level=level, max_wait_ms=500, min_bytes=min_bytes)
    assert broker.send(request, V).response is BLOCKED
    return broker.waiter


def aborted(data: PartitionData) -> list[tuple[int, int]]:
    assert data.aborted_transactions is not None
    return [(each.producer_id, each.first_offset) for each in data.aborted_transactions]


def look_up(broker: Broker, timestamp: int, level: int = 1, version: int = 8) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topic = ListOffsetsTopic(name="orders", partitions=[wanted])
    request = ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=[topic])
    offset = broker.ask(request, ListOffsetsResponse, version).topics[0].partitions[0].offset
    assert isinstance(offset, int)
    return offset


def delete_before(broker: Broker, offset: int) -> None:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="orders", partitions=[wanted])
    broker.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), DeleteRecordsResponse)


# Fetch


def test_reading_ends_where_the_first_open_transaction_begins(broker: Broker) -> None:
    broker.fill("orders", 2)
    write(broker, 7, count=2)
    broker.fill("orders", 1)
    write(broker, 8)
    data = fetch(broker)
    assert (offsets(data), data.high_watermark, data.last_stable_offset) == ([0, 1], 6, 2)
    data = fetch(broker, level=0)
    assert (offsets(data), data.high_watermark, data.last_stable_offset) == ([*range(6)], 6, 2)
    commit(broker, 7)
    data = fetch(broker)
    assert (offsets(data), data.last_stable_offset) == ([*range(5)], 5)
    commit(broker, 8)
    assert fetch(broker).last_stable_offset == 8


@pytest.mark.parametrize("offset", [3, 4, 5])
def test_nothing_comes_from_behind_it(broker: Broker, offset: int) -> None:
    broker.fill("orders", 3)
    write(broker, count=2)
    data = fetch(broker, offset)
    assert (data.error_code, data.records, data.aborted_transactions) == (0, b"", [])


def test_aborted_transactions_come_in_the_order_of_their_ends(broker: Broker) -> None:
    write(broker, 7)
    write(broker, 8)
    write(broker, 9)
    commit(broker, 9)
    abort(broker, 8)
    abort(broker, 7)
    assert aborted(fetch(broker)) == [(8, 1), (7, 0)]
    assert fetch(broker, level=0).aborted_transactions is None
    broker.restart()
    assert aborted(fetch(broker)) == [(8, 1), (7, 0)]


def test_only_those_are_told_that_may_be_met_between_what_was_read_and_what_the_index_knows(
    broker: Broker,
) -> None:
    """The index has an entry for every 4096 bytes: here for offsets 3 and 5."""
    write(broker, 7)
    abort(broker, 7)
    broker.produce("orders", batch(values=[bytes(5000)]))
    broker.fill("orders", 1)
    broker.produce("orders", batch(values=[bytes(5000)]))
    broker.fill("orders", 2)
    write(broker, 8)
    abort(broker, 8)
    assert aborted(fetch(broker, partition_max_bytes=1)) == [(7, 0)]
    assert aborted(fetch(broker, 4, partition_max_bytes=1)) == []
    assert aborted(fetch(broker, 5, partition_max_bytes=1)) == [(8, 7)]
    assert aborted(fetch(broker, 1)) == [(7, 0), (8, 7)]
    assert aborted(fetch(broker, 2)) == [(8, 7)]
    assert aborted(fetch(broker, 9)) == []


def test_those_of_the_next_segment_are_not_told(broker: Broker) -> None:
    broker.create("small", internal_segment_bytes="200")
    small: Where = ("small", 0)
    for sequence in range(2):
        write(broker, 7, sequence=sequence, topic="small")
        end(broker, 7, is_committed=False, topic="small")
    part = broker.plane.catalogue.find_partition("small", 0)
    assert part is not None
    assert part.log is not None
    assert [segment.base_offset for segment in part.log.segments] == [0, 2]
    assert aborted(fetch(broker, where=small, partition_max_bytes=1)) == [(7, 0)]
    assert aborted(fetch(broker, 2, where=small, partition_max_bytes=1)) == [(7, 2)]


def test_a_session_is_told_when_more_is_stable(broker: Broker) -> None:
    def ask(epoch: int, session_id: int = 0) -> FetchResponse:
        wanted = {ORDERS: 0} if epoch == 0 else {}
        request = fetch_request(wanted, isolation_level=1, session=(session_id, epoch))
        return broker.ask(request, FetchResponse, V)

    write(broker)
    opened = ask(0)
    assert by_partition(opened)[ORDERS].last_stable_offset == 0
    assert ask(1, opened.session_id).responses == []
    commit(broker)
    data = by_partition(ask(2, opened.session_id))[ORDERS]
    assert (data.last_stable_offset, offsets(data)) == (2, [0, 1])


# Waiting


def test_only_what_is_stable_ends_the_wait(broker: Broker) -> None:
    write(broker)
    committed, everything = park(broker, 0), park(broker, 1, level=0)
    answer = broker.send(produce_request("orders", batch()), V)
    assert [waiter for waiter, _ in answer.completions] == [everything]
    written = end(broker)
    ((waiter, response),) = written.completions
    assert waiter == committed
    assert offsets(by_partition(broker.received(response, FetchResponse, V))[ORDERS]) == [0, 1, 2]


def test_an_end_that_leaves_another_one_open_does_not_end_the_wait(broker: Broker) -> None:
    write(broker, 7)
    write(broker, 8)
    park(broker, 0)
    assert list(end(broker, 8).completions) == []
    assert len(list(end(broker, 7).completions)) == 1


def test_bytes_behind_the_first_open_transaction_do_not_count(broker: Broker) -> None:
    broker.fill("orders", 1)
    size = len(fetch(broker).records or b"")
    write(broker)
    broker.fill("orders", 10)
    waiter = park(broker, 0, min_bytes=2 * size)
    broker.advance(500)
    ((expired, response),) = broker.plane.expire_fetches(broker.monotonic_ms)
    assert expired == waiter
    assert offsets(by_partition(broker.received(response, FetchResponse, V))[ORDERS]) == [0]


def test_with_log_flush_always_the_wait_ends_when_the_end_is_on_the_disk(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/flushed", Config(log_flush=LogFlush.ALWAYS))
    broker.create("orders")
    write(broker)
    ((log, _),) = broker.answer.durable
    log.sync()
    waiter = park(broker, 0)
    written = end(broker)
    assert list(written.completions) == []
    assert fetch(broker).last_stable_offset == 0
    log.sync()
    ((completed, _),) = broker.plane.on_high_watermark_advanced("orders", 0, broker.monotonic_ms)
    assert completed == waiter
    assert fetch(broker).last_stable_offset == 2
    broker.stop()


def test_the_deletion_of_the_topic_ends_the_wait_and_the_transaction(broker: Broker) -> None:
    write(broker)
    waiter = park(broker, 0)
    answer = broker.send(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 3)
    assert [completed for completed, _ in answer.completions] == [waiter]
    broker.create("orders")
    broker.fill("orders", 1)
    assert offsets(fetch(broker)) == [0]


# Looking up


def test_the_latest_offset_is_the_last_stable_one(broker: Broker) -> None:
    broker.produce("orders", batch(time_ms=NOW_MS - 10))
    write(broker)
    assert (look_up(broker, LATEST), look_up(broker, LATEST, level=0)) == (1, 2)
    assert look_up(broker, EARLIEST) == 0
    assert (look_up(broker, NOW_MS - 10), look_up(broker, NOW_MS), look_up(broker, NOW_MS, level=0)) == (
        0,
        -1,
        1,
    )
    assert (look_up(broker, MAX_TIMESTAMP), look_up(broker, MAX_TIMESTAMP, level=0)) == (-1, 1)
    commit(broker)
    assert (look_up(broker, LATEST), look_up(broker, NOW_MS), look_up(broker, MAX_TIMESTAMP)) == (3, 1, 1)


# Records that go while their transaction is open


def test_deleted_records_of_an_open_transaction(broker: Broker) -> None:
    write(broker, 7, count=2)
    broker.fill("orders", 2)
    delete_before(broker, 1)
    assert fetch(broker, 1).last_stable_offset == 1
    delete_before(broker, 3)
    data = fetch(broker, 3)
    assert (data.last_stable_offset, data.records) == (3, b"")
    abort(broker, 7)
    data = fetch(broker, 3)
    assert (offsets(data), data.last_stable_offset) == ([3, 4], 5)


def test_retention_goes_up_to_the_high_watermark(broker: Broker) -> None:
    broker.create("short", internal_segment_bytes="150", retention_ms=str(DAY_MS))
    write(broker, topic="short", count=2)
    broker.fill("short", 6)
    broker.advance(2 * DAY_MS)
    broker.apply_retention()
    data = fetch(broker, 8, where=("short", 0))
    assert (data.log_start_offset, data.last_stable_offset) == (8, 8)
    broker.fill("short", 1)
    assert fetch(broker, 8, where=("short", 0)).records == b""
    end(broker, topic="short")
    assert offsets(fetch(broker, 8, where=("short", 0))) == [8, 9]


# --- topics with logs of another component


def test_an_internal_topic_is_read_up_to_what_its_owner_knows_to_be_stable(broker: Broker) -> None:
    log = PartitionLog.open(broker.files, f"{broker.path}/__consumer_offsets-0", LogConfig())
    known: list[ProducerStateManager | None] = [None]
    broker.plane.attach_internal(
        "__consumer_offsets", b"o" * 16, {}, 1, lambda _: log, lambda _: log.log_end_offset, known.__getitem__
    )
    where: Where = ("__consumer_offsets", 0)
    log.append(batch(2))
    data = fetch(broker, where=where)
    assert (data.high_watermark, data.last_stable_offset, data.records) == (2, 0, b"")
    known[0] = ProducerStateManager.load(log, DAY_MS)
    assert offsets(fetch(broker, where=where)) == [0, 1]
    log.append(transactional(7, 0, 0))
    log.append(batch())
    known[0] = ProducerStateManager.load(log, DAY_MS)
    data = fetch(broker, where=where)
    assert (offsets(data), data.high_watermark, data.last_stable_offset) == ([0, 1], 4, 2)
    log.close()
