"""Assertions are part of the product: neither command runs without them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_serve import clean_environment


def run(
    *command: str, switches: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *switches, "-m", *command],
        capture_output=True,
        text=True,
        timeout=60,
        env=clean_environment(**environment),
        check=False,
    )


@pytest.mark.parametrize("switch", ["-O", "-OO"])
@pytest.mark.parametrize(
    "command",
    [
        ("coordinator", "serve"),
        ("coordinator", "log", "verify", "nowhere"),
        ("coordinator", "version"),
        ("pipeline", "--help"),
    ],
)
def test_a_process_without_assertions_is_refused_in_one_line(command: tuple[str, ...], switch: str) -> None:
    found = run(*command, switches=(switch,))
    assert (found.returncode, found.stdout) == (2, "")
    assert len(found.stderr.splitlines()) == 1
    assert "-O" in found.stderr


def test_the_environment_cannot_disable_assertions(tmp_path: Path) -> None:
    found = run("coordinator", "serve", "--data-dir", str(tmp_path / "data"), PYTHONOPTIMIZE="1")
    assert found.returncode == 2
    assert "PYTHONOPTIMIZE" in found.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", [("coordinator", "version"), ("pipeline", "--help")])
def test_a_process_with_assertions_runs(command: tuple[str, ...]) -> None:
    assert run(*command).returncode == 0
