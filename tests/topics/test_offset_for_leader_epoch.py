import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.topics.broker import Broker
from tests.topics.versions import all_of


def look_up(
    broker: Broker, epoch: int, *, current: int = -1, topic: str = "orders", version: int | None = None
) -> tuple[int, int, int]:
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])])
    response = broker.ask(request, OffsetForLeaderEpochResponse, version)
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.fixture
def filled(broker: Broker) -> Broker:
    broker.create("orders")
    broker.fill("orders", 3)
    return broker


@pytest.mark.parametrize("version", all_of(OffsetForLeaderEpochRequest))
def test_the_only_epoch_ends_where_the_log_ends(filled: Broker, version: int) -> None:
    code, epoch, end_offset = look_up(filled, 0, version=version)
    assert (code, end_offset) == (ErrorCode.NONE, 3)
    assert epoch == (0 if version >= 1 else -1)


def test_other_epochs(filled: Broker) -> None:
    assert look_up(filled, 5) == (ErrorCode.NONE, -1, -1)
    assert look_up(filled, -1) == (ErrorCode.NONE, -1, -1)


def test_refusals(filled: Broker) -> None:
    assert look_up(filled, 0, topic="gone") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert look_up(filled, 0, current=1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert look_up(filled, 0, current=-3) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert look_up(filled, 0, current=0) == (ErrorCode.NONE, 0, 3)
