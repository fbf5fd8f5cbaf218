from typing import Any

import pytest

from coordinator.config.properties import Config
from coordinator.core.response_status import BLOCKED
from coordinator.core.shared_types import LogFlush
from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from storage.batch import HEADER_BYTES
from tests.topics.broker import Broker, batch, produce_request
from tests.topics.fetching import FOREVER_MS, Where, by_partition, fetch_request, offsets
from tests.topics.versions import all_of

V = 12
"""The last version that fetches by name."""
ORDERS: Where = ("orders", 0)


def fetch(broker: Broker, request: FetchRequest, version: int = V) -> dict[Where, PartitionData]:
    return by_partition(broker.ask(request, FetchResponse, version))


def one(broker: Broker, offset: int = 0, **more: Any) -> PartitionData:
    return fetch(broker, fetch_request({ORDERS: offset}, **more))[ORDERS]


@pytest.fixture
def filled(broker: Broker) -> Broker:
    """Two partitions; ten batches of one record in the first."""
    broker.create("orders", 2)
    broker.fill("orders", 10)
    return broker


@pytest.mark.parametrize("version", all_of(FetchRequest))
def test_every_version(filled: Broker, version: int) -> None:
    topic = filled.plane.catalogue.find_topic("orders")
    assert topic is not None
    request = fetch_request({ORDERS: 4})
    request.topics[0].topic_id = topic.topic_id
    response = filled.ask(request, FetchResponse, version)
    assert response.error_code == 0
    (answer,) = response.responses
    assert (answer.topic, answer.topic_id) == (
        ("orders", bytes(16)) if version < 13 else ("", topic.topic_id)
    )
    (data,) = answer.partitions
    assert data.error_code == ErrorCode.NONE
    assert (data.high_watermark, data.last_stable_offset) == (10, 10)
    if version >= 5:
        assert data.log_start_offset == 0
    assert offsets(data) == [4, 5, 6, 7, 8, 9]
    assert (data.aborted_transactions, data.preferred_read_replica) == (None, -1)


def test_read_committed_has_no_aborted_transactions(filled: Broker) -> None:
    assert one(filled, isolation_level=1).aborted_transactions == []


