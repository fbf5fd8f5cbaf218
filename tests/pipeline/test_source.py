"""The source, as a user of Spark meets it."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.source import ConsumerOffsets, register
from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.random_logs import Log
from tests.pipeline.test_decode import Rows, commit_record, plain

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def made(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "data")


def load(spark: SparkSession, path: str, **options: str) -> DataFrame:
    register(spark)
    return spark.read.format("consumer_offsets").options(**options).load(path)


def rows(frame: DataFrame) -> Rows:
    found: Rows = frame.toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["log_partition"], row["log_offset"]))


def two_partitions(made: LogDirectory) -> tuple[Log, Log]:
    made_logs = (Log(), Log())
    for number, log in enumerate(made_logs):
        for n in range(5):
            log.append([commit_record(f"g{number}", n), commit_record("other", n, version=4)], codec=n)
        made.write_log(7 + number, log, per_segment=2)
    return made_logs


def damage(made: LogDirectory, number: int) -> Path:
    first, *_ = made.segments(number)
    raw = bytearray(first.read_bytes())
    raw[80] ^= 1
    first.write_bytes(raw)
    return first


def test_a_directory_is_read(spark: SparkSession, made: LogDirectory) -> None:
    first, second = two_partitions(made)
    found = rows(load(spark, made.path, tasks="3"))
    expected = plain(first.data)[0] + [row | {"log_partition": 8} for row in plain(second.data)[0]]
    assert found == expected
    assert rows(load(spark, str(made.partition(8)))) == expected[10:]
    assert rows(load(spark, f"file://{made.path}")) == expected


def test_filters_leave_out_what_need_not_be_read(spark: SparkSession, made: LogDirectory) -> None:
    two_partitions(made)
    damage(made, 8)
    frame = load(spark, made.path)
    # The damaged partition is not even looked at.
    assert {row["log_partition"] for row in rows(frame.where("log_partition = 7"))} == {7}
    assert len(rows(frame.where(sf.col("log_partition").isin(7, 9)))) == 10
    damage(made, 7).unlink()
    only = load(spark, str(made.partition(7)))
    assert {row["group"] for row in rows(only.where("`group` = 'g0'"))} == {"g0"}
    assert rows(only.where("`group` = 'g0' and kind = 'group'")) == []
    assert len(rows(only.where("offset > 3 and `group` in ('g0', 'nobody')"))) == 1


def test_only_the_columns_that_are_asked_for_are_made(spark: SparkSession, made: LogDirectory) -> None:
    first, second = two_partitions(made)
    every = plain(first.data)[0] + [row | {"log_partition": 8} for row in plain(second.data)[0]]
    wanted = ["topic", "log_offset", "log_partition", "metadata"]
    register(spark)
    reader = spark.read.format("consumer_offsets")
    chosen = reader.schema("topic string, log_offset bigint, log_partition int, metadata string")
    assert rows(chosen.load(made.path)) == [{name: row[name] for name in wanted} for row in every]
    with pytest.raises(PySparkException, match="offset int is bigint"):
        reader.schema("offset int").load(made.path).count()


def test_pushed_filters_reach_the_decoder(made: LogDirectory) -> None:
    from pyspark.sql.datasource import EqualTo, In
    from pyspark.sql.pandas.types import from_arrow_schema

    from pipeline.decode.rows import SCHEMA

    two_partitions(made)
    reader = ConsumerOffsets({"path": made.path, "tasks": "2"}).reader(from_arrow_schema(SCHEMA))
    list(reader.pushFilters([EqualTo(("group",), "g1"), In(("log_partition",), (8,))]))
    given: Rows = []
    for task in reader.partitions():
        for batch in reader.read(task):
            assert isinstance(batch, pa.RecordBatch)
            given += batch.to_pylist()
    assert {(row["group"], row["log_partition"]) for row in given} == {("g1", 8)}


def test_damage_is_an_error_unless_findings_are_asked_for(spark: SparkSession, made: LogDirectory) -> None:
    two_partitions(made)
    path = damage(made, 8)
    with pytest.raises(PySparkException, match=f"{path}: byte 0: checksum"):
        load(spark, made.path).count()
    found = rows(load(spark, made.path, findings="true"))
    assert [row["log_offset"] for row in found if row["kind"] == "commit"] == list(range(10))
    (finding,) = (row for row in found if row["kind"] == "finding")
    place = (finding["finding"], finding["log_partition"], finding["path"], finding["position"])
    assert place == ("damage", 8, str(path), 0)


def test_a_batch_that_does_not_decode_is_damage_too(spark: SparkSession, made: LogDirectory) -> None:
    from storage.batch import check_crc, read_header
    from storage.checksum import crc32c

    log = Log()
    for n in range(3):
        log.append([commit_record("g", n)])
    raw = bytearray(log.batches[1])
    raw[61] ^= 0x08  # the length of the record; the checksum is made right again
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    check_crc(bytes(raw), 0, read_header(raw))
    made.write(7, [log.batches[0], bytes(raw), log.batches[2]], per_segment=5)
    with pytest.raises(PySparkException, match=f"byte {len(log.batches[0])}: the batch is whole"):
        load(spark, made.path).where("kind = 'commit'").count()
    found = rows(load(spark, made.path, findings="true"))
    assert [(row["kind"], row["log_offset"]) for row in found] == [
        ("commit", 0),
        ("finding", 1),
        ("commit", 2),
    ]


def test_options_that_make_no_sense(spark: SparkSession, made: LogDirectory) -> None:
    two_partitions(made)
    with pytest.raises(PySparkException, match="max_bytes must be a positive number"):
        load(spark, made.path, max_bytes="-1").count()
    with pytest.raises(PySparkException, match="does not exist"):
        load(spark, made.path + "-not").count()
