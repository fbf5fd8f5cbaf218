import gc
from weakref import ref

import pytest

from coordinator.config.properties import Config
from coordinator.topics.data_plane_answer import TopicDeleted
from coordinator.topics.partition import HostedPartition
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.schema import ZERO_UUID
from tests.topics.broker import Broker
from tests.topics.versions import all_of


def delete(broker: Broker, *topics: tuple[str | None, bytes]) -> list[tuple[str | None, int]]:
    states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
    response = broker.ask(DeleteTopicsRequest(topics=states, timeout_ms=1000), DeleteTopicsResponse)
    return [(result.name, result.error_code) for result in response.responses]


@pytest.mark.parametrize("version", all_of(DeleteTopicsRequest))
def test_every_version_deletes_by_name(broker: Broker, version: int) -> None:
    topic_id = broker.create("orders", 2)
    broker.fill("orders", 3)
    request = DeleteTopicsRequest(topic_names=["orders", "gone"], timeout_ms=1000)
    if version >= 6:
        states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in ("orders", "gone")]
        request = DeleteTopicsRequest(topics=states, timeout_ms=1000)
    response = broker.ask(request, DeleteTopicsResponse, version)
    assert {result.name: result.error_code for result in response.responses} == {
        "orders": ErrorCode.NONE,
        "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert broker.answer.changes == [TopicDeleted("orders", topic_id)]
    assert broker.ask(MetadataRequest(topics=None), MetadataResponse).topics == []
    assert not [name for name in broker.files.listdir(broker.path) if name.startswith("orders")]


def test_a_topic_of_the_same_name_starts_empty_with_another_id(broker: Broker) -> None:
    first = broker.create("orders")
    broker.fill("orders", 3)
    delete(broker, ("orders", ZERO_UUID))
    second = broker.create("orders")
    assert second != first
    broker.restart()
    assert broker.produce("orders", None).error_code == ErrorCode.INVALID_RECORD
    part = broker.plane.catalogue.find_partition("orders", 0)
    assert part is not None
    assert part.high_watermark == 0


def partitions_alive() -> int:
    """Return the number of hosted partitions in this process, over all brokers."""
    return sum(isinstance(one, HostedPartition) for one in gc.get_objects())


def test_nothing_of_a_topic_waits_for_a_collection_of_garbage(broker: Broker) -> None:
    """Full ones are rare: topics that come and go would pile up until then."""
    gc.collect()
    gc.disable()
    before = partitions_alive()
    try:
        broker.create("orders", 2)
        broker.fill("orders", 3)
        assert partitions_alive() == before + 2
        log = broker.plane.catalogue.find_topic("orders").partitions[0].log  # type: ignore[union-attr]
        assert log is not None
        is_there = ref(log)
        del log
        delete(broker, ("orders", ZERO_UUID))
        assert is_there() is None
        assert partitions_alive() == before
    finally:
        gc.enable()


def test_a_partition_of_a_topic_that_is_deleted_is_not_opened_again(broker: Broker) -> None:
    """A caller with the old partition object would otherwise create the directory again."""
    broker.create("orders")
    part = broker.plane.catalogue.find_topic("orders").hosted[0]  # type: ignore[union-attr]
    assert part.log is not None
    part.log.close_deleted()
    part.log = None  # it was offline
    delete(broker, ("orders", ZERO_UUID))
    assert part.usable_log(10**9) is None
    assert not [name for name in broker.files.listdir(broker.path) if name.startswith("orders")]


def test_by_id(broker: Broker) -> None:
    topic_id = broker.create("orders")
    assert delete(broker, (None, b"x" * 16), (None, topic_id)) == [
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ("orders", ErrorCode.NONE),
    ]


def test_requests_that_contradict_themselves(broker: Broker) -> None:
    topic_id = broker.create("orders")
    assert delete(broker, (None, ZERO_UUID)) == [(None, ErrorCode.INVALID_REQUEST)]
    assert delete(broker, ("orders", topic_id)) == [("orders", ErrorCode.INVALID_REQUEST)]
    assert delete(broker, *[("orders", ZERO_UUID)] * 2) == [("orders", ErrorCode.INVALID_REQUEST)]
    assert delete(broker, *[(None, topic_id)] * 2) == [(None, ErrorCode.INVALID_REQUEST)]
    by_both: list[tuple[str | None, bytes]] = [("orders", ZERO_UUID), (None, topic_id)]
    for topics in (by_both, by_both[::-1]):
        assert delete(broker, *topics) == [("orders", ErrorCode.INVALID_REQUEST)]
    assert broker.plane.catalogue.find_topic("orders") is not None


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_can_be_turned_off(tmp_path: object, version: int, code: ErrorCode) -> None:
    broker = Broker(f"{tmp_path}/data", Config(delete_topic_enable=False))
    broker.create("orders")
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
    response = broker.ask(request, DeleteTopicsResponse, version)
    assert [result.error_code for result in response.responses] == [code]
    assert broker.plane.catalogue.find_topic("orders") is not None
    broker.stop()
