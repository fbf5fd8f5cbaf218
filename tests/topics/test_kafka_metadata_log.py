"""Topics of a broker's directory that is taken over, from the cluster's log beside it."""

import pytest

from coordinator.topics.kafka_metadata_log import ClusterTopic, read_cluster_topics
from protocol.codec import encode
from protocol.records.cluster_metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from storage.batch import encode_batch
from storage.data_directory import DataDirectory
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.record import Record
from storage.storage_errors import DamagedFile
from storage.topic_partition import TopicPartition
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import Broker

DIRECTORY = "/data/__cluster_metadata-0"
SEGMENT = f"{DIRECTORY}/{0:020d}.log"
ORDERS, PAYMENTS = b"o" * 16, b"p" * 16
TYPES: dict[type[MetadataRecord], int] = {
    TopicRecord: 2,
    PartitionRecord: 3,
    ConfigRecord: 4,
    RemoveTopicRecord: 9,
    UserScramCredentialRecord: 11,
    AccessControlEntryRecord: 18,
    RemoveAccessControlEntryRecord: 19,
    RemoveUserScramCredentialRecord: 22,
    BeginTransactionRecord: 23,
    EndTransactionRecord: 24,
    AbortTransactionRecord: 25,
}
BROKER_REGISTRATION = bytes((1, 27, 4)) + b"whatever it holds"


def value(record: MetadataRecord) -> bytes:
    return bytes((1, TYPES[type(record)], 0)) + encode(record, 0)


def batch(*records: MetadataRecord, offset: int = 0) -> bytes:
    return encode_batch([Record(-1, 1, None, value(record)) for record in records], offset)


def topic(name: str, topic_id: bytes, partitions: int = 1, **configs: str | None) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(PartitionRecord(partition_id=number, topic_id=topic_id) for number in range(partitions)),
        *(config(name, key.replace("_", "."), text) for key, text in configs.items()),
    ]


def config(name: str, key: str, text: str | None, resource_type: int = 2) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=text)


@pytest.fixture
def files() -> FaultyFiles:
    files = FaultyFiles()
    files.mkdir("/data")
    files.mkdir(DIRECTORY)
    return files


def read(files: FaultyFiles) -> dict[str, ClusterTopic]:
    return read_cluster_topics(files, "/data")


def test_no_cluster_no_topics() -> None:
    files = FaultyFiles()
    files.mkdir("/data")
    assert read(files) == {}


def test_topics_with_their_partitions_and_properties(files: FaultyFiles) -> None:
    content = batch(*topic("orders", ORDERS, 3, retention_ms="5", cleanup_policy="compact"))
    content += encode_batch([Record(-1, 1, None, BROKER_REGISTRATION)], 6)
    content += batch(
        config("orders", "retention.ms", None),
        config("1", "log.retention.ms", "7", resource_type=4),
        config("never-there", "retention.ms", "7"),
        *topic("payments", PAYMENTS, 1, retention_ms="-1"),
        offset=7,
    )
    files.write(SEGMENT, content)
    assert read(files) == {
        "orders": ClusterTopic(ORDERS, 3, {"cleanup.policy": "compact"}),
        "payments": ClusterTopic(PAYMENTS, 1, {"retention.ms": "-1"}),
    }


def test_a_topic_that_comes_again_has_nothing_of_the_one_that_went(files: FaultyFiles) -> None:
    again = b"q" * 16
    content = batch(
        *topic("orders", ORDERS, 3, retention_ms="5"),
        RemoveTopicRecord(topic_id=ORDERS),
        *topic("orders", again, 1),
        PartitionRecord(partition_id=9, topic_id=ORDERS),
    )
    files.write(SEGMENT, content)
    assert read(files) == {"orders": ClusterTopic(again, 1, {})}


