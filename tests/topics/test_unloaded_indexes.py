"""Fetches from segments of which a thread has to load the indexes first."""

import os
from pathlib import Path

import pytest

from coordinator.core.response_status import BLOCKED
from coordinator.topics.data_plane_answer import Answer, PartitionFailed
from coordinator.topics.partition import HostedPartition
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from storage.segment import LogSegment
from storage.storage_errors import LogClosed
from tests.topics.broker import Broker
from tests.topics.fetching import Where, by_partition, fetch_request, offsets
from tests.topics.stepped_request import SteppedRequest

V = 12
ORDERS: Where = ("orders", 0)
OTHER: Where = ("orders", 1)
PAYMENTS: Where = ("payments", 0)


def find(broker: Broker, where: Where = ORDERS) -> HostedPartition:
    topic = broker.plane.catalogue.find_topic(where[0])
    assert topic is not None
    return topic.hosted[where[1]]


def sealed_segments(broker: Broker, where: Where = ORDERS) -> list[LogSegment]:
    log = find(broker, where).log
    assert log is not None
    return list(log.segments[:-1])


def remove_indexes(broker: Broker) -> None:
    """Restart the broker without the indexes of the sealed segments."""
    paths = [each.path for where in (ORDERS, OTHER, PAYMENTS) for each in sealed_segments(broker, where)]
    broker.stop()
    for path in paths:
        os.unlink(path.removesuffix("log") + "index")
    broker.open()


@pytest.fixture
def unloaded(broker: Broker) -> Broker:
    """Three partitions with sealed segments without indexes; 10 batches of one record in each partition."""
    broker.create("orders", 2, internal_segment_bytes="200")
    broker.create("payments", internal_segment_bytes="200")
    for topic, partition in (ORDERS, OTHER, PAYMENTS):
        broker.fill(topic, 10, partition)
    remove_indexes(broker)
    assert all(len(sealed_segments(broker, where)) > 2 for where in (ORDERS, OTHER, PAYMENTS))
    return broker


def begin(broker: Broker, request: FetchRequest) -> SteppedRequest[Answer]:
    """Begin a fetch. It must suspend for a thread."""
    fetch = broker.begin(request, V)
    assert fetch.step is not None
    return fetch


def finish(broker: Broker, fetch: SteppedRequest[Answer]) -> dict[Where, PartitionData]:
    return by_partition(broker.received(fetch.finish().response, FetchResponse, V))


def read_now(broker: Broker, request: FetchRequest) -> dict[Where, PartitionData]:
    return by_partition(broker.ask(request, FetchResponse, V))


def delete(broker: Broker, topic: str) -> None:
    broker.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000), DeleteTopicsResponse, 5)


