import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.topics.broker import Broker


def describe(
    broker: Broker, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return broker.ask(request, DescribeTopicPartitionsResponse)


def page(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, part.partition_index) for topic in response.topics for part in topic.partitions]


@pytest.fixture
def filled(broker: Broker) -> Broker:
    broker.create("b", 2)
    broker.create("a", 3)
    return broker


def test_topics_come_in_order_of_name(filled: Broker) -> None:
    response = describe(filled, "b", "a")
    assert [topic.name for topic in response.topics] == ["a", "b"]
    assert response.next_cursor is None


def test_no_topic_asked_for_means_all(filled: Broker) -> None:
    assert page(describe(filled)) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_pages_hold_every_partition_once(filled: Broker, limit: int) -> None:
    seen: list[tuple[str | None, int]] = []
    cursor = None
    while True:
        response = describe(filled, "a", "b", limit=limit, cursor=cursor)
        assert len(page(response)) <= limit
        seen += page(response)
        if response.next_cursor is None:
            break
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]


def test_a_limit_below_one_counts_as_one(filled: Broker) -> None:
    response = describe(filled, "a", limit=0)
    assert page(response) == [("a", 0)]
    assert response.next_cursor == Cursor(topic_name="a", partition_index=1)


def test_topics_that_do_not_exist(filled: Broker) -> None:
    response = describe(filled, "gone", "no/pe")
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no/pe", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
def test_a_cursor_that_makes_no_sense(filled: Broker, cursor: tuple[str, int]) -> None:
    response = describe(filled, "a", cursor=cursor)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST]