def test_a_transaction_counts_once_it_has_ended(files: FaultyFiles) -> None:
    content = batch(
        *topic("orders", ORDERS),
        BeginTransactionRecord(),
        config("orders", "retention.ms", "5"),
        EndTransactionRecord(),
        BeginTransactionRecord(),
        config("orders", "retention.ms", "6"),
        *topic("payments", PAYMENTS),
        AbortTransactionRecord(),
        BeginTransactionRecord(),
        config("orders", "retention.ms", "7"),
    )
    files.write(SEGMENT, content)
    assert read(files) == {"orders": ClusterTopic(ORDERS, 1, {"retention.ms": "5"})}


def test_the_latest_snapshot_stands_for_what_is_before_it(files: FaultyFiles) -> None:
    control = encode_batch([Record(-1, 1, b"\0\0\0\3", b"\0\0")], is_control=True)
    files.write(f"{DIRECTORY}/{5:020d}-{1:010d}.checkpoint", batch(*topic("older", b"x" * 16)))
    snapshot = control + batch(*topic("orders", ORDERS, 2, retention_ms="5"), offset=1)
    files.write(f"{DIRECTORY}/{12:020d}-{1:010d}.checkpoint", snapshot)
    before = batch(*topic("gone-by-now", PAYMENTS), offset=8)
    after = batch(PartitionRecord(partition_id=2, topic_id=ORDERS), offset=12)
    files.write(f"{DIRECTORY}/{8:020d}.log", before + after)
    assert read(files) == {"orders": ClusterTopic(ORDERS, 3, {"retention.ms": "5"})}


def test_a_torn_end_is_the_end_and_damage_is_told(files: FaultyFiles) -> None:
    whole, last = batch(*topic("orders", ORDERS)), batch(*topic("payments", PAYMENTS), offset=2)
    for length in range(len(last)):
        files.write(SEGMENT, whole + last[:length])
        assert read(files).keys() == {"orders"}
    files.write(SEGMENT, whole + last[:-1] + b"?")
    with pytest.raises(DamagedFile):
        read(files)
    for bad in (b"", b"\1", b"\2\2\0", b"\1\2\0\7orders", b"\1\4\xff\xff\xff\xff\x0f"):
        files.write(SEGMENT, encode_batch([Record(-1, 1, None, bad)]))
        with pytest.raises(DamagedFile):
            read(files)


def broker(files: FaultyFiles) -> Broker:
    directory = DataDirectory.open(files, "/data", MetaProperties("cluster", 1, "directory"))
    logs = {
        name: directory.open_log(name, LogConfig(), topic_id)
        for name, topic_id in [
            (TopicPartition("orders", 1), ORDERS),
            (TopicPartition("payments", 0), PAYMENTS),
        ]
    }
    directory.close(logs)
    return Broker("/data", files=files)


def overrides(plane: Broker) -> dict[str, tuple[int, dict[str, str]]]:
    return {topic.name: (len(topic.partitions), dict(topic.overrides)) for topic in plane.plane.catalogue}


def test_what_the_cluster_says_holds_for_a_directory_that_is_taken_over(files: FaultyFiles) -> None:
    content = batch(*topic("orders", ORDERS, 4, cleanup_policy="compact", property_of_the_future="1"))
    content += batch(*topic("payments", b"of another topic", 1, retention_ms="5"), offset=10)
    files.write(SEGMENT, content)
    plane = broker(files)
    found = overrides(plane)
    assert found["orders"] == (4, {"cleanup.policy": "compact"})
    count, configs = found["payments"]
    assert (count, configs["retention.ms"], configs["cleanup.policy"]) == (1, "-1", "delete")
    assert len(plane.plane.catalogue.adoption_messages) == 2
    plane.restart()
    assert overrides(plane) == found
    assert plane.plane.catalogue.adoption_messages == []


@pytest.mark.parametrize(
    "content", [b"", b"?" * 100, batch(*topic("orders", ORDERS, 2, retention_ms="soon"))]
)
def test_every_record_is_kept_where_nobody_can_say_for_how_long(files: FaultyFiles, content: bytes) -> None:
    files.write(SEGMENT, content)
    for _, configs in overrides(broker(files)).values():
        assert configs == {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
