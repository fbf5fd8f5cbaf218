from functools import partial

import pytest

from coordinator.topics.data_plane_answer import Answer
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.schema import ZERO_UUID
from storage.batch import encode_batch
from storage.record import Record
from tests.executed_code import count_bytecodes
from tests.topics.broker import NOW_MS, Broker, batch
from tests.topics.stepped_request import SteppedRequest
from tests.topics.versions import all_of

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6


@pytest.fixture
def filled(broker: Broker) -> Broker:
    """Times by offset: now, now + 10, now + 30, now + 20, now + 20."""
    broker.create("orders", 2)
    for delta in (0, 10, 30, 20, 20):
        broker.produce("orders", batch(time_ms=NOW_MS + delta))
    return broker


def look_up(
    broker: Broker,
    timestamp: int,
    *,
    topic: str = "orders",
    partition: int = 0,
    epoch: int = -1,
    version: int = 11,
    times: int = 1,
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp, max_num_offsets=9
    )
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted] * times)]
    )
    response = broker.ask(request, ListOffsetsResponse, version)
    (answer,) = response.topics[0].partitions
    return answer


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (-1, 5)),
        (EARLIEST, (-1, 0)),
        (EARLIEST_LOCAL, (-1, 0)),
        (MAX_TIMESTAMP, (NOW_MS + 30, 2)),
        (LATEST_TIERED, (-1, -1)),
        (PENDING_UPLOAD, (-1, -1)),
        (0, (NOW_MS, 0)),
        (NOW_MS, (NOW_MS, 0)),
        (NOW_MS + 1, (NOW_MS + 10, 1)),
        (NOW_MS + 11, (NOW_MS + 30, 2)),
        (NOW_MS + 30, (NOW_MS + 30, 2)),
        (NOW_MS + 31, (-1, -1)),
    ],
)
def test_what_is_found(filled: Broker, timestamp: int, expected: tuple[int, int]) -> None:
    answer = look_up(filled, timestamp)
    assert answer.error_code == ErrorCode.NONE
    assert (answer.timestamp, answer.offset) == expected
    assert answer.leader_epoch == (0 if answer.offset >= 0 else -1)


@pytest.mark.parametrize("version", [v for v in all_of(ListOffsetsRequest) if v > 0])
def test_special_times_need_their_version(filled: Broker, version: int) -> None:
    first = {
        LATEST: 1,
        EARLIEST: 1,
        MAX_TIMESTAMP: 7,
        EARLIEST_LOCAL: 8,
        LATEST_TIERED: 9,
        PENDING_UPLOAD: 11,
    }
    for timestamp, since in first.items():
        expected = ErrorCode.NONE if version >= since else ErrorCode.UNSUPPORTED_VERSION
        assert look_up(filled, timestamp, version=version).error_code == expected
    assert look_up(filled, -7, version=version).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_partition(filled: Broker) -> None:
    assert look_up(filled, LATEST, partition=1).offset == 0
    assert look_up(filled, EARLIEST, partition=1).offset == 0
    assert look_up(filled, MAX_TIMESTAMP, partition=1).offset == -1
    assert look_up(filled, 0, partition=1).offset == -1


def test_refusals(filled: Broker) -> None:
    assert look_up(filled, LATEST, topic="gone").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(filled, LATEST, partition=5).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(filled, LATEST, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert look_up(filled, LATEST, epoch=-2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert look_up(filled, LATEST, times=2).error_code == ErrorCode.INVALID_REQUEST


def test_version_0_lists_where_segments_begin(broker: Broker) -> None:
    broker.create("orders", internal_segment_bytes="150")
    broker.fill("orders", 4)
    assert look_up(broker, LATEST, version=0).old_style_offsets == [4, 2, 0]
    assert look_up(broker, EARLIEST, version=0).old_style_offsets == [0]
    assert look_up(broker, 0, version=0).old_style_offsets == []
    assert look_up(broker, MAX_TIMESTAMP, version=0).error_code == ErrorCode.UNSUPPORTED_VERSION


def begin_search(broker: Broker, timestamp: int, topic: str = "orders") -> SteppedRequest[Answer]:
    """Run a request about one partition to the first function for another thread."""
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
    search = broker.begin(request)
    while search.step is None:
        search.advance()
    return search


def delete_topic(broker: Broker) -> None:
    broker.send(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=ZERO_UUID)], timeout_ms=1000)
    )


def found(answer: Answer) -> ListOffsetsPartitionResponse:
    response = answer.response
    assert isinstance(response, ListOffsetsResponse)
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("timestamp", [NOW_MS + 1, MAX_TIMESTAMP])
def test_the_records_of_a_large_batch_are_not_read_on_the_event_loop(broker: Broker, timestamp: int) -> None:
    costs = []
    look_up(broker, LATEST, topic="none")  # the first request imports the handler
    for topic, count in (("small", 1), ("large", 1_000)):
        broker.create(topic)
        records = [Record(-1, NOW_MS + (number == count - 1), None, b"", ()) for number in range(count)]
        broker.produce(topic, encode_batch(records))
        search, cost_before = count_bytecodes(partial(begin_search, broker, timestamp, topic))
        resume = search.perform()
        _, cost_resumed = count_bytecodes(resume)
        answer, cost_after = count_bytecodes(search.finish)
        assert (found(answer).timestamp, found(answer).offset) == (NOW_MS + 1, count - 1)
        costs.append(cost_before + cost_resumed + cost_after)
    assert costs[0] == costs[1]


def test_a_topic_that_is_deleted_during_a_search(filled: Broker) -> None:
    resume = (search := begin_search(filled, NOW_MS + 11)).perform()
    delete_topic(filled)
    resume()
    assert found(search.finish()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_is_created_again_during_a_search(filled: Broker) -> None:
    resume = (search := begin_search(filled, NOW_MS + 11)).perform()
    delete_topic(filled)
    filled.create("orders")
    filled.produce("orders", batch(time_ms=NOW_MS + 40))
    resume()
    answer = found(search.finish())
    assert (answer.error_code, answer.timestamp, answer.offset) == (ErrorCode.NONE, NOW_MS + 40, 0)
