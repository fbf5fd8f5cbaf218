"""Log ends from a broker that answers, groupd or Kafka, against those from its directory."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.errors import BadInput
from pipeline.log_ends.cluster import ends_of_cluster, snapshot_of_cluster
from pipeline.log_ends.directory import ends_in_directory
from pipeline.log_ends.log_end import Period
from pipeline.log_ends.snapshot import Snapshot
from storage.topic_partition import TopicPartition
from tests.interop.daemon import Daemon
from tests.kafka_log.broker import running

confluent_kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

START_MS = 1_772_366_400_000
PERIOD = Period(START_MS, START_MS + 95_000, 10)


Served = tuple[str, str]
"""Where it listens, and where its data lie."""


@contextlib.contextmanager
def groupd(directory: Path) -> Iterator[Served]:
    """A groupd of this checkout."""
    daemon = Daemon(str(directory))
    try:
        yield daemon.bootstrap, str(directory)
    finally:
        daemon.stop()


@contextlib.contextmanager
def kafka(directory: Path) -> Iterator[Served]:
    """A real broker."""
    with running(directory) as broker:
        yield broker.bootstrap, broker.data_directory


@pytest.mark.interop
@pytest.mark.parametrize("serving", [groupd, kafka])
def test_a_cluster_says_what_its_directory_says(
    tmp_path: Path, serving: Callable[[Path], contextlib.AbstractContextManager[Served]]
) -> None:
    with serving(tmp_path) as (bootstrap, directory):
        client = admin.AdminClient({"bootstrap.servers": bootstrap})
        for created in client.create_topics([admin.NewTopic("t", 3, 1)]).values():
            created.result(60)
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        for second in (0, 1, 9, 10, 35, 80, 120):
            for partition in (0, 1):
                producer.produce("t", b"x", partition=partition, timestamp=START_MS + second * 1000)
            assert producer.flush(60) == 0
        wanted = [TopicPartition("t", n) for n in range(4)] + [TopicPartition("gone", 0)]
        snapshot = snapshot_of_cluster(bootstrap)
        asked = list(ends_of_cluster(bootstrap, wanted, PERIOD, snapshot))
    read = list(ends_in_directory(directory, wanted, PERIOD, snapshot))
    assert {end[:2] for end in asked} == {end[:2] for end in read} == {("t", 0), ("t", 1), ("t", 2)}
    for partition in range(3):
        for step in range(PERIOD.step(START_MS), PERIOD.step(PERIOD.end_ms)):
            ends = [
                [
                    end.log_end_offset
                    for end in ends
                    if end.partition == partition and PERIOD.step(end.at_ms) <= step
                ]
                for ends in (asked, read)
            ]
            assert (ends[0] or [0])[-1] == (ends[1] or [0])[-1], (partition, step)
        last = [[end for end in ends if end.partition == partition][-1] for ends in (asked, read)]
        assert last[0].log_end_offset == last[1].log_end_offset == (0 if partition == 2 else 7)
        assert last[0].log_start_offset == last[1].log_start_offset == 0


@pytest.mark.parametrize(
    ("bootstrap", "reason"),
    [("127.0.0.1:1", "connection refused"), ("two..dots:9092", "is not a valid host name")],
)
def test_a_cluster_that_cannot_be_reached_takes_one_line(bootstrap: str, reason: str) -> None:
    with pytest.raises(BadInput, match=rf"^{re.escape(bootstrap)}: [^\[\n]*{reason}$"):
        list(ends_of_cluster(bootstrap, [TopicPartition("orders", 0)], PERIOD, Snapshot(0, {})))
