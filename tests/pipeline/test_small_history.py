"""A small history is built, and an ingest without additions ends, without Spark."""

from pathlib import Path
from typing import NoReturn

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.build import BuildSettings, build
from pipeline.ingest import Ingested, ingest
from pipeline.log_ends.snapshot import Snapshot
from pipeline.warehouse import CHECKPOINT, Warehouse
from tests.pipeline.hand_made import HandMade, at, fill
from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.random_logs import Log
from tests.pipeline.silver_tables import tables
from tests.pipeline.test_decode import commit_record
from tests.pipeline.told import ends

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


class SparkStarted(Exception):
    """Spark was needed."""


def refuse_spark() -> NoReturn:
    raise SparkStarted


def test_a_clock_that_is_ahead_does_not_age_other_groups(warehouse: Warehouse) -> None:
    """A day passed for one group only. The other one has been empty for half a minute."""
    made = HandMade()
    made.generation("empty", 1, {"a1": [("t", 0)]}, 0)
    made.commit("empty", "t", 0, 5, 60)
    made.emptied("empty", 2, 90)
    made.generation("ahead", 1, {"b1": [("t", 0)]}, 86400)
    fill(warehouse, made)
    warehouse.write_snapshot(Snapshot(int(at(120).timestamp() * 1000), {}))
    build(refuse_spark, warehouse, BuildSettings(measure=lambda *_: ends(("t", 0, 120, 50))))
    assert pq.read_table(warehouse.path("build_info")).column("as_of_ts").to_pylist() == [at(120)]
    assert "abandoned_group" not in pq.read_table(warehouse.path("anomalies")).column("kind").to_pylist()


def test_spark_reads_histories_from_a_size_on(warehouse: Warehouse) -> None:
    fill(warehouse, HandMade())
    build(refuse_spark, warehouse)
    with pytest.raises(SparkStarted):
        build(refuse_spark, warehouse, BuildSettings(keep_from=0))


def test_an_ingest_without_additions_needs_no_spark(
    spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    made, log = LogDirectory(tmp_path / "data"), Log()
    log.append([commit_record("g", 1, "x")])
    made.write_log(7, log)
    assert ingest(lambda: spark, made.path, warehouse).records == 1
    found = tables(warehouse)
    assert ingest(refuse_spark, made.path, warehouse) == Ingested(0, 0, 0)
    assert tables(warehouse) == found
    log.append([commit_record("g", 2, "x")])
    made.write_log(7, log)
    with pytest.raises(SparkStarted):
        ingest(refuse_spark, made.path, warehouse)
    assert ingest(lambda: spark, made.path, warehouse).records == 1


def test_an_interrupted_or_damaged_checkpoint_is_left_to_spark(
    spark: SparkSession, warehouse: Warehouse, tmp_path: Path
) -> None:
    made, log = LogDirectory(tmp_path / "data"), Log()
    log.append([commit_record("g", 1, "x")])
    made.write_log(7, log)
    ingest(lambda: spark, made.path, warehouse)
    Path(warehouse.path(f"{CHECKPOINT}/commits/0")).unlink()
    with pytest.raises(SparkStarted):
        ingest(refuse_spark, made.path, warehouse)
