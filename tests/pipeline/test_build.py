"""Building all gold tables of a warehouse."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.build import GOLD, BuildSettings, Built, build
from pipeline.errors import BadInput
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.warehouse import Warehouse
from storage.topic_partition import TopicPartition
from tests.pipeline.hand_made import HandMade, at, fill
from tests.pipeline.rows import one, rows
from tests.pipeline.told import HOSTILE, Told


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def ms(seconds: float) -> int:
    return int(at(seconds).timestamp() * 1000)


def test_every_table_is_built_as_declared(told: Told) -> None:
    spark, warehouse = told.spark, told.warehouse
    assert {table.name for table in told.built} == set(GOLD)
    for name, table in GOLD.items():
        file = pq.read_table(Path(warehouse.path(name)))
        assert tuple(file.schema.names) == tuple(column for column, _ in table.columns)
        assert warehouse.gold(spark, name).dtypes == list(table.columns)
        assert [built.rows for built in told.built if built.name == name] == [file.num_rows]


def test_tables_are_of_the_whole_history_and_of_the_log_ends_that_were_asked_for(told: Told) -> None:
    spark, warehouse = told.spark, told.warehouse
    consumed = {*(("orders", n) for n in (0, 1)), *(("docs", n) for n in range(60)), (HOSTILE, 0)}
    assert told.asked == [({TopicPartition(*one) for one in consumed}, Period(ms(0), ms(600), 5))]
    of_restless = warehouse.gold(spark, "lag").where("`group` = 'restless'")
    assert rows(of_restless, "partition", "lag", "source") == [(0, 830, "file")]
    rewinds = warehouse.gold(spark, "anomalies").where("kind = 'offset_rewind'")
    assert rows(rewinds, "amount") == [7] * 59
    info = one(warehouse.gold(spark, "build_info"))
    assert (info["commits"], info["group_records"], info["log_end_source"]) == (208, 12, "file")
    assert (info["first_record_ts"], info["last_record_ts"], info["as_of_ts"]) == (at(0), at(600), at(600))


def test_log_ends_that_cannot_be_had_leave_the_tables_as_they_were(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    made = HandMade()
    made.commit("g", "t", 0, 1, 0)
    fill(warehouse, made)

    def fail(*_: object) -> list[LogEnd]:
        raise BadInput("broker:9092: cannot be reached")

    with pytest.raises(BadInput, match="broker:9092"):
        build(lambda: spark, warehouse, BuildSettings(measure=fail))
    with pytest.raises(BadInput):
        warehouse.gold(spark, "latest_offsets")


def test_a_stopped_build_leaves_the_tables_that_it_finished(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    made = HandMade()
    made.generation("g", 1, {"a1": [("t", 0)]}, 0)
    for seconds in range(3):
        made.commit("g", "t", 0, seconds, seconds)
    made.commit("g", "t", 1, 7, 3)
    fill(warehouse, made)
    ends = [LogEnd("t", partition, ms(3), 0, 8, "file") for partition in (0, 1)]

    def stop_after_lag(table: Built) -> None:
        if table.name == "lag":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(lambda: spark, warehouse, BuildSettings(measure=lambda *_: ends, on_table=stop_after_lag))
    offsets = warehouse.gold(spark, "latest_offsets")
    assert rows(offsets, "group", "partition", "offset") == [("g", 0, 2), ("g", 1, 7)]
    assert rows(warehouse.gold(spark, "lag"), "partition", "lag", "source") == [
        (0, 6, "file"),
        (1, 1, "file"),
    ]
    assert warehouse.gold(spark, "lag").dtypes == list(GOLD["lag"].columns)
    with pytest.raises(BadInput):
        warehouse.gold(spark, "velocity")


def test_what_was_never_ingested_cannot_be_built(spark: SparkSession, warehouse: Warehouse) -> None:
    with pytest.raises(BadInput, match="warehouse"):
        build(lambda: spark, warehouse)
