import pytest

from coordinator.topics.data_plane_answer import PartitionsAdded
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tests.topics.broker import Broker, batch
from tests.topics.versions import all_of


def grow(
    broker: Broker,
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    *,
    validate_only: bool = False,
    times: int = 1,
    version: int | None = None,
) -> list[int]:
    topic = CreatePartitionsTopic(name=name, count=count)
    if assignments is not None:
        topic.assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
    request = CreatePartitionsRequest(topics=[topic] * times, timeout_ms=1000, validate_only=validate_only)
    return [r.error_code for r in broker.ask(request, CreatePartitionsResponse, version).results]


def count(broker: Broker) -> int:
    topic = broker.plane.catalogue.find_topic("orders")
    assert topic is not None
    return len(topic.partitions)


@pytest.mark.parametrize("version", all_of(CreatePartitionsRequest))
def test_every_version_grows(broker: Broker, version: int) -> None:
    topic_id = broker.create("orders", 2)
    assert grow(broker, "orders", 5, version=version) == [ErrorCode.NONE]
    assert broker.answer.changes == [PartitionsAdded("orders", topic_id, 5)]
    assert broker.produce("orders", batch(), 4).error_code == ErrorCode.NONE
    broker.restart()
    assert count(broker) == 5


@pytest.mark.parametrize(
    ("to", "assignments", "code"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (0, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (20_000, None, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_refusals_change_nothing(
    broker: Broker, to: int, assignments: list[list[int]] | None, code: ErrorCode
) -> None:
    broker.create("orders", 2)
    assert grow(broker, "orders", to, assignments) == [code]
    assert count(broker) == 2


def test_an_assignment_to_this_broker(broker: Broker) -> None:
    broker.create("orders", 2)
    assert grow(broker, "orders", 3, [[1]]) == [ErrorCode.NONE]


def test_a_topic_that_does_not_exist(broker: Broker) -> None:
    assert grow(broker, "gone", 3) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_twice_in_one_request(broker: Broker) -> None:
    broker.create("orders", 2)
    assert grow(broker, "orders", 3, times=2) == [ErrorCode.INVALID_REQUEST]
    assert count(broker) == 2


def test_validate_only(broker: Broker) -> None:
    broker.create("orders", 2)
    assert grow(broker, "orders", 3, validate_only=True) == [ErrorCode.NONE]
    assert count(broker) == 2
