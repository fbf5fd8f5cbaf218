"""The progress and the costs that a test run prints."""

import os
import re
from pathlib import Path

import pytest

from benchmarks import neighbours
from tests.cpu_limits import TierLimits
from tests.run_report import FolderCost, RunReport, folder_of
from tests.tooling.small_run import small_run

BUSY = """
import subprocess, sys, time

def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

spin(0.5)  # while the tests are collected

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
    lines = run.printed.partition("cost by folder")[2].splitlines()
    rows = {row[0]: row[1:] for row in map(str.split, lines) if len(row) == 4}
    tests, _, cpu_seconds = rows["test_small.py"]
    assert tests == rows["all"][0] == "4"
    assert re.search(r"^test_small.py .* 1 FAILED$", run.printed, re.MULTILINE)
    assert 1.2 <= float(cpu_seconds) < 2.2, "the child that runs on counts once, although it ends later"
    collection_cpu_seconds = float(rows["(collection)"][2])
    assert collection_cpu_seconds >= 0.4
    assert float(rows["all"][2]) == pytest.approx(float(cpu_seconds) + collection_cpu_seconds, abs=0.2)


@pytest.mark.parametrize(
    ("node_id", "folder"),
    [
        ("tests/group/consumer/test_join.py::test_a[1/2]", "group"),
        ("tests/conftest.py::test_b", "conftest.py"),
    ],
)
def test_a_test_belongs_to_its_folder(node_id: str, folder: str) -> None:
    assert folder_of(node_id) == folder


@pytest.mark.parametrize(
    ("busy_ticks", "own_cpu_seconds", "is_judged"),
    [
        (180, 1.8, True),
        (180, 1.4, True),
        (180, 1.2, False),
        (20, 0.0, True),
    ],
)
def test_a_run_that_shared_the_processors_is_not_judged(
    busy_ticks: int,
    own_cpu_seconds: float,
    is_judged: bool,
    pytestconfig: pytest.Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(neighbours, "_STAT", stat)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    stat.write_text("cpu  0 0 0 0 0 0 0 0\n")
    report = RunReport(pytestconfig)
    stat.write_text(f"cpu  {busy_ticks} 0 0 {200 - busy_ticks} 0 0 0 0\n")
    report.costs["group"] = FolderCost(tests=3, cpu_seconds=own_cpu_seconds)
    assert (report.contention() is None) == is_judged


def test_a_run_on_some_of_the_processors_is_not_judged(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert RunReport(pytestconfig).contention() is not None


@pytest.mark.parametrize(
    ("cpu_seconds", "calibration_s", "others", "passes"),
    [
        pytest.param(100, 0.01, 0, True, id="as expected"),
        pytest.param(600, 0.01, 0, False, id="over the limit of the tier"),
        pytest.param(600, 0.02, 0, True, id="on a machine that is half as fast"),
        pytest.param(600, 0.01, 0.9, True, id="beside other processes"),
    ],
)
def test_a_run_over_its_limits_fails(
    cpu_seconds: float,
    calibration_s: float,
    others: float,
    passes: bool,
    pytestconfig: pytest.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(os.cpu_count() or 1))
    monkeypatch.setattr(neighbours.Neighbours, "others", lambda *_: others)
    report = RunReport(pytestconfig, calibration_s=[calibration_s])
    report.costs["group"] = FolderCost(tests=3, cpu_seconds=cpu_seconds)
    limits = TierLimits({"group": 100}, total=400, calibration_s=0.01)
    assert report.judge(limits) == passes
