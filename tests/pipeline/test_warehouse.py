"""The directory of tables: a reader sees a whole table or none, on any file system."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.directory import Directory, HadoopDirectory, LocalDirectory, directory_at
from pipeline.errors import BadInput
from pipeline.silver.schemas import SILVER
from pipeline.table import Table
from pipeline.table_files import TableFiles
from pipeline.warehouse import MARKER, Warehouse
from tests.pipeline.rows import rows


@pytest.fixture(params=["path", "Hadoop"])
def directory(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Directory:
    """A directory of either kind; Hadoop's file system here is its local one."""
    root = tmp_path / "place"
    root.mkdir()
    return LocalDirectory(str(root)) if request.param == "path" else HadoopDirectory(f"file://{root}")


def test_a_directory_does_what_it_says(directory: Directory) -> None:
    assert directory.names("") == directory.names("nothing") == []
    directory.create("a/b")
    directory.create("a/b")
    directory.write("a/b/file", b"one")
    directory.write("a/b/file", b"two")
    assert directory.read("a/b/file") == b"two"
    assert directory.names("a/b") == ["file"]
    directory.write("a/other", b"three")
    directory.replace_file("a/other", "a/b/file")
    assert (directory.read("a/b/file"), directory.exists("a/other")) == (b"three", False)
    directory.create("c")
    directory.rename("a/b", "c/d")
    assert (directory.exists("a/b"), directory.names("c/d")) == (False, ["file"])
    with pytest.raises(Exception, match=r"other|exist"):
        directory.replace_file("a/other", "c/d/file")
    directory.delete("c")
    directory.delete("c")
    assert directory.names("") == ["a"]


def test_which_places_are_local(tmp_path: Path) -> None:
    assert directory_at(str(tmp_path)).path("x") == str(tmp_path / "x")
    assert directory_at(f"file://{tmp_path}").path("x") == str(tmp_path / "x")
    assert directory_at("hdfs://name:9000/tables").path("x") == "hdfs://name:9000/tables/x"


def test_a_url_needs_a_running_spark_only_when_it_is_used() -> None:
    assert Warehouse("hdfs://name:9000/tables").path("commits") == "hdfs://name:9000/tables/commits"


@pytest.mark.parametrize("kind", ["path", "Hadoop"])
def test_gold_is_replaced_whole(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    table = Table.declare("lag", "lag bigint")
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    if kind == "Hadoop":
        warehouse.directory = HadoopDirectory(f"file://{warehouse.root}")
    warehouse.create()

    def replace(count: int) -> int:
        with TableFiles(warehouse) as files:
            for number in range(count):
                files.append(table, table.from_rows([{"lag": number}]))
            return files.publish(table, warehouse.gold_file("lag"))

    with pytest.raises(BadInput, match="build the tables first"):
        warehouse.gold(spark, "lag")
    place = tmp_path / "warehouse" / "lag"
    for count in (10, 3, 0):
        assert replace(count) == count
        assert rows(warehouse.gold(spark, "lag"), "lag") == list(range(count))
        assert pq.read_table(place).num_rows == count
        assert len([file for file in place.iterdir() if file.suffix == ".parquet"]) == 1
    with open(place / "lag.parquet", "rb") as opened_before:
        replace(7)
        assert pq.read_table(opened_before).num_rows == 0
    assert not list(tmp_path.rglob("pass-*"))


def test_a_new_warehouse_says_what_its_columns_are(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.create()
    warehouse.prepare()
    for name, table in SILVER.items():
        assert pq.read_table(warehouse.path(name)).num_rows == 0
        read = spark.read.parquet(warehouse.path(name)).drop("ingest_batch").dtypes
        assert read == [column for column in table.columns if column[0] != "ingest_batch"]
        assert warehouse.silver(spark, name).dtypes == list(table.columns)


def test_only_a_warehouse_is_taken_for_one(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        Warehouse(str(tmp_path / "nowhere")).check_version()
    with pytest.raises(BadInput, match="is not a warehouse"):
        Warehouse(str(tmp_path)).check_version()
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    warehouse.create()
    warehouse.check_version()
    for text in ("", "[]", '{"format": "something else", "version": 1}'):
        Path(warehouse.path(MARKER)).write_text(text)
        with pytest.raises(BadInput, match=MARKER):
            warehouse.check_version()
