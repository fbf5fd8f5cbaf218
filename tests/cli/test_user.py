"""`groupd user`, against a running daemon, and the directory of a stopped one."""

import json
import subprocess
from pathlib import Path

import pytest

from coordinator.security.core.security_state import SecurityState
from storage.data_directory import SECURITY
from storage.metadata_files import HAS_SECURITY
from tests.cli.in_process import run_groupd
from tests.cli.test_serve import FREE, Daemon
from tests.free_ports import free_ports

Result = subprocess.CompletedProcess[str]
BOTH = [
    {"name": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
    {"name": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
]


def user(*arguments: str, password: str = "") -> Result:
    return run_groupd("user", *arguments, given=password)


def done(*arguments: str, password: str = "") -> str:
    """What a command prints that ends well."""
    result = user(*arguments, password=password)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def listed(*where: str) -> list[dict[str, object]]:
    users: list[dict[str, object]] = json.loads(done("list", "--json", *where))["users"]
    return users


def check_life_of_a_user(where: tuple[str, str]) -> None:
    assert done("add", "alice", *where, password="secret\n") == ""
    assert listed(*where) == BOTH
    one = ("--mechanism", "scram-sha-512")
    assert done("add", "alice", *one, "--iterations", "8192", *where, password="other") == ""
    assert listed(*where) == [BOTH[0], {**BOTH[1], "iterations": 8192}]
    assert done("remove", "alice", *one, *where) == ""
    assert listed(*where) == BOTH[:1]
    assert done("remove", "alice", *where) == ""
    assert listed(*where) == []
    again = user("remove", "alice", *where)
    assert (again.returncode, again.stdout) == (1, "")
    assert "alice" in again.stderr


def test_users_are_added_and_removed_while_a_daemon_runs(tmp_path: Path) -> None:
    daemon = Daemon(*FREE, "--data-dir", str(tmp_path), "--profile", "test")
    try:
        check_life_of_a_user(("--bootstrap", f"127.0.0.1:{daemon.port}"))
        locked = user("list", "--data-dir", str(tmp_path))
        assert (locked.returncode, locked.stdout) == (3, "")
        assert str(tmp_path) in locked.stderr
    finally:
        code, _, err = daemon.stop()
    assert code == 0
    assert "secret" not in err


def test_users_of_a_stopped_daemon_are_there_when_it_starts(tmp_path: Path) -> None:
    where = ("--data-dir", str(tmp_path))
    check_life_of_a_user(where)
    done("add", "bob", *where, password="bob-secret\n")
    kept = (tmp_path / SECURITY).read_text()
    assert "bob-secret" not in kept
    assert len(SecurityState.from_document(json.loads(kept)).scram) == 2
    daemon = Daemon(*FREE, "--data-dir", str(tmp_path), "--profile", "test")
    try:
        names = {each["name"] for each in listed("--bootstrap", f"127.0.0.1:{daemon.port}")}
        assert names == {"bob"}
    finally:
        assert daemon.stop()[0] == 0
    assert [each["name"] for each in listed(*where)] == ["bob", "bob"]


@pytest.mark.parametrize(
    ("arguments", "password", "why"),
    [
        (("add", "alice"), "", "no password"),
        (("add", "alice"), "\nsecret", "no password"),
        (("add", "alice", "secret"), "", "secret"),
        (("add", "alice", "--iterations", "1"), "x", "4096"),
        (("add", "alice", "--mechanism", "PLAIN"), "x", "scram-sha-256"),
        (("add", ""), "x", "empty"),
        (("list", "--bootstrap", "127.0.0.1:1"), "", "contradict"),
    ],
)
def test_invalid_arguments_are_usage_errors(
    tmp_path: Path, arguments: tuple[str, ...], password: str, why: str
) -> None:
    result = user(*arguments, "--data-dir", str(tmp_path), password=password)
    assert (result.returncode, result.stdout) == (2, "")
    assert why in result.stderr
    assert not (tmp_path / SECURITY).exists()


def test_a_directory_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "missing"):
        result = user("add", "alice", "--data-dir", str(path), password="secret")
        assert (result.returncode, result.stdout) == (3, "")
        assert str(path) in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def test_a_store_that_is_damaged_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / SECURITY).write_text("{")
    result = user("add", "alice", "--data-dir", str(tmp_path), password="secret")
    assert result.returncode == 3
    assert SECURITY in result.stderr
    assert (tmp_path / SECURITY).read_text() == "{"


def test_a_store_that_is_missing_is_not_begun_anew(tmp_path: Path) -> None:
    meta = f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id=d\n{HAS_SECURITY}\n"
    (tmp_path / "meta.properties").write_text(meta)
    result = user("add", "alice", "--data-dir", str(tmp_path), password="secret")
    assert result.returncode == 3
    assert f"{SECURITY}: is missing" in result.stderr
    assert not (tmp_path / SECURITY).exists()


def test_an_unreachable_broker_is_an_error() -> None:
    result = user("list", "--bootstrap", f"127.0.0.1:{free_ports(1)[0]}")
    assert (result.returncode, result.stdout) == (3, "")
    assert "does not answer" in result.stderr
