import pytest

from coordinator.config.properties import Config
from coordinator.topics.data_plane_answer import TopicCreated
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import NODE, Broker
from tests.topics.versions import all_of


def by_name(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def by_id(*ids: bytes) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id) for topic_id in ids])


@pytest.mark.parametrize("version", all_of(MetadataRequest))
def test_every_version_names_the_broker_and_the_partitions(broker: Broker, version: int) -> None:
    topic_id = broker.create("orders", 3)
    response = broker.ask(by_name("orders"), MetadataResponse, version)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [NODE[:3]]
    (topic,) = response.topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, "orders")
    assert [p.partition_index for p in topic.partitions] == [0, 1, 2]
    assert all((p.leader_id, p.replica_nodes, p.isr_nodes) == (1, [1], [1]) for p in topic.partitions)
    if version >= 1:
        assert response.controller_id == 1
    if version >= 2:
        assert response.cluster_id == "cluster"
    if version >= 10:
        assert topic.topic_id == topic_id


def test_which_lists_mean_all_topics(broker: Broker) -> None:
    broker.create("b")
    broker.create("a")
    every = MetadataRequest(topics=None)
    none = MetadataRequest(topics=[])
    assert [t.name for t in broker.ask(every, MetadataResponse).topics] == ["a", "b"]
    assert [t.name for t in broker.ask(every, MetadataResponse, 1).topics] == ["a", "b"]
    assert [t.name for t in broker.ask(none, MetadataResponse, 0).topics] == ["a", "b"]
    assert broker.ask(none, MetadataResponse, 1).topics == []
    assert broker.ask(none, MetadataResponse).topics == []


def test_topics_that_do_not_exist(broker: Broker) -> None:
    response = broker.ask(by_name("gone", "no/pe", "", "__transaction_state"), MetadataResponse)
    assert [(t.name, t.error_code) for t in response.topics] == [
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no/pe", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("__transaction_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert len(broker.plane.catalogue) == 0


def test_asking_creates_a_topic_with_the_default_partitions(broker: Broker) -> None:
    response = broker.ask(by_name("new", create=True), MetadataResponse)
    (topic,) = response.topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 1)
    assert broker.answer.changes == [TopicCreated("new", topic.topic_id, 1, automatic=True)]
    again = broker.ask(by_name("new", create=True), MetadataResponse)
    assert again.topics[0].topic_id == topic.topic_id
    assert not broker.answer.changes


def test_before_version_4_asking_always_creates(broker: Broker) -> None:
    assert broker.ask(by_name("new", create=True), MetadataResponse, 3).topics[0].error_code == 0


@pytest.mark.parametrize("name", ["no/pe", "__transaction_state", "a_b"])
def test_names_that_asking_does_not_create(broker: Broker, name: str) -> None:
    broker.create("a.b")
    (topic,) = broker.ask(by_name(name, create=True), MetadataResponse).topics
    assert topic.error_code != ErrorCode.NONE
    assert broker.plane.catalogue.find_topic(name) is None


def test_asking_creates_no_topic_that_creating_it_would_not(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(num_partitions=2**31 - 1))
    (topic,) = broker.ask(by_name("new", create=True), MetadataResponse).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.plane.catalogue.find_topic("new") is None
    broker.stop()


def test_automatic_creation_can_be_turned_off(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(auto_create_topics_enable=False))
    (topic,) = broker.ask(by_name("new", create=True), MetadataResponse).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.stop()


@pytest.mark.parametrize("version", [12, 13])
def test_by_id(broker: Broker, version: int) -> None:
    topic_id = broker.create("orders")
    response = broker.ask(by_id(topic_id, b"x" * 16), MetadataResponse, version)
    assert [(t.error_code, t.name, t.topic_id) for t in response.topics] == [
        (ErrorCode.NONE, "orders", topic_id),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, b"x" * 16),
    ]


def test_by_id_before_there_were_ids(broker: Broker) -> None:
    topic_id = broker.create("orders")
    response = broker.ask(by_id(topic_id), MetadataResponse, 10)
    assert [t.error_code for t in response.topics] == [ErrorCode.INVALID_REQUEST]


def test_a_topic_asked_for_twice_is_described_once(broker: Broker) -> None:
    broker.create("orders")
    assert len(broker.ask(by_name("orders", "orders"), MetadataResponse).topics) == 1


def test_authorized_operations_are_all_and_only_when_asked(broker: Broker) -> None:
    broker.create("orders")
    request = by_name("orders")
    assert broker.ask(request, MetadataResponse, 8).topics[0].topic_authorized_operations == -(2**31)
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = True
    response = broker.ask(request, MetadataResponse, 8)
    assert response.topics[0].topic_authorized_operations == 3576
    assert response.cluster_authorized_operations == 8096


def test_a_topic_that_the_disk_refuses_is_asked_for_again() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    files.fail("replace")
    (topic,) = broker.ask(by_name("new", create=True), MetadataResponse).topics
    assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert len(broker.answer.changes) == 1
    (topic,) = broker.ask(by_name("new", create=True), MetadataResponse).topics
    assert topic.error_code == ErrorCode.NONE
