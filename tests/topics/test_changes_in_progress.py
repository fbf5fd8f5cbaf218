"""Other clients' view of a topic during a change, and the state after a crash in the middle."""

import errno
from typing import Any

import pytest

from coordinator.topics import topic_metadata
from coordinator.topics.data_plane_answer import Answer, PartitionsAdded, TopicCreated
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.schema import ZERO_UUID
from storage.topic_partition import TopicPartition
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import Broker
from tests.topics.stepped_request import SteppedRequest


def begin(broker: Broker, request: object, until: str) -> SteppedRequest[Answer]:
    """Run a request until there is a directory."""
    begun = broker.begin(request)
    while not broker.files.exists(f"{broker.path}/{until}"):
        begun.advance()
    return begun


def finish(begun: SteppedRequest[Answer]) -> Any:
    """Run a request to its end. Return its response."""
    return begun.finish().response


def creation(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    return CreateTopicsRequest(topics=[topic])


def asked(broker: Broker, *names: str) -> list[int]:
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=True)
    return [topic.error_code for topic in broker.ask(request, MetadataResponse).topics]


def remove(broker: Broker, name: str) -> int:
    state = DeleteTopicState(name=name, topic_id=ZERO_UUID)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=1000)
    return broker.ask(request, DeleteTopicsResponse).responses[0].error_code


def metadata(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)


def growth(name: str, count: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=count)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


@pytest.mark.parametrize(
    ("request_", "partitions", "change"),
    [
        (creation("new", 3), 3, TopicCreated),
        (metadata("new"), 1, TopicCreated),
        (growth("old", 4), 4, PartitionsAdded),
    ],
    ids=["CreateTopics", "Metadata", "CreatePartitions"],
)
def test_listeners_learn_of_a_change_before_another_request_can_delete_the_topic(
    broker: Broker, request_: Any, partitions: int, change: type[object]
) -> None:
    broker.create("old", 2)
    name = "old" if change is PartitionsAdded else "new"
    work = broker.create_work()
    begun = broker.begin(request_, work=work)
    awaits_while_visible = 0
    while not begun.is_ended:
        topic = broker.plane.catalogue.find_topic(name)
        is_visible = topic is not None and len(topic.partitions) == partitions
        assert [type(each) for each in work.changes] == [change] * is_visible
        awaits_while_visible += is_visible
        begun.advance()
    assert awaits_while_visible
    assert not any(isinstance(each, change) for each in begun.finish().changes)


def test_a_topic_that_is_being_made_is_nobody_elses(broker: Broker) -> None:
    begun = begin(broker, creation("orders", 5), "orders-2")
    assert broker.plane.catalogue.find_topic("orders") is None
    assert asked(broker, "orders") == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert broker.create_result("orders").error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert remove(broker, "orders") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create("others")
    assert finish(begun).topics[0].error_code == ErrorCode.NONE
    assert asked(broker, "orders") == [ErrorCode.NONE]


def test_a_crash_at_an_await_leaves_no_part_of_a_topic() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    begun = begin(broker, creation("orders", 5), "orders-2")
    broker.crash()
    begun.close()
    broker.open()
    assert broker.plane.catalogue.find_topic("orders") is None
    assert not [name for name in files.listdir("/data") if name.startswith("orders")]


def test_a_topic_may_be_deleted_while_it_grows(broker: Broker) -> None:
    broker.create("orders", 2)
    more = CreatePartitionsTopic(name="orders", count=8)
    request = CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False)
    begun = begin(broker, request, "orders-4")
    assert remove(broker, "orders") == ErrorCode.NONE
    assert finish(begun).results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not [name for name in broker.files.listdir(broker.path) if name.startswith("orders")]
    assert broker.create("orders", 3)


def test_what_cannot_be_undone_for_want_of_descriptors_is_answered_and_mended() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    begun = begin(broker, creation("orders", 5), "orders-2")
    for operation in ("open", "write", "write_atomically", "fsync_directory", "listdir", "mkdir"):
        files.fail(operation, error=errno.EMFILE, times=10_000)
    assert finish(begun).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.plane.catalogue.find_topic("orders") is None
    after = Broker("/data", files=files.crash())
    assert after.plane.list_failed_partitions() == {}
    assert {str(name) for name in after.plane.list_logs()} in ({f"orders-{n}" for n in range(5)}, set())


def test_more_new_topics_than_one_request_makes_are_made_by_the_next(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_metadata, "MAX_PARTITIONS", 2)
    later = ErrorCode.LEADER_NOT_AVAILABLE
    assert asked(broker, "a", "b", "c", "d", "e") == [0, 0, later, later, later]
    assert asked(broker, "a", "b", "c", "d", "e") == [0, 0, 0, 0, later]


def test_a_topic_that_is_created_again_keeps_its_records_when_those_of_the_former_one_were_being_deleted() -> (
    None
):
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders")
    broker.fill("orders", 5)
    part = DeleteRecordsPartition(partition_index=0, offset=3)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="orders", partitions=[part])], timeout_ms=1000
    )
    begun = broker.begin(request)
    while begun.step is None:
        begun.advance()
    assert remove(broker, "orders") == ErrorCode.NONE
    broker.create("orders")
    finish(begun)
    broker.fill("orders", 4)
    after = Broker("/data", files=files.kill())
    found = after.plane.catalogue.find_partition("orders", 0)
    assert found is not None
    assert found.log is not None
    assert (found.log.log_start_offset, found.high_watermark) == (0, 4)


def test_a_name_is_not_free_before_the_growth_of_its_deleted_topic_has_ended() -> None:
    """The growth removes directories of other topics that have the names of its partitions."""
    broker = Broker("/data", files=FaultyFiles())
    broker.create("orders", 2)
    more = CreatePartitionsTopic(name="orders", count=4)
    begun = broker.begin(CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False))
    while broker.plane.catalogue.open_files.reserved < 4:
        begun.advance()
    assert remove(broker, "orders") == ErrorCode.NONE
    assert broker.create_result("orders", 4).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert finish(begun).results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create("orders", 4)
    assert {str(name) for name in broker.plane.list_logs()} == {f"orders-{number}" for number in range(4)}


def test_the_assignment_of_a_refused_topic_does_not_move_the_topic_that_has_its_name() -> None:
    broker = Broker("/data", files=FaultyFiles())
    assigned: list[TopicPartition] = []
    ownership: Any = broker.plane.ownership
    ownership.assign_replicas = lambda partition, _: assigned.append(partition)
    request = creation("orders", -1)
    request.topics[0].replication_factor = -1
    request.topics[0].assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    begun = broker.begin(request)
    broker.create("orders")
    assert finish(begun).topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert not assigned
