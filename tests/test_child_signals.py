"""How the processes that tests start react to signals, whatever shell started the tests."""

import signal
from pathlib import Path

from tests.small_run import small_run

SOURCE = """
import subprocess, sys

CHILD = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"

def test_child():
    assert subprocess.call([sys.executable, "-c", CHILD]) == 0
"""


def test_a_child_can_be_interrupted_although_the_tests_began_with_sigint_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = small_run(tmp_path, SOURCE, "-p", "tests.conftest")
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.outcomes == {"test_child": ["PASSED"]}, run.printed
