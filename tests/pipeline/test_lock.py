"""One ingest and one build of a warehouse at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pipeline.build import build
from pipeline.errors import BadInput
from pipeline.ingest import ingest
from pipeline.lock import BUILD, INGEST, alone
from pipeline.warehouse import Warehouse
from tests.pipeline.log_directory import LogDirectory

HOLDER = """
import sys
from pipeline.lock import alone
from pipeline.warehouse import Warehouse
with alone(Warehouse(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    made = Warehouse(str(tmp_path / "warehouse"))
    made.create()
    return made


def test_a_second_build_or_ingest_is_told_who_is_at_it(warehouse: Warehouse, tmp_path: Path) -> None:
    made = LogDirectory(tmp_path / "data")
    made.write(7, [])
    no_spark = None  # neither gets as far as to ask for it
    with alone(warehouse, BUILD), alone(warehouse, INGEST):
        with pytest.raises(BadInput, match=f"another build is running as process {os.getpid()}"):
            build(no_spark, warehouse)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match=f"another ingest is running as process {os.getpid()}"):
            ingest(no_spark, made.path, warehouse)  # type: ignore[arg-type]
    with alone(warehouse, BUILD) as is_held:
        assert is_held


@pytest.mark.parametrize("work", [BUILD, INGEST])
def test_a_process_that_was_killed_holds_nothing(warehouse: Warehouse, work: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, warehouse.root, work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(BadInput, match=f"process {process.pid}"), alone(warehouse, work):
        pass
    process.kill()
    process.communicate()
    with alone(warehouse, work):
        pass
