"""The progress and the costs that a test run prints."""

import tomllib
from pathlib import Path

import pytest

from tests.run_report import ALLOWANCE_S, LIMITS, TOLERANCE, FolderCost, RunReport, folder_of
from tests.small_run import small_run

BUSY = """
import subprocess, sys, time

def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def test_busy():
    spin(0.1)

def test_busy_child():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.2: pass"], check=True)

def test_busy_child_that_runs_on():
    script = "import time\\nwhile time.process_time() < 1: pass\\nprint('done', flush=True)\\ntime.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    children.append(child)
    assert child.stdout.readline() == b"done\\n"

children = []

def test_failing():
    children[0].kill()
    children[0].wait()
    assert False
"""


def test_the_summary_counts_tests_and_the_cpu_time_of_children(tmp_path: Path) -> None:
    run = small_run(tmp_path, BUSY, "-p", "tests.run_report")
    rows = [line.split() for line in run.printed.splitlines() if line.startswith(("test_small.py ", "all "))]
    of_folder, of_all = (row for row in rows if len(row) == 4 and row[1] == "4")
    assert any("FAILED" in row for row in rows)
    assert of_folder[1:] == of_all[1:]
    assert of_folder[1] == "4"
    assert 1.2 <= float(of_folder[3]) < 2.2, "the child that runs on counts once, although it ends later"


@pytest.mark.parametrize(
    ("node_id", "folder"),
    [
        ("tests/group/consumer/test_join.py::test_a[1/2]", "group"),
        ("tests/test_tidy.py::test_b", "test_tidy.py"),
    ],
)
def test_a_test_belongs_to_its_folder(node_id: str, folder: str) -> None:
    assert folder_of(node_id) == folder


def test_the_table_has_both_tiers_and_no_folder_that_is_gone() -> None:
    tables = tomllib.loads(LIMITS.read_text())
    assert tables.keys() == {"fast", "extended"}
    folders = {folder for table in tables.values() for folder in table}
    assert [folder for folder in folders if not LIMITS.with_name(folder).exists()] == []


@pytest.mark.parametrize(
    ("took", "limits", "is_over"),
    [
        (100.0, {"group": 100.0}, False),
        (100.0 * TOLERANCE + ALLOWANCE_S, {"group": 100.0}, False),
        (100.0 * TOLERANCE + ALLOWANCE_S + 1, {"group": 100.0}, True),
        (ALLOWANCE_S, {}, False),
        (ALLOWANCE_S + 1, {}, True),
    ],
)
def test_a_folder_over_its_limit_is_named(
    took: float, limits: dict[str, float], is_over: bool, pytestconfig: pytest.Config
) -> None:
    report = RunReport(pytestconfig)
    report.costs["group"] = FolderCost(tests=3, cpu_seconds=took)
    assert [line.split()[0] for line in report.compare(limits)] == (["group"] if is_over else [])
