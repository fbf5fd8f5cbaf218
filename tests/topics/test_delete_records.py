import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.topics.broker import Broker
from tests.topics.versions import all_of


def delete(
    broker: Broker, offset: int, *, topic: str = "orders", partition: int = 0, version: int | None = None
) -> tuple[int, int]:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=1000
    )
    (answer,) = broker.ask(request, DeleteRecordsResponse, version).topics[0].partitions
    return answer.error_code, answer.low_watermark


def start(broker: Broker) -> int:
    part = broker.plane.catalogue.find_partition("orders", 0)
    assert part is not None
    assert part.log is not None
    return part.log.log_start_offset


@pytest.fixture
def filled(broker: Broker) -> Broker:
    broker.create("orders")
    broker.fill("orders", 5)
    return broker


@pytest.mark.parametrize("version", all_of(DeleteRecordsRequest))
def test_every_version_moves_the_start(filled: Broker, version: int) -> None:
    assert delete(filled, 3, version=version) == (ErrorCode.NONE, 3)
    assert delete(filled, 2, version=version) == (ErrorCode.NONE, 3)
    assert start(filled) == 3


def test_minus_one_means_everything_that_can_be_read(filled: Broker) -> None:
    assert delete(filled, -1) == (ErrorCode.NONE, 5)


@pytest.mark.parametrize("offset", [-2, 6])
def test_offsets_out_of_range(filled: Broker, offset: int) -> None:
    assert delete(filled, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert start(filled) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_deleted_records_stay_deleted(filled: Broker, clean: bool) -> None:
    delete(filled, 3)
    if clean:
        filled.restart()
    else:
        filled.crash()
        filled.open()
    assert start(filled) == 3


def test_refusals(filled: Broker) -> None:
    filled.create("compacted", cleanup_policy="compact")
    filled.create("__share_group_state")
    assert delete(filled, 0, topic="gone") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(filled, 0, partition=3) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(filled, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete(filled, 0, topic="__share_group_state") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_a_partition_is_answered_once_and_a_topic_without_partitions_not_at_all(filled: Broker) -> None:
    wanted = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (3, 2)]
    topics = [
        DeleteRecordsTopic(name="orders", partitions=wanted),
        DeleteRecordsTopic(name="orders", partitions=[]),
    ]
    response = filled.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), DeleteRecordsResponse)
    ((answer,),) = (topic.partitions for topic in response.topics)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)
    assert start(filled) == 2
