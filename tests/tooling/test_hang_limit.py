"""A test that hangs in C code costs that test and its process, not the run."""

from pathlib import Path

from tests.tooling.small_run import small_run

BEGINNING = """
import signal, time
import pytest
from tests import hang_limit
from tests.shared_fixtures import shared

hang_limit.GRACE_S = 0.5

def hang_in_c(seconds=600):
    # As in a call into C, the handler of pytest-timeout cannot run.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(seconds)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
"""
OPTIONS = ("-n", "1", "-o", "timeout=1")


def test_a_test_that_hangs_in_c_fails_with_its_stack_and_the_others_run(tmp_path: Path) -> None:
    run = small_run(
        tmp_path,
        BEGINNING
        + """
def test_first(): pass
def test_hanging(): hang_in_c()
def test_last(): pass
""",
        *OPTIONS,
    )
    assert run.outcomes == {"test_first": ["PASSED"], "test_hanging": ["FAILED"], "test_last": ["PASSED"]}
    assert "in hang_in_c" in run.printed


def test_a_shared_fixture_has_a_limit_of_its_own(tmp_path: Path) -> None:
    run = small_run(
        tmp_path,
        BEGINNING
        + """
@shared(lambda _: True, start_limit_s=60)
def slow():
    hang_in_c(2.5)
    yield
def test_first(slow): pass
def test_hanging(slow): hang_in_c()
def test_last(slow): pass
""",
        *OPTIONS,
    )
    assert run.outcomes == {"test_first": ["PASSED"], "test_hanging": ["FAILED"], "test_last": ["PASSED"]}
