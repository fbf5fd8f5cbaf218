"""`groupd-pipeline` as a process: its exit codes, and that no end of it does harm."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.ingest import ingest
from pipeline.session import java_version
from pipeline.warehouse import Warehouse
from tests.interop.requirement import lacking
from tests.pipeline.class_archive import quick_jvm
from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.random_logs import Log
from tests.pipeline.silver_tables import table, tables
from tests.pipeline.test_decode import commit_record

pytestmark = pytest.mark.timeout(400)

BATCHES = 40


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pipeline", *arguments]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=300, env={**os.environ, **environment}
    )


def need_java() -> None:
    from pipeline.errors import BadInput
    from pipeline.session import check_java

    try:
        check_java()
    except BadInput as error:
        lacking(str(error))


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    """Return its only line."""
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert not done.stdout
    return line


@pytest.fixture
def made(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "data")


def long_log() -> Log:
    log = Log()
    for number in range(BATCHES):
        log.append([commit_record(f"g{number % 3}", number * 50 + n, "x" * 40) for n in range(50)])
    return log


def test_bad_input_takes_one_line_and_writes_nothing(tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    (tmp_path / "empty").mkdir()
    said = one_line(run("ingest", "--log-dir", str(tmp_path / "empty"), "--warehouse", warehouse), 2)
    assert str(tmp_path / "empty") in said
    assert not Path(warehouse).exists()


def test_without_java_one_line_says_what_to_install(tmp_path: Path, made: LogDirectory) -> None:
    made.write_log(7, long_log())
    arguments = ("ingest", "--log-dir", made.path, "--warehouse", str(tmp_path / "warehouse"))
    said = one_line(run(*arguments, PATH=str(tmp_path), JAVA_HOME=""), 2)
    assert "Java" in said
    assert "install" in said


def test_a_warehouse_that_the_system_refuses_takes_one_line(tmp_path: Path, made: LogDirectory) -> None:
    need_java()
    made.write_log(7, long_log())
    warehouse = str(tmp_path / ("w" * 300))
    done = run("ingest", "--log-dir", made.path, "--warehouse", warehouse, SPARK_SUBMIT_OPTS=quick_jvm())
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"groupd-pipeline: {warehouse}: file name too long"]


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("something else", None),
    ],
)
def test_the_version_of_java_is_understood(said: str, version: int | None) -> None:
    assert java_version(said) == version


def start(arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "SPARK_SUBMIT_OPTS": quick_jvm()},
        start_new_session=True,
    )


def batches(warehouse: Warehouse) -> int:
    """Of how many batches there are commits."""
    return len(list(Path(warehouse.path("commits")).glob("ingest_batch=[1-9]*")))


def wait_for_a_batch(warehouse: Warehouse, process: subprocess.Popen[str], beyond: int = 0) -> None:
    """Until there are commits of one more batch than so many."""
    while batches(warehouse) <= beyond:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_killed_or_interrupted_it_loses_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, made: LogDirectory
) -> None:
    made.write_log(7, long_log(), per_segment=7)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    arguments = ["ingest", "--log-dir", made.path, "--warehouse", warehouse.root, "--max-bytes", "12000"]

    process = start(arguments)
    wait_for_a_batch(warehouse, process)
    time.sleep(random.random() * 2)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    tables(warehouse)  # the tables are readable

    before = batches(warehouse)
    process = start([*arguments, "--follow"])
    wait_for_a_batch(warehouse, process, before)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to all processes in the foreground
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said

    ingest(lambda: spark, made.path, warehouse)
    offsets = [row["log_offset"] for row in table(warehouse, "commits")]
    assert offsets == list(range(50 * BATCHES))
    numbers = [row["ingest_batch"] for row in table(warehouse, "ingest_batches", without_batch=False)]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
