"""The conditions of `make stress`."""

import subprocess
import sys
from pathlib import Path

from tests.stress.stepping_clock import sitecustomize
from tests.tooling.small_run import ROOT

TESTS = """
import datetime, os, pathlib, time

def read_command(process):
    try:
        return (process / "cmdline").read_text()
    except OSError:  # it has ended
        return ""

def test_conditions():
    assert len(os.sched_getaffinity(0)) == 1
    processes = pathlib.Path("/proc").glob("[0-9]*")
    assert sum("while True: pass" in read_command(process) for process in processes) >= 4
    ahead_s = time.time() - datetime.datetime.now(datetime.UTC).timestamp()
    assert round(ahead_s) in (0, 3)
    assert time.time.__name__ == "stepping_time"

def test_failing():
    assert False
"""


def test_tests_run_on_one_processor_with_a_clock_that_steps(tmp_path: Path) -> None:
    (tmp_path / "test_conditions.py").write_text(TESTS)
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.stress",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            tmp_path,
            tmp_path,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=400,
        check=False,
    )
    assert "1 failed, 1 passed" in run.stdout
    assert run.returncode == 1


def test_the_clock_goes_forward_and_back() -> None:
    steps = [sitecustomize.find_step(instant * sitecustomize.PERIOD_S) for instant in (0.5, 1.5, 2.5)]
    assert steps == [0, sitecustomize.STEP_S, 0]
