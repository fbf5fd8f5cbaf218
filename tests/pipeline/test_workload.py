"""The amount of work, which decides how Spark is started. Only the data that a command reads counts."""

import json
import os
from pathlib import Path

import pytest

from pipeline.errors import BadInput
from pipeline.fold_checkpoint import VERSION
from pipeline.workload import (
    LITTLE_BYTES,
    MODERATE_BYTES,
    Workload,
    log_bytes,
    of_build,
    of_ingest,
)

LOG = f"__consumer_offsets-3/{0:020}.log"


def sparse(path: Path, size_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size_bytes)


def batch(warehouse: Path, number: int, commits_bytes: int) -> None:
    """A complete one."""
    sparse(warehouse / "commits" / f"ingest_batch={number}" / "a.parquet", commits_bytes)
    sparse(warehouse / "ingest_batches" / f"ingest_batch={number}" / "a.parquet", 1)


def read_by_ingests(warehouse: Path, *sizes: int) -> None:
    """Write a checkpoint with an entry of this size for each batch."""
    offsets = warehouse / "_checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for number, size_bytes in enumerate(sizes):
        entry = json.dumps({"next_offsets": {}, "bytes_read": size_bytes})
        (offsets / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{entry}')
        (offsets / f".{number}.crc").write_bytes(b"crc")


@pytest.mark.parametrize(
    ("commits_bytes", "workload"),
    [
        (LITTLE_BYTES - 100, Workload.LITTLE),
        (LITTLE_BYTES + 1, Workload.MODERATE),
        (MODERATE_BYTES - 100, Workload.MODERATE),
        (MODERATE_BYTES + 1, Workload.MUCH),
    ],
)
def test_a_first_build_reads_all_tables_of_the_log(
    tmp_path: Path, commits_bytes: int, workload: Workload
) -> None:
    batch(tmp_path, 1, commits_bytes - 10)
    sparse(tmp_path / "members" / "ingest_batch=1" / "a.parquet", 10)
    sparse(tmp_path / "velocity" / "velocity.parquet", MODERATE_BYTES)  # is replaced, not read
    assert of_build(str(tmp_path)) == workload


def test_a_later_build_reads_the_new_commits_and_what_was_kept_of_the_others(tmp_path: Path) -> None:
    batch(tmp_path, 1, 10 * MODERATE_BYTES)
    batch(tmp_path, 2, 1000)
    sparse(tmp_path / "_folds" / "one" / "minutes" / "a.parquet", 1000)
    said = {"version": VERSION, "place": "_folds/one", "through_batch": 1, "grain_s": 1}
    (tmp_path / "_folds" / "current.json").write_text(json.dumps(said))
    warehouse = str(tmp_path)
    assert of_build(warehouse) == Workload.LITTLE
    sparse(tmp_path / "_folds" / "one" / "minutes" / "b.parquet", LITTLE_BYTES)
    assert of_build(warehouse) == Workload.MODERATE
    assert of_build(warehouse, full=True) == Workload.MUCH


def test_an_ingest_reads_what_none_has_read(tmp_path: Path) -> None:
    log, warehouse = tmp_path / "log", tmp_path / "warehouse"
    sparse(log / LOG, 100 * MODERATE_BYTES)
    assert of_ingest(str(log), str(warehouse)) == Workload.MUCH
    read_by_ingests(warehouse, 1, 100 * MODERATE_BYTES - LITTLE_BYTES)
    assert of_ingest(str(log), str(warehouse)) == Workload.LITTLE
    sparse(log / LOG, 100 * MODERATE_BYTES + 1)
    assert of_ingest(str(log), str(warehouse)) == Workload.MODERATE
    sparse(log / LOG, 1)  # compacted since
    assert of_ingest(str(log), str(warehouse)) == Workload.LITTLE


@pytest.mark.parametrize("torn", [b"", b"v1\n{}\n{", b"v1\n{}\n[]", b'v1\n{}\n{"next_offsets": {}}'])
def test_what_a_torn_checkpoint_says_counts_as_nothing(tmp_path: Path, torn: bytes) -> None:
    log, warehouse = tmp_path / "log", tmp_path / "warehouse"
    sparse(log / LOG, 100 * MODERATE_BYTES)
    read_by_ingests(warehouse, 100 * MODERATE_BYTES)
    (warehouse / "_checkpoint" / "offsets" / "1").write_bytes(torn)
    assert of_ingest(str(log), str(warehouse)) == Workload.MUCH


def test_a_warehouse_that_is_not_there_yet_holds_little_and_one_behind_a_url_may_hold_much(
    tmp_path: Path,
) -> None:
    sparse(tmp_path / LOG, 1)
    nowhere, behind_a_url = str(tmp_path / "none"), "s3a://bucket/warehouse"
    assert of_build(nowhere) == of_ingest(str(tmp_path), nowhere) == Workload.LITTLE
    assert of_build(behind_a_url) == Workload.MUCH
    assert of_ingest(str(tmp_path), behind_a_url) == Workload.MUCH


def test_what_is_wrong_with_a_warehouse_is_left_for_the_command_to_say(tmp_path: Path) -> None:
    sparse(tmp_path / LOG, 1)
    (tmp_path / "file").touch()
    for wrong in (str(tmp_path / "file"), str(tmp_path / ("w" * 300))):
        assert of_build(wrong) == of_ingest(str(tmp_path), wrong) == Workload.MUCH


def test_of_a_brokers_directory_the_offsets_log_counts_alone(tmp_path: Path) -> None:
    sparse(tmp_path / LOG, 100)
    sparse(tmp_path / "__consumer_offsets-3" / f"{7:020}.log", 20)
    sparse(tmp_path / "__consumer_offsets-3" / f"{0:020}.index", 5000)
    sparse(tmp_path / "orders-0" / f"{0:020}.log", LITTLE_BYTES)
    assert log_bytes(str(tmp_path)) == 120
    with pytest.raises(BadInput):
        of_ingest(str(tmp_path / "none"), str(tmp_path))
