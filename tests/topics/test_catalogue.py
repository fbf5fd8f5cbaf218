import json
from collections.abc import Callable
from itertools import count

import pytest

from coordinator.config.properties import Config
from coordinator.core.shared_types import LogFlush
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from protocol.messages.metadata import MetadataRequest, MetadataResponse
from protocol.schema import ZERO_UUID
from storage.data_directory import CATALOGUE, DataDirectory
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.storage_errors import DamagedFile
from storage.topic_partition import TopicPartition, uuid_to_text
from tests.storage.faulty_files import CrashError, FaultyFiles
from tests.topics.broker import Broker, batch

ALWAYS = Config(log_flush=LogFlush.ALWAYS)


def topics(broker: Broker) -> dict[str | None, tuple[bytes, int]]:
    """Every topic that clients see: id and partitions."""
    response = broker.ask(MetadataRequest(topics=None), MetadataResponse)
    return {topic.name: (topic.topic_id, len(topic.partitions)) for topic in response.topics}


def delete(broker: Broker, name: str) -> int:
    state = DeleteTopicState(name=name, topic_id=ZERO_UUID)
    request = DeleteTopicsRequest(topics=[state], timeout_ms=1000)
    return broker.ask(request, DeleteTopicsResponse).responses[0].error_code


def grow(broker: Broker, name: str, to: int) -> int:
    topic = CreatePartitionsTopic(name=name, count=to)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
    return broker.ask(request, CreatePartitionsResponse).results[0].error_code


def end(broker: Broker, name: str, number: int = 0) -> int:
    part = broker.plane.catalogue.find_partition(name, number)
    assert part is not None
    return part.high_watermark


def test_topics_survive_a_restart(broker: Broker) -> None:
    broker.create("orders", 3, retention_ms="5")
    broker.create("a.b")
    broker.fill("orders", 4, 2)
    before = topics(broker)
    broker.restart()
    assert topics(broker) == before
    assert end(broker, "orders", 2) == 4
    topic = broker.plane.catalogue.find_topic("orders")
    assert topic is not None
    assert topic.overrides == {"retention.ms": "5"}
    assert topic.values.log.retention_ms == 5


def test_each_partition_says_which_topic_it_is(broker: Broker) -> None:
    topic_id = broker.create("orders", 2)
    for number in range(2):
        data = broker.files.read(f"{broker.path}/orders-{number}/partition.metadata")
        assert uuid_to_text(topic_id) in data.decode()


def test_directories_of_a_real_broker_become_topics() -> None:
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", MetaProperties("cluster", 1, "directory"))
    known = b"k" * 16
    logs = {
        name: directory.open_log(name, LogConfig(), topic_id)
        for name, topic_id in [
            (TopicPartition("orders", 0), known),
            (TopicPartition("orders", 2), known),
            (TopicPartition("nameless", 0), None),
            (TopicPartition("__consumer_offsets", 0), b"c" * 16),
            (TopicPartition("__cluster_metadata", 0), b"m" * 16),
        ]
    }
    logs[TopicPartition("orders", 2)].append(batch(3))
    directory.close(logs)
    broker = Broker("/data", files=files)
    found = topics(broker)
    assert found["orders"] == (known, 3)
    assert set(found) == {"orders", "nameless"}
    assert end(broker, "orders", 2) == 3
    broker.restart()
    assert topics(broker) == found


@pytest.mark.parametrize(
    "document",
    [
        b"{",
        b"[]",
        b'{"version": 2}',
        b'{"version": 1}',
        b'{"version": 1, "producer_ids_reserved": 0, "deleted": [], "topics": [{"name": "a"}]}',
        b'{"version": 1, "producer_ids_reserved": 0, "deleted": ["x"], "topics": []}',
    ],
)
def test_a_damaged_file_stops_the_start_by_name(document: bytes) -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    files.write(f"/data/{CATALOGUE}", document)
    with pytest.raises(DamagedFile, match=CATALOGUE):
        Broker("/data", files=files)


def test_a_log_that_cannot_be_opened_takes_one_partition_offline() -> None:
    files = FaultyFiles()
    broker = Broker("/data", ALWAYS, files)
    broker.create("orders", 2)
    broker.produce("orders", batch(), 0)
    broker.produce("orders", batch(), 1)
    for log in broker.plane.list_logs().values():
        log.sync()
    broker.directory.write_checkpoints(broker.plane.list_logs())
    broker.crash()
    path = "/data/orders-0/00000000000000000000.log"
    data = bytearray(files.read(path))
    data[30] ^= 1
    files.write(path, bytes(data))
    broker.open()
    assert set(broker.plane.list_failed_partitions()) == {TopicPartition("orders", 0)}
    response = broker.ask(MetadataRequest(topics=None), MetadataResponse)
    assert [(p.error_code, p.leader_id) for p in response.topics[0].partitions] == [
        (ErrorCode.LEADER_NOT_AVAILABLE, -1),
        (ErrorCode.NONE, 1),
    ]
    assert broker.produce("orders", batch(), 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.produce("orders", batch(), 1).error_code == ErrorCode.NONE
    data[30] ^= 1
    files.write(path, bytes(data))
    broker.advance(1000)
    assert broker.produce("orders", batch(), 0).base_offset == 1


def test_a_topic_with_a_damaged_partition_can_be_deleted_and_made_again() -> None:
    files = FaultyFiles()
    broker = Broker("/data", ALWAYS, files)
    broker.create("orders", 2)
    broker.produce("orders", batch(), 0)
    for log in broker.plane.list_logs().values():
        log.sync()
    broker.directory.write_checkpoints(broker.plane.list_logs())
    broker.crash()
    files.write("/data/orders-0/00000000000000000000.log", b"\xff" * 80)
    broker.open()
    assert broker.plane.list_failed_partitions()
    request = DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000)
    response = broker.ask(request, DeleteTopicsResponse, 5)
    assert response.responses[0].error_code == ErrorCode.NONE
    assert not [name for name in files.listdir("/data") if name.startswith("orders-")]
    broker.crash()
    broker.open()
    assert not topics(broker)
    broker.create("orders", 2)
    assert broker.produce("orders", batch(), 0).base_offset == 0


