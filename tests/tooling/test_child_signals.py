"""The reaction of the tests' child processes to signals, under every shell that starts the tests."""

import signal
from pathlib import Path

import pytest

from tests.tooling.small_run import small_run

SOURCE = """
import subprocess, sys

CHILD = "import signal, sys; sys.exit(signal.getsignal(signal.{name}) is signal.SIG_IGN)"

def test_child():
    assert subprocess.call([sys.executable, "-c", CHILD]) == 0
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_child_takes_a_signal_that_the_test_run_was_started_to_ignore(
    tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        run = small_run(tmp_path, SOURCE.format(name=number.name), "-p", "tests.conftest")
    finally:
        signal.signal(number, before)
    assert run.outcomes == {"test_child": ["PASSED"]}, run.printed
