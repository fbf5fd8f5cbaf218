"""A topic change with a zero timeout gets an error and changes nothing."""

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tests.topics.broker import Broker

NO_TIME = pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
LATE = ErrorCode.REQUEST_TIMED_OUT


def new(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])


@NO_TIME
@pytest.mark.parametrize("validate_only", [False, True])
def test_no_topic_is_made(broker: Broker, timeout_ms: int, validate_only: bool) -> None:
    names = ["lines", "not a name!", "lines"]
    request = CreateTopicsRequest(
        topics=[new(name) for name in names], timeout_ms=timeout_ms, validate_only=validate_only
    )
    results = broker.ask(request, CreateTopicsResponse).topics
    assert [(result.name, result.error_code) for result in results] == [(name, LATE) for name in names]
    assert broker.plane.catalogue.find_topic("lines") is None
    assert broker.answer.changes == ()


@NO_TIME
def test_no_topic_is_deleted(broker: Broker, timeout_ms: int) -> None:
    topic_id = broker.create("orders")
    states = [
        DeleteTopicState(name="orders", topic_id=bytes(16)),
        DeleteTopicState(name=None, topic_id=topic_id),
    ]
    results = broker.ask(
        DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms), DeleteTopicsResponse
    ).responses
    assert [(result.name, result.topic_id, result.error_code) for result in results] == [
        ("orders", bytes(16), LATE),
        (None, topic_id, LATE),
    ]
    assert broker.plane.catalogue.find_topic("orders") is not None


@NO_TIME
def test_no_topic_grows(broker: Broker, timeout_ms: int) -> None:
    broker.create("orders")
    topics = [CreatePartitionsTopic(name="orders", count=3)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=False)
    assert broker.ask(request, CreatePartitionsResponse).results[0].error_code == LATE
    topic = broker.plane.catalogue.find_topic("orders")
    assert topic is not None
    assert len(topic.partitions) == 1
