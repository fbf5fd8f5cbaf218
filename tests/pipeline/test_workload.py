"""How much there is to do, as it decides how Spark is started."""

import os
from pathlib import Path

import pytest

from pipeline.errors import BadInput
from pipeline.workload import LITTLE_BYTES, is_little, log_bytes


def sparse(path: Path, size_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.truncate(path, size_bytes)


def test_what_is_to_be_read_and_what_is_there_count_together(tmp_path: Path) -> None:
    warehouse = str(tmp_path)
    assert is_little(warehouse, LITTLE_BYTES)
    sparse(tmp_path / "commits" / "batch=1" / "a.parquet", LITTLE_BYTES - 10)
    assert is_little(warehouse, 10)
    assert not is_little(warehouse, 11)
    sparse(tmp_path / "members" / "b.parquet", 11)
    assert not is_little(warehouse)


def test_a_warehouse_that_is_not_there_yet_holds_little_and_one_behind_a_url_may_hold_much(
    tmp_path: Path,
) -> None:
    assert is_little(str(tmp_path / "none"))
    assert not is_little("s3a://bucket/warehouse")


def test_of_a_brokers_directory_the_offsets_log_counts_alone(tmp_path: Path) -> None:
    sparse(tmp_path / "__consumer_offsets-3" / f"{0:020}.log", 100)
    sparse(tmp_path / "__consumer_offsets-3" / f"{7:020}.log", 20)
    sparse(tmp_path / "__consumer_offsets-3" / f"{0:020}.index", 5000)
    sparse(tmp_path / "orders-0" / f"{0:020}.log", LITTLE_BYTES)
    assert log_bytes(str(tmp_path)) == 120
    with pytest.raises(BadInput):
        log_bytes(str(tmp_path / "none"))
