"""The Spark session that these tests share: its workers, and the death of its virtual machine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.class_archive import quick_jvm
from tests.pipeline.test_command import need_java
from tests.tooling.small_run import small_run

pytestmark = pytest.mark.timeout(400)

TESTS = """
import pytest

@pytest.fixture(scope="module")
def made_of_it(spark):
    return spark.range(3)

def test_before(made_of_it):
    assert made_of_it.columns == ["id"]

def test_that_kills(spark):
    machine = spark.sparkContext._gateway.proc
    machine.kill()
    machine.wait()
    with pytest.raises(Exception):
        spark.range(3)

def test_after(spark, made_of_it):
    assert made_of_it.columns == ["id"]
    assert made_of_it.sparkSession is spark
"""


def test_a_test_that_kills_sparks_virtual_machine_is_the_only_one_that_fails(tmp_path: Path) -> None:
    need_java()
    quick_jvm()  # create the JVM now, so that its start does not count in the small run's time
    run = small_run(tmp_path, TESTS, "-p", "tests.pipeline.conftest")
    assert run.outcomes == {
        "test_before": ["PASSED"],
        "test_that_kills": ["PASSED", "ERROR"],
        "test_after": ["PASSED"],
    }, run.printed
    assert "spark did not outlive this test" in run.printed


def test_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    """Python compiles modules of an archive in each process: a worker would take 2 CPU-seconds to start."""

    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(report, "file string").collect()
    assert row.file == pyspark.__file__
    assert "PYSPARK_PYTHON" not in os.environ
