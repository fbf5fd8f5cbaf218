"""DescribeLogDirs: sizes as the files have them."""

import errno
import os

import pytest

from coordinator.topics.data_plane_answer import DirectoryFailed
from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tests.storage.faulty_files import VOLUME_BYTES, FaultyFiles
from tests.topics.broker import Broker
from tests.topics.versions import all_of

Wanted = dict[str, list[int]] | None


def describe(broker: Broker, wanted: Wanted = None, version: int | None = None) -> DescribeLogDirsResult:
    """The only directory."""
    topics = None
    if wanted is not None:
        topics = [DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in wanted.items()]
    response = broker.ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse, version)
    assert response.error_code == ErrorCode.NONE
    (result,) = response.results
    return result


def sizes(result: DescribeLogDirsResult) -> dict[tuple[str, int], int]:
    """Of the partitions that were described, each of them once."""
    found = [
        ((topic.name, partition.partition_index), partition.partition_size)
        for topic in result.topics
        for partition in topic.partitions
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def on_disk(broker: Broker, topic: str, partition: int) -> int:
    directory = os.path.join(broker.path, f"{topic}-{partition}")
    return sum(
        os.path.getsize(os.path.join(directory, name))
        for name in os.listdir(directory)
        if name.endswith(".log")
    )


@pytest.mark.parametrize("version", all_of(DescribeLogDirsRequest))
def test_sizes_are_those_of_the_segments(broker: Broker, version: int) -> None:
    broker.create("orders", 2, segment_bytes="1048576")
    broker.create("empty")
    broker.fill("orders", 3, partition=1, size=600_000)
    result = describe(broker, version=version)
    assert result.error_code == ErrorCode.NONE
    assert result.log_dir == broker.path
    assert sizes(result) == {
        ("orders", 0): 0,
        ("orders", 1): on_disk(broker, "orders", 1),
        ("empty", 0): 0,
    }
    assert on_disk(broker, "orders", 1) > 1_800_000
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes
    else:
        assert (result.total_bytes, result.usable_bytes) == (-1, -1)


def test_only_what_is_asked_for_and_there_is_described(broker: Broker) -> None:
    broker.create("orders", 2)
    broker.create("others")
    assert sizes(describe(broker, {"orders": [1, 1, 2, -1], "gone": [0]})) == {("orders", 1): 0}
    assert not sizes(describe(broker, {"orders": [7], "others": []}))
    assert not sizes(describe(broker, {}))


def test_an_offline_partition_is_left_out() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders", 2)
    broker.fill("orders", 1)
    broker.stop()
    files.names["/data/orders-0/00000000000000000000.log"].data[30] ^= 1
    broker.open()
    assert sizes(describe(broker)) == {("orders", 1): 0}


def test_a_disk_that_does_not_answer_is_a_storage_error() -> None:
    files = FaultyFiles()
    broker = Broker("/data", files=files)
    broker.create("orders")
    files.fail("space", error=errno.EIO)
    result = describe(broker)
    assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    (change,) = broker.answer.changes
    assert isinstance(change, DirectoryFailed)
    assert change.path == "/data"
    assert describe(broker).total_bytes == VOLUME_BYTES
