"""The pipeline reports on the warehouse of each earlier version, and adds new commits to it."""

import os
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.build import BuildSettings, build
from pipeline.ingest import ingest
from pipeline.log_ends.directory import snapshot_of_directory
from pipeline.log_ends.measure import measurer
from pipeline.log_ends.snapshot import Snapshot
from pipeline.report.page import write_report
from pipeline.warehouse import Warehouse
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from protocol.records.group_record_serde import encode_key, encode_value
from storage.batch import encode_batch
from storage.record import Record
from storage.topic_partition import TopicPartition
from tests.archive import unpack
from tests.golden import data_directory
from tests.golden.versions import VERSIONS, golden_path, read_json
from tests.golden.warehouse import ARCHIVE, CONTENT, describe, rows, unpack_log

pytestmark = pytest.mark.timeout(600)

TOPIC = TopicPartition("orders", 0)


def append(log_dir: str, partition: TopicPartition, offset: int, key: bytes, value: bytes) -> None:
    """Writes a record to the end of a log."""
    directory = Path(log_dir, f"{partition.topic}-{partition.partition}")
    with max(directory.glob("*.log")).open("ab") as segment:
        segment.write(encode_batch([Record(0, int(time.time() * 1000), key, value)], offset))


class Log:
    """A data directory to which a producer and a consumer add; the consumer stays two records behind."""

    def __init__(self, log_dir: str, group: str, log_partition: int) -> None:
        self.log_dir = log_dir
        self._group = group
        self._commits_to = TopicPartition("__consumer_offsets", log_partition)
        snapshot = snapshot_of_directory(log_dir)
        assert snapshot.offsets_log is not None
        self.end = snapshot.topics[TOPIC].end
        self._next_commit = snapshot.offsets_log[log_partition]

    def add(self, rounds: int) -> None:
        for _ in range(rounds):
            append(self.log_dir, TOPIC, self.end, b"k", b"v")
            self.end += 1
            key = OffsetCommitKey(group=self._group, topic=TOPIC.topic, partition=TOPIC.partition)
            value = OffsetCommitValue(
                offset=self.end - 2, metadata="since", commit_timestamp=int(time.time() * 1000)
            )
            append(self.log_dir, self._commits_to, self._next_commit, encode_key(key), encode_value(value, 3))
            self._next_commit += 1


@pytest.mark.parametrize("version", VERSIONS)
def test_report_ingest_and_build_continue(spark: SparkSession, version: str, tmp_path: Path) -> None:
    expected = read_json(version, CONTENT)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    os.mkdir(warehouse.root)
    unpack(golden_path(version, ARCHIVE), warehouse.root)
    assert describe(warehouse) == expected
    out = tmp_path / "report.html"
    gathered = write_report(warehouse, str(out))
    assert gathered.totals["n_groups"] >= len(expected["offsets"])
    assert all(name in out.read_text(encoding="utf-8") for name in expected["offsets"])

    served = read_json(version, data_directory.CONTENT)["groups"]
    unread = {
        row["log_partition"]
        for row in rows(warehouse, "ingest_findings")
        if row["kind"] == "open_transaction"
    }
    read = {row["group"]: row["log_partition"] for row in rows(warehouse, "lag")}
    read = {group: number for group, number in read.items() if number not in unread}
    for name in read:
        committed = {partition: offset for partition, (offset, *_) in expected["offsets"][name].items()}
        assert committed == {partition: offset for partition, (offset, *_) in served[name]["offsets"].items()}

    group = min(name for name in read if "orders-0" in expected["offsets"][name])
    log = Log(unpack_log(version, str(tmp_path)), group, read[group])
    log.add(100)
    end = log.end

    def measure_before_more_records() -> Snapshot:
        snapshot = snapshot_of_directory(log.log_dir)
        log.add(580)
        return snapshot

    done = ingest(lambda: spark, log.log_dir, warehouse, take_snapshot=measure_before_more_records)
    assert (done.batches, done.records) == (1, 100)
    build(lambda: spark, warehouse, BuildSettings(measure=measurer(log.log_dir, None, None)))
    now = describe(warehouse)
    assert now["rows"]["commits"] == expected["rows"]["commits"] + 100
    for offsets in expected["offsets"].values():
        if "orders-0" in offsets:
            offsets["orders-0"][2] = max(0, end - offsets["orders-0"][0])
    expected["offsets"][group]["orders-0"] = [end - 2, "since", 2]
    assert now["offsets"] == expected["offsets"]
    (info,) = rows(warehouse, "build_info")
    assert info["lag_ts"] > info["last_record_ts"]
