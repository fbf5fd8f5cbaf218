"""The same command on a cluster of a master and two workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.warehouse import Warehouse
from tests.pipeline.class_archive import quick_jvm
from tests.pipeline.cluster import LocalCluster
from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.silver_tables import expected_tables, tables
from tests.pipeline.test_command import long_log, need_java
from tests.pipeline.test_decode import plain

pytestmark = pytest.mark.timeout(400)


def test_ingest_on_a_cluster_of_two_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_java()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", quick_jvm())  # of all six virtual machines
    made = LogDirectory(tmp_path / "data")
    written = [long_log(), long_log()]
    for number, log in enumerate(written):
        made.write_log(number, log, per_segment=10)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    with LocalCluster(workers=2) as cluster:
        arguments = ["ingest", "--log-dir", f"file://{made.path}", "--warehouse", warehouse.root]
        done = subprocess.run(
            [sys.executable, "-m", "pipeline", *arguments, "--master", cluster.url],
            capture_output=True,
            text=True,
            timeout=200,
            env=os.environ,
        )
    assert done.returncode == 0, done.stderr
    rows = [
        row | {"log_partition": number} for number, log in enumerate(written) for row in plain(log.data)[0]
    ]
    assert tables(warehouse) == expected_tables(rows)
    files = list(Path(warehouse.path("commits")).glob("ingest_batch=1/*.parquet"))
    assert len(files) == 2  # one by each worker's only core
