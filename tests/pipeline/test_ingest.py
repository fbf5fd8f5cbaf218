"""Ingest: every record once, however the log was split, interrupted, cleaned or written to."""

import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.runtime.partition_loader import PartitionLoad
from pipeline.directory import LocalDirectory
from pipeline.errors import BadInput
from pipeline.ingest import Ingested, ingest
from pipeline.log_ends.directory import snapshot_of_directory
from pipeline.log_ends.snapshot import Bounds, Snapshot
from pipeline.progress import Progress
from pipeline.silver.schemas import SILVER
from pipeline.warehouse import MARKER, Warehouse
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.topic_partition import TopicPartition
from tests.group.new_shard import new_shard
from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.long_logs import add_transactions, counted, example_log, moved
from tests.pipeline.random_logs import Log, compacted
from tests.pipeline.silver_tables import RECORDS, expected_tables, in_order, table, tables
from tests.pipeline.test_decode import commit_record

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def made(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "data")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def counted_by_duckdb(warehouse: Warehouse, name: str) -> int:
    """The rows of a table, in a process of DuckDB's own: at the end of one where anything still holds one of its
    types, as is the case after many tests, it reports all of them as leaked.
    """
    query = f"select count(*) from '{warehouse.path(name)}/**/*.parquet'"
    counting = f"import duckdb; print(duckdb.connect().execute({query!r}).fetchall()[0][0])"
    done = subprocess.run(
        [sys.executable, "-c", counting], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return int(done.stdout)


def test_tables_hold_what_the_log_says(spark: SparkSession, made: LogDirectory, warehouse: Warehouse) -> None:
    log, other = example_log(1), Log()
    add_transactions(other)
    made.write_log(7, log)
    made.write_log(30, other)
    told: list[Progress] = []
    done = ingest(lambda: spark, made.path, warehouse, on_progress=told.append)
    source_rows = counted(log, 7) + counted(other, 30)
    assert len({row["kind"] for row in source_rows}) == 4
    assert len([row for row in source_rows if row["group"] == "transactional"]) in range(1, 6)
    assert tables(warehouse) == expected_tables(source_rows)
    assert done == Ingested(1, len(source_rows), len(log.data) + len(other.data))
    assert (told[-1].records, told[-1].bytes, told[-1].bytes_left) == (done.records, done.bytes, 0)
    assert {row["ingest_batch"] for row in table(warehouse, "commits", without_batch=False)} == {1}
    for name in SILVER:
        assert warehouse.silver(spark, name).dtypes == list(SILVER[name].columns)
    assert counted_by_duckdb(warehouse, "commits") == len(tables(warehouse)["commits"])
    assert ingest(lambda: spark, made.path, warehouse) == Ingested(0, 0, 0)
    assert tables(warehouse) == expected_tables(source_rows)


def test_any_split_into_runs_and_batches_gives_the_same_tables(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One split through all of Spark; test_stream has many without. Batches are merged on the way, as in
    test_merging."""
    monkeypatch.setattr("pipeline.merging.MANY", 1)
    n_batches = 0
    written = {7: example_log(random.randrange(9), batches=16), 8: Log()}
    add_transactions(written[8])
    upto = dict.fromkeys(written, 0)
    while any(upto[number] < len(log.batches) for number, log in written.items()):
        for number, log in written.items():
            upto[number] = min(len(log.batches), upto[number] + random.randrange(5, 12))
            torn = log.batches[upto[number]][:70] if upto[number] < len(log.batches) else b""
            # A reader meets a torn batch at the end while the daemon writes.
            made.write(number, [*log.batches[: upto[number]], torn][: upto[number] + 1], per_segment=5)
        n_batches += ingest(
            lambda: spark, made.path, warehouse, max_bytes=random.choice([None, 3000])
        ).batches
    assert n_batches > len(warehouse.complete_batches()) == 1
    source_rows = [row for number, log in written.items() for row in counted(log, number)]
    assert tables(warehouse) == expected_tables(source_rows)
    for name in ("commits", "members"):  # written where they were decoded, and by Spark
        assert warehouse.silver(spark, name).count() == len(table(warehouse, name))


def test_commits_after_the_instant_of_the_log_ends_wait_for_the_next_run(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse
) -> None:
    log, new = Log(), Log()
    log.append([commit_record("g", n, "x") for n in range(20)])
    made.write_log(7, log)

    def measure_before_more_commits() -> Snapshot:
        snapshot = snapshot_of_directory(made.path)
        log.append([commit_record("g", 20 + n, "x") for n in range(600)])
        made.write_log(7, log)
        new.append([commit_record("of a partition that is new", 5, "x")])
        made.write_log(9, new)
        return snapshot._replace(topics={TopicPartition("t", 0): Bounds(0, 22)})

    def committed() -> list[int]:
        return [row["offset"] for row in table(warehouse, "commits") if row["log_partition"] == 7]

    ingest(lambda: spark, made.path, warehouse, take_snapshot=measure_before_more_commits)
    assert committed() == list(range(20))
    assert {row["log_partition"] for row in table(warehouse, "commits")} == {7}
    kept = warehouse.snapshot(through_batch=1)
    assert kept is not None
    assert kept.topics == {TopicPartition("t", 0): Bounds(0, 22)}

    ingest(lambda: spark, made.path, warehouse)
    assert committed() == list(range(620))
    assert {row["log_partition"] for row in table(warehouse, "commits")} == {7, 9}
    assert warehouse.snapshot(through_batch=1) is None, "of other commits"
    assert warehouse.snapshot(through_batch=2) is not None


class Killed(OSError):
    """From here on nothing is written, as if the process had ended."""


def break_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> Callable[[], int]:
    """Let the n-th change of a warehouse and all later ones fail; return a counter of the changes."""
    made = [0]

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: LocalDirectory, *arguments: Any) -> Any:
            made[0] += 1
            if made[0] > calls:
                raise Killed
            return method(self, *arguments)

        return call

    for name in ("rename", "write", "create"):
        monkeypatch.setattr(LocalDirectory, name, counting(getattr(LocalDirectory, name)))
    return lambda: made[0]


def check_readers(warehouse: Warehouse) -> None:
    """Check that every existing table is readable."""
    for name in SILVER:
        if Path(warehouse.path(name)).exists() and any(Path(warehouse.path(name)).iterdir()):
            pq.read_table(warehouse.path(name))


def test_killed_at_any_step_it_goes_on_where_it_was(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = example_log(5, batches=12)
    made.write_log(7, log, per_segment=4)
    size = len(log.data) // 2
    is_done = False
    steps = 0
    while not is_done:
        with monkeypatch.context() as patched:
            count = break_after(patched, 4 + 3 * steps)
            try:
                ingest(lambda: spark, made.path, warehouse, max_bytes=size)
            except (Killed, Exception):  # noqa: BLE001 whatever it is by the time it comes out of Spark
                check_readers(warehouse)
                assert count() > 4
            else:
                is_done = True
        steps += 1
        assert steps < 40
    assert steps > 2
    assert tables(warehouse) == expected_tables(counted(log, 7))
    batches = [row["ingest_batch"] for row in table(warehouse, "ingest_batches", without_batch=False)]
    assert sorted(batches) == list(range(1, len(batches) + 1))


def test_rows_of_a_batch_that_is_not_all_there_are_not_shown(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse
) -> None:
    made.write_log(7, example_log(2))
    ingest(lambda: spark, made.path, warehouse)
    shown = warehouse.silver(spark, "commits").count()
    assert shown > 0
    warehouse.add_batch("commits", 2, warehouse.silver(spark, "commits"))
    assert warehouse.silver(spark, "commits").count() == shown


def test_compaction_between_runs(spark: SparkSession, made: LogDirectory, warehouse: Warehouse) -> None:
    log = Log()
    for number in range(20):
        log.append([commit_record("g", number * 2 + n) for n in range(2)])
    made.write_log(7, log, 10)
    ingest(lambda: spark, made.path, warehouse)
    cleaned = [compacted(batch, 2) for number, batch in enumerate(log.batches[:15]) if number % 3 == 0]
    made.write(7, [*cleaned, *log.batches[15:]], per_segment=8)
    ingest(lambda: spark, made.path, warehouse)
    offsets = [row["log_offset"] for row in table(warehouse, "commits")]
    # Up to 20 all was read before; of 20 to 29 two batches are left, and one record of each; then all.
    assert offsets == [*range(20), 25, *range(30, 40)]
    found = [
        (row["kind"], row["first_offset"], row["last_offset"]) for row in table(warehouse, "ingest_findings")
    ]
    assert found == [("gap", 20, 39)]


def test_findings_come_once(spark: SparkSession, made: LogDirectory, warehouse: Warehouse) -> None:
    log = Log()
    for number in range(9):
        log.append([commit_record("g", number)])
    made.write_log(7, log)
    made.write_log(8, log)
    damaged = made.segments(7)[1]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:70] + b"!" + whole[71:])
    for _ in range(2):
        ingest(lambda: spark, made.path, warehouse)
        (finding,) = table(warehouse, "ingest_findings")
        place = (finding["kind"], finding["log_partition"], finding["first_offset"], finding["position"])
        assert place == ("damage", 7, 3, 0)
        assert finding["path"] == str(damaged)
    assert [row["log_partition"] for row in table(warehouse, "commits")] == [7] * 3 + [8] * 9
    damaged.write_bytes(whole)
    made.write(8, [moved(log.batches[0], 20)])
    ingest(lambda: spark, made.path, warehouse)
    found = [(row["kind"], row["log_partition"]) for row in table(warehouse, "ingest_findings")]
    assert sorted(found) == [("damage", 7), ("lost_history", 8)]
    commits = [(row["log_partition"], row["log_offset"]) for row in table(warehouse, "commits")]
    assert commits == [*((7, n) for n in range(9)), *((8, n) for n in range(9)), (8, 20)]


def test_an_open_transaction_holds_back_what_follows_it(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse
) -> None:
    log = Log()
    log.append([commit_record("g", 0)])
    log.append([commit_record("t", 1)], producer_id=5, producer_epoch=0, is_transactional=True)
    log.append([commit_record("g", 2)])
    made.write_log(7, log)
    ingest(lambda: spark, made.path, warehouse)
    assert [row["log_offset"] for row in table(warehouse, "commits")] == [0]
    assert [row["kind"] for row in table(warehouse, "ingest_findings")] == ["open_transaction"]
    log.end_transaction(5, is_committed=True)
    made.write_log(7, log)
    ingest(lambda: spark, made.path, warehouse)
    found = [(row["log_offset"], row["producer_id"]) for row in table(warehouse, "commits")]
    assert found == [(0, None), (1, 5), (2, None)]


def test_following_a_log(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.ingest.POLL_S", 1)
    log = Log()
    for number in range(6):
        log.append([commit_record("g", number)])
    made.write_log(7, log, 2)
    stop = threading.Event()
    upto = [2]

    def more(_: Progress) -> None:
        seen = len(table(warehouse, "commits"))
        if seen == len(log.batches):
            stop.set()
        elif seen == upto[0]:
            upto[0] += 2
            made.write_log(7, log, upto[0], per_segment=10)

    done = ingest(lambda: spark, made.path, warehouse, follow=True, stop=stop, on_progress=more)
    assert done.records == 6
    assert [row["log_offset"] for row in table(warehouse, "commits")] == list(range(6))


def test_the_newest_of_every_key_is_what_the_daemon_loads(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse
) -> None:
    log = example_log(random.randrange(9), strange=False)
    add_transactions(log)
    made.write_log(7, log)
    ingest(lambda: spark, made.path, warehouse)
    shard = new_shard()
    opened = PartitionLog.open(OsFiles(), str(made.partition(7)), LogConfig())
    assert list(PartitionLoad(opened, shard, OsFiles(), GroupRecordCodec()).run_steps())
    opened.close()
    state = shard.snapshot_durable()
    commits: dict[Any, Any] = {}
    for row in table(warehouse, "commits"):
        value = None if row["tombstone"] else (row["offset"], row["metadata"])
        commits[row["group"], row["topic"], row["partition"]] = value
    loaded = {
        (group, topic, partition): (value.offset, value.metadata)
        for group, said in state.items()
        for (topic, partition), value in said.offsets.items()
    }
    assert {key: value for key, value in commits.items() if value is not None} == loaded
    groups = {row["group"]: row for row in table(warehouse, "group_generations")}
    living = {name: row["generation"] for name, row in groups.items() if not row["tombstone"]}
    assert living == {name: said.metadata.generation for name, said in state.items() if said.metadata}


def test_a_warehouse_takes_one_log_of_one_version(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse, tmp_path: Path
) -> None:
    made.write_log(7, example_log(3, batches=3))
    (made.root / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=1\n")
    ingest(lambda: spark, made.path, warehouse)
    before = tables(warehouse)
    (made.root / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=1\n")
    with pytest.raises(BadInput, match="cluster abc node 1, not of cluster other node 1"):
        ingest(lambda: spark, made.path, warehouse)
    marker = Path(warehouse.path(MARKER))
    marker.write_text(re.sub('"version": [0-9]+', '"version": 99', marker.read_text()))
    with pytest.raises(BadInput, match="version 99"):
        ingest(lambda: spark, made.path, warehouse)
    assert tables(warehouse) == before
    with pytest.raises(BadInput, match="is not a warehouse"):
        ingest(lambda: spark, made.path, Warehouse(str(tmp_path)))
    with pytest.raises(BadInput, match="is a file"):
        ingest(lambda: spark, made.path, Warehouse(str(marker)))


def test_a_warehouse_without_its_checkpoint_is_left_alone(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse
) -> None:
    import shutil

    made.write_log(7, example_log(3, batches=3))
    ingest(lambda: spark, made.path, warehouse)
    shutil.rmtree(warehouse.path("_checkpoint"))
    with pytest.raises(BadInput, match="ingest again"):
        ingest(lambda: spark, made.path, warehouse)


def test_an_empty_log_gives_tables_without_rows(
    spark: SparkSession, made: LogDirectory, warehouse: Warehouse
) -> None:
    made.write(7, [])
    assert ingest(lambda: spark, made.path, warehouse).records == 0
    assert tables(warehouse) == {name: [] for name in RECORDS}
    assert in_order([]) == []