def test_a_refused_write_is_refused_and_the_next_one_works() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders")
    broker.produce("orders", batch())
    files.fail("write", torn_bytes=10)
    assert broker.produce("orders", batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(broker.answer.changes) == 1
    assert broker.produce("orders", batch()).base_offset == 1
    assert end(broker, "orders") == 2


def test_a_log_in_doubt_is_read_again_from_the_disk() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders")
    broker.produce("orders", batch())
    files.fail("write", torn_bytes=10)
    files.fail("truncate")
    assert broker.produce("orders", batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.produce("orders", batch()).base_offset == 1


@pytest.mark.parametrize("operation", ["write", "replace", "mkdir", "open"])
def test_a_topic_that_cannot_be_created_does_not_exist(operation: str) -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    files.fail(operation)
    assert broker.create_result("orders", 2).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert topics(broker) == {}
    assert broker.create_result("orders", 2).error_code == ErrorCode.NONE
    broker.restart()
    assert set(topics(broker)) == {"orders"}


@pytest.mark.parametrize("operation", ["replace", "mkdir", "open"])
def test_a_topic_that_cannot_grow_stays_as_it_is(operation: str) -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders", 2)
    files.fail(operation)
    assert grow(broker, "orders", 4) == ErrorCode.KAFKA_STORAGE_ERROR
    broker.restart()
    assert topics(broker)["orders"][1] == 2
    assert grow(broker, "orders", 4) == ErrorCode.NONE


def create(broker: Broker) -> None:
    broker.create("new", 3, retention_ms="5")


def remove(broker: Broker) -> None:
    assert delete(broker, "orders") == ErrorCode.NONE


def enlarge(broker: Broker) -> None:
    assert grow(broker, "orders", 4) == ErrorCode.NONE


def recreate(broker: Broker) -> None:
    remove(broker)
    broker.create("orders", 1)


def journal_records(broker: Broker, name: str) -> None:
    """Write the appended records of partition 0 of a topic to the journal."""
    log = broker.plane.list_logs()[TopicPartition(name, 0)]
    assert log.journal is not None
    entry = log.journal.take_entry(log.log_end_offset)
    assert entry is not None
    broker.directory.journal.write([entry])


@pytest.mark.parametrize("is_journaled", [False, True])
@pytest.mark.parametrize("change", [create, remove, enlarge, recreate])
def test_a_crash_at_any_call_leaves_a_change_done_or_undone(
    change: Callable[[Broker], None], *, is_journaled: bool
) -> None:
    """What was acknowledged before stays; nothing of an old topic turns up in a new one of its name."""

    def prepared() -> Broker:
        broker = Broker("/data", ALWAYS, FaultyFiles(), journal_file_bytes=100_000 if is_journaled else 0)
        broker.create("orders", 2)
        broker.create("other")
        broker.produce("orders", batch(5))
        broker.produce("other", batch(3))
        if is_journaled:
            journal_records(broker, "orders")
            journal_records(broker, "other")
            return broker
        for log in broker.plane.list_logs().values():
            log.sync()
        broker.directory.write_checkpoints(broker.plane.list_logs())
        return broker

    for operation in ("write", "replace", "mkdir", "open", "fsync_directory", "unlink", "rmdir"):
        for nth in count(1):
            broker = prepared()
            assert isinstance(broker.files, FaultyFiles)
            broker.files.crash_at(operation, nth)
            before = topics(broker)
            try:
                change(broker)
            except CrashError:
                pass
            else:
                break
            for files in (broker.files.crash(), broker.files.kill()):
                after = Broker("/data", ALWAYS, files)
                assert after.plane.list_failed_partitions() == {}
                assert after.plane.catalogue.adoption_messages == []
                found = topics(after)
                assert found["other"] == before["other"]
                assert end(after, "other") == 3
                assert set(found) <= {"orders", "other", "new"}
                if found.get("orders", (b"",))[0] == before["orders"][0]:
                    assert end(after, "orders") == 5
                    assert found["orders"][1] in (2, 4)
                elif "orders" in found:
                    assert found["orders"][1] == 1
                    assert end(after, "orders") == 0
                assert found.get("new", (b"", 3))[1] == 3
                assert after.produce("other", batch()).base_offset == 3


def test_the_file_is_plain_json(broker: Broker) -> None:
    topic_id = broker.create("orders", 2, retention_ms="5")
    document = json.loads(broker.files.read(f"{broker.path}/{CATALOGUE}"))
    assert document["topics"] == [
        {
            "name": "orders",
            "topic_id": uuid_to_text(topic_id),
            "partitions": 2,
            "configs": {"retention.ms": "5"},
        }
    ]
