from collections.abc import Sequence

import pytest

from coordinator.config.properties import Config
from coordinator.topics.data_plane_answer import (
    ReplicationFactorReduced,
    ReplicationFactorRefused,
    TopicCreated,
)
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.topics.broker import Broker
from tests.topics.versions import all_of


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: Sequence[tuple[int, list[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=p, broker_ids=b) for p, b in assignments],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def errors(broker: Broker, *topics: CreatableTopic, validate_only: bool = False) -> dict[str, int]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    response = broker.ask(request, CreateTopicsResponse)
    assert all((result.error_message is None) == (result.error_code == 0) for result in response.topics)
    return {result.name: result.error_code for result in response.topics}


@pytest.mark.parametrize("version", all_of(CreateTopicsRequest))
def test_every_version_creates(broker: Broker, version: int) -> None:
    request = CreateTopicsRequest(topics=[topic("orders", 4)])
    (result,) = broker.ask(request, CreateTopicsResponse, version).topics
    assert (result.name, result.error_code) == ("orders", ErrorCode.NONE)
    created = broker.plane.catalogue.find_topic("orders")
    assert created is not None
    assert len(created.partitions) == 4
    assert broker.answer.changes == [TopicCreated("orders", created.topic_id, 4)]
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (4, 1)
    if version >= 7:
        assert result.topic_id == created.topic_id


def test_the_answer_lists_every_property_with_its_source(broker: Broker) -> None:
    result = broker.create_result("orders", retention_ms="1000")
    configs = {config.name: (config.value, config.config_source) for config in result.configs}
    assert configs["retention.ms"] == ("1000", 1)
    assert configs["segment.bytes"] == ("1073741824", 5)
    assert list(configs) == sorted(configs)


@pytest.mark.parametrize(
    ("refused", "code"),
    [
        (topic("t", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (topic("t", 0), ErrorCode.INVALID_PARTITIONS),
        (topic("t", -2), ErrorCode.INVALID_PARTITIONS),
        (topic("no/pe"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("taken"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (topic("__consumer_offsets"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (topic("t", configs=[("nope", "1")]), ErrorCode.INVALID_CONFIG),
        (topic("t", configs=[("retention.ms", "x")]), ErrorCode.INVALID_CONFIG),
        (topic("t", configs=[("retention.ms", None)]), ErrorCode.INVALID_CONFIG),
        (topic("t", 1, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic("t", -1, 1, [(0, [1])]), ErrorCode.INVALID_REQUEST),
        (topic("t", -1, -1, [(0, [1]), (0, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [7])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", -1, -1, [(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic("t", 10_001), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_refusals_change_nothing(broker: Broker, refused: CreatableTopic, code: ErrorCode) -> None:
    broker.create("taken")
    broker.create("a.b")
    assert errors(broker, refused) == {refused.name: code}
    assert [t.name for t in broker.plane.catalogue] == ["a.b", "taken"]
    assert not any(isinstance(change, TopicCreated) for change in broker.answer.changes)


def test_the_log_hears_of_a_replication_factor_above_the_number_of_brokers(broker: Broker) -> None:
    errors(broker, topic("zero", factor=0), topic("two", factor=2), topic("three", factor=3))
    (change,) = broker.answer.changes
    assert isinstance(change, ReplicationFactorRefused)
    assert change.names == ("two", "three")


def test_any_replication_factor_is_accepted_where_a_property_says_so(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(accept_any_replication_factor=True))
    request = CreateTopicsRequest(topics=[topic("three", 2, 3), topic("one"), topic("zero", factor=0)])
    three, one, zero = broker.ask(request, CreateTopicsResponse).topics
    assert (three.error_code, three.num_partitions, three.replication_factor) == (ErrorCode.NONE, 2, 1)
    assert one.error_code == ErrorCode.NONE
    assert zero.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    reduced = [change for change in broker.answer.changes if isinstance(change, ReplicationFactorReduced)]
    assert reduced == [ReplicationFactorReduced("three", 3, 1)]
    broker.stop()


def test_one_refusal_leaves_the_others(broker: Broker) -> None:
    codes = errors(broker, topic("good"), topic("bad", 0), topic("twice"), topic("twice", 2))
    assert codes == {
        "good": ErrorCode.NONE,
        "bad": ErrorCode.INVALID_PARTITIONS,
        "twice": ErrorCode.INVALID_REQUEST,
    }
    assert [t.name for t in broker.plane.catalogue] == ["good"]


def test_defaults_and_assignments(tmp_path: object) -> None:
    broker = Broker(f"{tmp_path}/data", Config(num_partitions=7))
    topics = [topic("defaults", -1, -1), topic("assigned", -1, -1, [(1, [1]), (0, [1])])]
    assert set(errors(broker, *topics).values()) == {ErrorCode.NONE}
    assert {t.name: len(t.partitions) for t in broker.plane.catalogue} == {"defaults": 7, "assigned": 2}
    broker.stop()


def test_validate_only_creates_nothing(broker: Broker) -> None:
    assert errors(broker, topic("t"), topic("bad", 0), validate_only=True) == {
        "t": ErrorCode.NONE,
        "bad": ErrorCode.INVALID_PARTITIONS,
    }
    assert len(broker.plane.catalogue) == 0
