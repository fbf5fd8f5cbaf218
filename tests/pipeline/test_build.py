"""Building all gold tables of a warehouse."""

from collections.abc import Collection
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.build import GOLD, Built, Settings, build
from pipeline.errors import BadInput
from pipeline.log_ends import LogEnd, Period, TopicPartition
from pipeline.warehouse import Warehouse
from tests.pipeline.hand_made import HandMade, at, fill
from tests.pipeline.rows import one, rows


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def ms(seconds: float) -> int:
    return int(at(seconds).timestamp() * 1000)


def test_every_table_is_built_as_declared_and_a_later_build_replaces_it(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    made = HandMade(spark)
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    for n in range(12):
        made.commit("g", "t", 0, 30 - n if n < 3 else 5, 10 * n)
    fill(spark, warehouse, made)
    asked: list[tuple[Collection[TopicPartition], Period]] = []

    def measure(partitions: Collection[TopicPartition], period: Period) -> list[LogEnd]:
        asked.append((partitions, period))
        return [LogEnd("t", 0, ms(200), 0, 40, "file")]

    built: list[Built] = []
    build(spark, warehouse, Settings(measure=measure, on_table=built.append))
    assert asked == [([TopicPartition("t", 0)], Period(ms(0), ms(110), 1))]
    assert {table.name for table in built} == set(GOLD)
    for name, table in GOLD.items():
        file = pq.read_table(Path(warehouse.path(name)))
        assert tuple(file.schema.names) == tuple(column for column, _ in table.columns)
        assert warehouse.gold(spark, name).dtypes == list(table.columns)
    assert rows(warehouse.gold(spark, "lag"), "lag") == [35]
    assert rows(warehouse.gold(spark, "anomalies"), "kind") == ["offset_rewind"] * 3
    info = one(warehouse.gold(spark, "build_info"))
    assert (info["commits"], info["group_records"], info["log_end_source"]) == (12, 1, "file")
    assert (info["first_record_ts"], info["last_record_ts"], info["as_of_ts"]) == (at(0), at(110), at(110))

    later = HandMade(spark)
    later.next_offset = made.next_offset
    later.commit("g", "t", 0, 45, 120)
    fill(spark, warehouse, later, ingest_batch=2)
    build(spark, warehouse)
    assert rows(warehouse.gold(spark, "latest_offsets"), "offset") == [45]
    assert rows(warehouse.gold(spark, "lag"), "lag") == [None]
    assert sum(rows(warehouse.gold(spark, "velocity"), "commits")) == 13


def test_log_ends_that_cannot_be_had_leave_the_tables_as_they_were(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    made = HandMade(spark)
    made.commit("g", "t", 0, 1, 0)
    fill(spark, warehouse, made)

    def fail(_partitions: Collection[TopicPartition], _period: Period) -> list[LogEnd]:
        raise BadInput("broker:9092: cannot be reached")

    with pytest.raises(BadInput, match="broker:9092"):
        build(spark, warehouse, Settings(measure=fail))
    with pytest.raises(BadInput):
        warehouse.gold(spark, "latest_offsets")


def test_what_was_never_ingested_cannot_be_built(spark: SparkSession, warehouse: Warehouse) -> None:
    with pytest.raises(BadInput, match="warehouse"):
        build(spark, warehouse)
