import pytest

from coordinator.topics.data_plane import DeclaredTopicShrinks
from coordinator.topics.data_plane_answer import PartitionsAdded, TopicCreated
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.fetch import FetchResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.producers.producer_state_manager import ProducerStateManager
from tests.topics.broker import Broker, batch
from tests.topics.fetching import Where, by_partition, fetch_request, offsets
from tests.topics.stepped_request import SteppedRequest

OFFSETS: Where = ("__consumer_offsets", 1)
DAY_MS = 24 * 60 * 60 * 1000


# Declared topics


def test_a_declared_topic_is_created_kept_and_grown(broker: Broker) -> None:
    created = broker.plane.declare_topic("orders", 3)
    assert isinstance(created, TopicCreated)
    assert broker.plane.declare_topic("orders", 3) is None
    assert broker.plane.declare_topic("orders", 5) == PartitionsAdded("orders", created.topic_id, 5)
    broker.restart()
    assert broker.plane.declare_topic("orders", 5) is None


def test_a_declared_topic_does_not_shrink(broker: Broker) -> None:
    broker.plane.declare_topic("orders", 3)
    with pytest.raises(DeclaredTopicShrinks):
        broker.plane.declare_topic("orders", 2)
    assert broker.plane.declare_topic("orders", 3) is None


@pytest.mark.parametrize(
    ("name", "partitions"), [("no/pe", 1), ("", 1), ("orders", 0), ("__consumer_offsets", 1), ("a_b", 1)]
)
def test_declarations_that_make_no_sense(broker: Broker, name: str, partitions: int) -> None:
    broker.create("a.b")
    with pytest.raises(ValueError, match=r"(?i)topic|server"):
        broker.plane.declare_topic(name, partitions)


# --- topics with logs of another component


class Offsets:
    """The group logs; consumers may read durable records."""

    def __init__(self, broker: Broker) -> None:
        self.logs: list[PartitionLog | None] = [
            PartitionLog.open(broker.files, f"{broker.path}/__consumer_offsets-{n}", LogConfig())
            for n in range(2)
        ]
        self.producers = [
            None if log is None else ProducerStateManager.load(log, DAY_MS) for log in self.logs
        ]
        broker.plane.attach_internal(
            "__consumer_offsets",
            b"o" * 16,
            {"cleanup.policy": "compact"},
            2,
            self.logs.__getitem__,
            self.high_watermark,
            self.producers.__getitem__,
        )

    def high_watermark(self, number: int) -> int:
        log = self.logs[number]
        return 0 if log is None else log.durable_offset


@pytest.fixture
def groups(broker: Broker) -> Offsets:
    return Offsets(broker)


def test_an_internal_topic_is_described_as_one(broker: Broker, groups: Offsets) -> None:
    (topic,) = broker.ask(MetadataRequest(topics=None), MetadataResponse).topics
    assert (topic.name, topic.topic_id, topic.is_internal) == ("__consumer_offsets", b"o" * 16, True)
    assert [(p.error_code, p.leader_id) for p in topic.partitions] == [(0, 1), (0, 1)]
    groups.logs[1] = None
    (topic,) = broker.ask(MetadataRequest(topics=None), MetadataResponse).topics
    assert topic.partitions[1].error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_it_is_read_up_to_its_high_watermark(broker: Broker, groups: Offsets) -> None:
    log = groups.logs[1]
    assert log is not None
    log.append(batch(2))
    broker.send(fetch_request({OFFSETS: 0}, max_wait_ms=500), 12)
    assert not broker.plane.on_high_watermark_advanced("__consumer_offsets", 1, broker.monotonic_ms)
    log.sync()
    assert not broker.plane.on_high_watermark_advanced("__consumer_offsets", 0, broker.monotonic_ms)
    ((waiter, response),) = broker.plane.on_high_watermark_advanced(
        "__consumer_offsets", 1, broker.monotonic_ms
    )
    assert waiter == broker.waiter
    assert offsets(by_partition(broker.received(response, FetchResponse, 12))[OFFSETS]) == [0, 1]


def test_an_offline_partition_of_it(broker: Broker, groups: Offsets) -> None:
    groups.logs[1] = None
    response = broker.ask(fetch_request({OFFSETS: 0}), FetchResponse, 12)
    assert by_partition(response)[OFFSETS].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    response = broker.ask(fetch_request({OFFSETS: 0}), FetchResponse, 5)
    assert by_partition(response)[OFFSETS].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_clients_cannot_change_it(broker: Broker, groups: Offsets) -> None:
    assert broker.produce(OFFSETS[0], batch(), 1).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    topic = CreatePartitionsTopic(name=OFFSETS[0], count=9)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1, validate_only=False)
    (result,) = broker.ask(request, CreatePartitionsResponse).results
    assert result.error_code == ErrorCode.POLICY_VIOLATION
    assert broker.create_result(OFFSETS[0]).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert len(groups.logs) == 2


def test_it_is_not_written_to_the_catalogue(broker: Broker, groups: Offsets) -> None:
    broker.create("orders")
    for log in groups.logs:
        assert log is not None
        log.close()
    broker.restart()
    assert [topic.name for topic in broker.plane.catalogue] == ["orders"]


# Upkeep


def test_old_records_go(broker: Broker) -> None:
    broker.create("orders", internal_segment_bytes="150", retention_ms=str(DAY_MS))
    broker.fill("orders", 6)
    broker.advance(DAY_MS)
    broker.fill("orders", 2)
    assert broker.apply_retention() == []
    part = broker.plane.catalogue.find_partition("orders", 0)
    assert part is not None
    assert part.log is not None
    assert part.log.log_start_offset == 0
    broker.advance(1)
    broker.apply_retention()
    assert part.log.log_start_offset == 6
    assert part.log.log_end_offset == 8


def test_retention_leaves_its_slice_between_partitions(broker: Broker) -> None:
    """Retention ignores a topic that is deleted between two slices, and continues with the other topics."""
    for name in ("gone", "orders", "payments"):
        broker.create(name, internal_segment_bytes="150", retention_ms=str(DAY_MS))
        broker.fill(name, 6)
    broker.advance(DAY_MS + 1)
    kept = [broker.plane.catalogue.find_partition(name, 0) for name in ("orders", "payments")]
    logs = [part.log for part in kept if part is not None and part.log is not None]
    retention = SteppedRequest(broker.plane.apply_retention(broker.now_ms, broker.create_work()))
    starts = [[log.log_start_offset for log in logs]]
    broker.send(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=0), 3)
    while not retention.is_ended:
        retention.advance()
        starts.append([log.log_start_offset for log in logs])
    assert retention.finish() == []
    assert starts == [[0, 0], [0, 0], [6, 0], [6, 6]]


def test_topics_by_id_and_name_for_the_server(broker: Broker) -> None:
    topic_id = broker.create("orders", 2)
    topic = broker.plane.catalogue.find_topic_by_id(topic_id)
    assert topic is broker.plane.catalogue.find_topic("orders")
    assert broker.plane.catalogue.find_partition("orders", 1) is not None
    assert broker.plane.catalogue.find_partition("orders", 2) is None
    assert broker.plane.catalogue.find_partition("gone", 0) is None


def test_automatic_creation_waits_for_the_disk_to_work(broker: Broker) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    assert broker.ask(request, MetadataResponse).topics[0].error_code == ErrorCode.NONE
    broker.restart()
    assert broker.plane.catalogue.find_topic("new") is not None