def test_the_event_loop_walks_no_segment(unloaded: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = begin(unloaded, fetch_request({ORDERS: 0, OTHER: 3}))
    walked: list[str] = []
    walk = LogSegment.rebuild_indexes

    def rebuild(segment: LogSegment, index_interval_bytes: int) -> None:
        walked.append(segment.path)
        walk(segment, index_interval_bytes)

    monkeypatch.setattr(LogSegment, "rebuild_indexes", rebuild)
    while not fetch.is_ended:
        resume = fetch.perform()
        loaded = len(walked)
        resume()
        assert len(walked) == loaded
    assert len(walked) == 2
    found = finish(unloaded, fetch)
    assert (offsets(found[ORDERS])[0], offsets(found[OTHER])[-1]) == (0, 3)


def test_each_segment_of_a_log_is_read(unloaded: Broker) -> None:
    found: list[int] = []
    while len(found) < 10:
        found += offsets(read_now(unloaded, fetch_request({ORDERS: len(found)}))[ORDERS])
    assert found == list(range(10))


def test_a_topic_deleted_meanwhile_is_unknown(unloaded: Broker) -> None:
    fetch = begin(unloaded, fetch_request({ORDERS: 0, PAYMENTS: 0}))
    resume = fetch.perform()
    delete(unloaded, "payments")
    resume()
    found = finish(unloaded, fetch)
    assert offsets(found[ORDERS])
    assert found[PAYMENTS].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_deleted_before_its_segment_is_opened_is_unknown(unloaded: Broker) -> None:
    fetch = begin(unloaded, fetch_request({ORDERS: 0, PAYMENTS: 0}))
    delete(unloaded, "orders")
    found = finish(unloaded, fetch)
    assert found[ORDERS].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(found[PAYMENTS])


def test_a_log_opened_anew_meanwhile_is_loaded_anew(unloaded: Broker) -> None:
    fetch = begin(unloaded, fetch_request({ORDERS: 0}))
    partition = find(unloaded)
    assert partition.log is not None
    resume = fetch.perform()
    partition.log = partition.log.reopen()
    resume()
    assert offsets(finish(unloaded, fetch)[ORDERS])[0] == 0


def test_a_closed_log_fails_its_partition_alone(unloaded: Broker) -> None:
    fetch = begin(unloaded, fetch_request({ORDERS: 0, OTHER: 0}))
    log = find(unloaded, OTHER).log
    assert log is not None
    log.close()
    with pytest.raises(LogClosed):
        log.find_segment(0)
    found = finish(unloaded, fetch)
    assert offsets(found[ORDERS])
    assert found[OTHER].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_damaged_segment_fails_its_partition_alone(unloaded: Broker) -> None:
    path = Path(sealed_segments(unloaded, OTHER)[0].path)
    data = bytearray(path.read_bytes())
    data[8:12] = bytes(4)  # the length of the first batch
    path.write_bytes(data)
    fetch = begin(unloaded, fetch_request({ORDERS: 0, OTHER: 0}))
    answer = fetch.finish()
    found = by_partition(unloaded.received(answer.response, FetchResponse, V))
    assert offsets(found[ORDERS])
    assert found[OTHER].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (failed,) = answer.changes
    assert isinstance(failed, PartitionFailed)
    assert (failed.name, failed.partition) == OTHER


def test_records_appended_meanwhile_are_returned(unloaded: Broker) -> None:
    fetch = begin(unloaded, fetch_request({PAYMENTS: 10, ORDERS: 0}))
    unloaded.fill("payments", 1)
    assert offsets(finish(unloaded, fetch)[PAYMENTS]) == [10]


def wait_with_sealed_records(broker: Broker) -> None:
    """Let a fetch wait for more records than the last sealed segment and the active one have."""
    offset = sealed_segments(broker)[-1].base_offset
    request = fetch_request({ORDERS: offset}, max_wait_ms=500, min_bytes=10**6)
    assert begin(broker, request).finish().response is BLOCKED


def test_a_fetch_waits_after_the_load(unloaded: Broker) -> None:
    wait_with_sealed_records(unloaded)
    unloaded.advance(500)
    ((_, response),) = unloaded.plane.expire_fetches(unloaded.monotonic_ms)
    found = by_partition(unloaded.received(response, FetchResponse, V))
    assert offsets(found[ORDERS])


def test_a_delayed_fetch_suspends_for_a_log_that_was_opened_anew(unloaded: Broker) -> None:
    wait_with_sealed_records(unloaded)
    partition = find(unloaded)
    assert partition.log is not None
    partition.log = partition.log.reopen()
    unloaded.advance(500)
    ((_, answer),) = unloaded.plane.expire_fetches(unloaded.monotonic_ms)
    assert callable(answer)
    fetch = SteppedRequest[Answer](answer(unloaded.create_work()))
    assert fetch.step is not None
    assert offsets(finish(unloaded, fetch)[ORDERS])


def test_a_later_request_of_the_session_refuses_the_suspended_one(unloaded: Broker) -> None:
    full = fetch_request({PAYMENTS: 10}, session=(0, 0))
    session_id = unloaded.ask(full, FetchResponse, V).session_id
    fetch = begin(unloaded, fetch_request({ORDERS: 0}, session=(session_id, 1)))
    second = unloaded.ask(fetch_request({}, session=(session_id, 2)), FetchResponse, V)
    assert second.error_code == ErrorCode.NONE
    first = unloaded.received(fetch.finish().response, FetchResponse, V)
    assert (first.error_code, first.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])