def test_an_offset_inside_a_batch_brings_the_batch(broker: Broker) -> None:
    broker.create("orders")
    broker.produce("orders", batch(5))
    assert offsets(one(broker, 3)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("offset", [-1, 11, 10**9])
def test_offsets_out_of_range(filled: Broker, offset: int) -> None:
    data = one(filled, offset)
    assert (data.error_code, data.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_an_offset_that_was_deleted_is_out_of_range(filled: Broker) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=5)
    topic = DeleteRecordsTopic(name="orders", partitions=[partition])
    filled.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), DeleteRecordsResponse)
    assert one(filled, 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert one(filled, 5).log_start_offset == 5
    assert offsets(one(filled, 5)) == [5, 6, 7, 8, 9]


def test_the_end_of_the_log_is_empty(filled: Broker) -> None:
    data = one(filled, 10)
    assert (data.error_code, data.high_watermark, data.records) == (ErrorCode.NONE, 10, b"")


def test_partitions_that_do_not_exist(filled: Broker) -> None:
    found = fetch(filled, fetch_request({("gone", 0): 0, ("orders", 7): 0}))
    assert {data.error_code for data in found.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    request = fetch_request({("", 0): 0})
    for unknown in (b"x" * 16, bytes(16)):
        request.topics[0].topic_id = unknown
        response = filled.ask(request, FetchResponse)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("current", "code"),
    [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_the_epoch_that_the_consumer_believes_in(filled: Broker, current: int, code: ErrorCode) -> None:
    assert one(filled, current_leader_epoch=current).error_code == code


def test_an_epoch_that_the_log_never_had(filled: Broker) -> None:
    assert one(filled, 3, last_fetched_epoch=5).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets(one(filled, 3, last_fetched_epoch=0)) == [3, 4, 5, 6, 7, 8, 9]


def test_an_offset_past_the_end_of_its_epoch_diverges(filled: Broker) -> None:
    data = one(filled, 11, last_fetched_epoch=0)
    assert data.diverging_epoch is not None
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 10)
    assert data.records == b""


# Sizes


def size_of_one(broker: Broker) -> int:
    return len(one(broker, 9).records or b"")


def test_a_partition_gives_at_most_its_bytes_but_at_least_one_batch(filled: Broker) -> None:
    size = size_of_one(filled)
    assert offsets(one(filled, partition_max_bytes=3 * size + 5)) == [0, 1, 2]
    assert offsets(one(filled, partition_max_bytes=5)) == [0]
    assert offsets(one(filled, partition_max_bytes=0)) == [0]
    assert offsets(one(filled, max_bytes=2 * size)) == [0, 1]
    assert offsets(one(filled, max_bytes=0)) == [0]


def test_the_last_batch_is_cut_where_the_bytes_end(filled: Broker) -> None:
    size = size_of_one(filled)
    whole = one(filled).records or b""
    assert one(filled, partition_max_bytes=3 * size + 5).records == whole[: 3 * size + 5]
    assert one(filled, max_bytes=2 * size + 30).records == whole[: 2 * size + 30]
    assert one(filled, partition_max_bytes=100 * size).records == whole


def test_only_the_first_partition_with_records_may_exceed_its_bytes(filled: Broker) -> None:
    filled.fill("orders", 3, 1)
    size = size_of_one(filled)
    wanted = {("orders", 1): 3, ORDERS: 0}
    found = fetch(filled, fetch_request(wanted, partition_max_bytes=1))
    assert [offsets(data) for data in found.values()] == [[], [0]]
    wanted = {ORDERS: 0, ("orders", 1): 0}
    found = fetch(filled, fetch_request(wanted, partition_max_bytes=1))
    assert [offsets(data) for data in found.values()] == [[0], []]
    found = fetch(filled, fetch_request(wanted, max_bytes=11 * size))
    assert [len(offsets(data)) for data in found.values()] == [10, 1]


# Waiting


def test_a_fetch_at_the_end_waits_for_a_record(filled: Broker) -> None:
    assert filled.send(fetch_request({ORDERS: 10}, max_wait_ms=500), V).response is BLOCKED
    waiter = filled.waiter
    answer = filled.send(produce_request("orders", batch()), 12)
    ((completed, response),) = answer.completions
    assert completed == waiter
    data = by_partition(filled.received(response, FetchResponse, V))[ORDERS]
    assert offsets(data) == [10]
    assert len(filled.plane.fetch_purgatory) == 0


def test_it_is_not_woken_by_another_partition(filled: Broker) -> None:
    filled.send(fetch_request({ORDERS: 10}, max_wait_ms=500), V)
    assert not filled.send(produce_request("orders", batch(), 1), 12).completions
    assert len(filled.plane.fetch_purgatory) == 1


def test_it_is_answered_empty_when_its_time_is_up(filled: Broker) -> None:
    filled.send(fetch_request({ORDERS: 10}, max_wait_ms=500), V)
    assert filled.plane.next_deadline_ms() == filled.monotonic_ms + 500
    filled.advance(499)
    assert not filled.plane.expire_fetches(filled.monotonic_ms)
    filled.advance(1)
    ((waiter, response),) = filled.plane.expire_fetches(filled.monotonic_ms)
    assert waiter == filled.waiter
    data = by_partition(filled.received(response, FetchResponse, V))[ORDERS]
    assert (data.error_code, data.records) == (ErrorCode.NONE, b"")
    assert filled.plane.next_deadline_ms() is None


@pytest.mark.parametrize("codes", ["gone", "out of range"])
def test_an_error_does_not_wait_but_a_missing_topic_does(filled: Broker, codes: str) -> None:
    if codes == "gone":
        assert filled.send(fetch_request({("gone", 0): 0}, max_wait_ms=500), V).response is not BLOCKED
        wanted = {("gone", 0): 0, ORDERS: 10}
        assert filled.send(fetch_request(wanted, max_wait_ms=500), V).response is BLOCKED
    else:
        wanted = {("orders", 1): 99, ORDERS: 10}
        assert filled.send(fetch_request(wanted, max_wait_ms=500), V).response is not BLOCKED


@pytest.mark.parametrize("max_wait_ms", [0, -1])
def test_one_that_does_not_want_to_wait(filled: Broker, max_wait_ms: int) -> None:
    assert filled.send(fetch_request({ORDERS: 10}, max_wait_ms=max_wait_ms), V).response is not BLOCKED


def test_min_bytes_are_awaited_over_all_partitions(filled: Broker) -> None:
    size = size_of_one(filled)
    wanted = {ORDERS: 9, ("orders", 1): 0}
    request = fetch_request(wanted, max_wait_ms=500, min_bytes=4 * size)
    assert filled.send(request, V).response is BLOCKED
    assert not filled.send(produce_request("orders", batch()), 12).completions
    assert not filled.send(produce_request("orders", batch(), 1), 12).completions
    ((_, response),) = filled.send(produce_request("orders", batch(), 1), 12).completions
    found = by_partition(filled.received(response, FetchResponse, V))
    assert {where: offsets(data) for where, data in found.items()} == {ORDERS: [9, 10], ("orders", 1): [0, 1]}


def test_bytes_that_the_answer_cannot_hold_do_not_count(filled: Broker) -> None:
    size = size_of_one(filled)
    request = fetch_request(
        {ORDERS: 9, ("orders", 1): 0}, max_wait_ms=500, min_bytes=2 * size, partition_max_bytes=size
    )
    assert filled.send(request, V).response is BLOCKED
    assert not filled.send(produce_request("orders", batch()), 12).completions
    assert filled.send(produce_request("orders", batch(), 1), 12).completions


def test_records_in_the_next_segment_count(broker: Broker) -> None:
    broker.create("orders", internal_segment_bytes="200")
    broker.fill("orders", 10)
    request = fetch_request({ORDERS: 0}, max_wait_ms=500, min_bytes=5 * HEADER_BYTES)
    assert broker.send(request, V).response is not BLOCKED


def test_more_min_bytes_than_any_answer_holds(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(fetch_max_bytes=1024))
    broker.create("orders")
    broker.fill("orders", 1, size=2000)
    request = fetch_request({ORDERS: 0}, max_wait_ms=500, min_bytes=2**31 - 1)
    assert broker.send(request, V).response is not BLOCKED
    broker.stop()


def test_the_deletion_of_its_topic_ends_the_wait(filled: Broker) -> None:
    filled.send(fetch_request({ORDERS: 10}, max_wait_ms=500), V)
    deletion = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
    ((_, response),) = filled.send(deletion, 5).completions
    data = by_partition(filled.received(response, FetchResponse, V))[ORDERS]
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_waiter_that_is_gone_is_forgotten(filled: Broker) -> None:
    filled.send(fetch_request({ORDERS: 10}, max_wait_ms=500), V)
    filled.plane.forget_waiter(filled.waiter)
    filled.plane.forget_waiter(filled.waiter)
    assert not filled.send(produce_request("orders", batch()), 12).completions
    filled.advance(500)
    assert not filled.plane.expire_fetches(filled.monotonic_ms)


def test_many_waiters_wake_in_the_order_in_which_they_came(filled: Broker) -> None:
    waiters = []
    for _ in range(200):
        filled.send(fetch_request({ORDERS: 10}, max_wait_ms=FOREVER_MS), V)
        waiters.append(filled.waiter)
    completions = filled.send(produce_request("orders", batch()), 12).completions
    assert [waiter for waiter, _ in completions] == waiters
    assert filled.plane.next_deadline_ms() is None


def test_with_log_flush_always_consumers_see_what_the_disk_has(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(log_flush=LogFlush.ALWAYS))
    broker.create("orders")
    broker.send(fetch_request({ORDERS: 0}, max_wait_ms=500), V)
    waiter = broker.waiter
    answer = broker.send(produce_request("orders", batch()), 12)
    assert not answer.completions
    assert one(broker).high_watermark == 0
    ((log, _),) = answer.durable
    log.sync()
    ((completed, _),) = broker.plane.on_high_watermark_advanced("orders", 0, broker.monotonic_ms)
    assert completed == waiter
    assert offsets(one(broker)) == [0]
    broker.stop()
