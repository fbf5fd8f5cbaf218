"""A shared resource never turns one failure into many."""

from pathlib import Path

from tests.tooling.small_run import small_run

BEGINNING = """
import itertools, os, signal, subprocess, sys, time
import pytest
from tests.shared_fixtures import shared

starts = itertools.count(1)

class Server:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    def kill(self):
        self.process.kill()
        self.process.wait()

    def is_alive(self):
        return self.process.poll() is None
"""
SERVER = """
@shared(Server.is_alive)
def server():
    server = Server()
    yield server
    was_alive = server.is_alive()
    server.kill()
    assert was_alive, "the last words of the server"
"""


def test_a_start_that_takes_longer_than_a_test_may_is_no_failure(tmp_path: Path) -> None:
    run = small_run(
        tmp_path,
        BEGINNING
        + """
@pytest.fixture(scope="module")
def slow():
    time.sleep(2.5)

def test_first(slow): pass
def test_hanging(slow): time.sleep(60)
def test_last(slow): pass
""",
        *("-o", "timeout=2"),
    )
    assert run.outcomes == {"test_first": ["PASSED"], "test_hanging": ["FAILED"], "test_last": ["PASSED"]}


def test_a_start_beyond_its_own_limit_says_so_and_the_next_test_starts_anew(tmp_path: Path) -> None:
    run = small_run(
        tmp_path,
        BEGINNING
        + """
@shared(lambda _: True, start_limit_s=0.5)
def server():
    if next(starts) == 1:
        time.sleep(60)
    yield

def test_first(server): pass
def test_second(server): pass
""",
        *("-o", "timeout=50"),
    )
    assert run.outcomes == {"test_first": ["ERROR"], "test_second": ["PASSED"]}
    assert "the shared fixture server did not start within 0.5 s" in run.printed


def test_what_never_starts_is_not_tried_for_ever(tmp_path: Path) -> None:
    run = small_run(
        tmp_path,
        BEGINNING
        + """
@shared(lambda _: True)
def server():
    raise OSError(f"start {next(starts)} failed")
    yield

@pytest.mark.parametrize("n", range(6))
def test_it(server, n): pass

def test_another(): pass
""",
    )
    assert run.outcomes == {"test_it": ["ERROR"] * 6, "test_another": ["PASSED"]}
    assert "start 3 failed" in run.printed
    assert "start 4 failed" not in run.printed


def test_the_test_that_ends_what_it_shares_fails_and_no_other(tmp_path: Path) -> None:
    run = small_run(
        tmp_path,
        BEGINNING
        + SERVER
        + """
@pytest.fixture(scope="session")
def made_of_it(server):
    return server.process.pid

def test_before(server, made_of_it): assert server.process.pid == made_of_it
def test_that_kills(server): server.kill()
def test_after(server, made_of_it):
    assert server.is_alive()
    assert server.process.pid == made_of_it
""",
    )
    assert run.outcomes == {
        "test_before": ["PASSED"],
        "test_that_kills": ["PASSED", "ERROR"],
        "test_after": ["PASSED"],
    }
    assert "server did not outlive this test: the last words of the server" in run.printed


def test_what_ends_between_two_tests_is_told_and_started_anew(tmp_path: Path) -> None:
    run = small_run(
        tmp_path,
        BEGINNING
        + SERVER
        + """
kept = []

def test_before(server): kept.append(server)
def test_without():
    kept[0].kill()
def test_after(server):
    assert server.is_alive()
""",
    )
    assert run.outcomes == {name: ["PASSED"] for name in ("test_before", "test_without", "test_after")}
    assert "server has ended between two tests: the last words of the server" in run.printed
    assert "1 warning" in run.printed


def test_what_the_machine_lacks_is_skipped_every_time(tmp_path: Path) -> None:
    run = small_run(
        tmp_path,
        BEGINNING
        + """
@shared(Server.is_alive)
def server():
    pytest.skip(f"lacking it for the time {next(starts)}")
    yield

@pytest.mark.parametrize("n", range(5))
def test_it(server, n): pass
""",
    )
    assert "5 skipped" in run.printed
    assert "time 2" not in run.printed
