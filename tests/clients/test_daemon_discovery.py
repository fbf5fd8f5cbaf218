"""Where pytest-groupd finds a daemon: settings, the command groupd, a running daemon, a container image."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pytest_groupd import __version__
from pytest_groupd.daemon import CannotStart, DaemonChoice, create_daemon, find_command

from tests.clients.stand_in_daemon import write_stand_in

IMAGE = "groupd:dev"
ENGINE = """#!/bin/sh
# Runs a program in place of a container, or notes the container to remove.
case $1 in
    run) echo "$@" > {log}; shift 7; exec {program} "$@" ;;
    *) echo "$@" >> {log} ;;
esac
"""


@pytest.fixture
def bin_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory on PATH, beside which Python has no command groupd."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python" / "python"))
    return directory


@contextmanager
def started(*choices: DaemonChoice) -> Iterator[Any]:
    """Start the daemon of these choices, and yield its answer about itself."""
    with create_daemon(choices, None, ["group.max.size=3"]) as daemon:
        daemon.ensure()
        yield daemon.call("GET", "board")


def test_a_command_beside_python_comes_before_one_on_path(bin_directory: Path) -> None:
    on_path = write_stand_in(bin_directory / "groupd", __version__)
    with started() as board:
        assert board.program == str(on_path)
    beside = write_stand_in(Path(sys.executable).parent / "groupd", __version__)
    with started() as board:
        assert board.program == str(beside)
        assert board.arguments[:3] == ["serve", "--profile", "test"]
        assert "group.max.size=3" in board.arguments


def test_an_installed_package_is_run_as_a_module(bin_directory: Path) -> None:
    assert find_command("") == [sys.executable, "-m", "groupd"]


def test_a_choice_may_be_a_path_or_a_command_with_arguments(bin_directory: Path, tmp_path: Path) -> None:
    program = write_stand_in(tmp_path / "my tools" / "groupd", __version__)
    with started(DaemonChoice(command=str(program))) as board:
        assert board.program == str(program)
    with started(DaemonChoice(command=f"{shlex.quote(str(program))} --verbose")) as board:
        assert board.arguments[:2] == ["--verbose", "serve"]


def test_the_first_choice_that_names_a_daemon_counts(bin_directory: Path, tmp_path: Path) -> None:
    first, second = (write_stand_in(tmp_path / name, __version__) for name in ("first", "second"))
    with started(
        DaemonChoice("", " ", ""), DaemonChoice(None, str(first)), DaemonChoice(None, str(second))
    ) as one:
        assert one.program == str(first)


def test_a_container_is_started_on_the_network_of_the_host_and_removed(
    bin_directory: Path, tmp_path: Path
) -> None:
    program = write_stand_in(tmp_path / "image", __version__)
    engine, log = bin_directory / "docker", tmp_path / "engine.log"
    engine.write_text(ENGINE.format(log=log, program=program))
    engine.chmod(0o755)
    with started(DaemonChoice(container=IMAGE)) as board:
        assert board.arguments[0] == "serve"
        assert "--data-dir" not in board.arguments
        run = log.read_text().split()
        assert run[: run.index(IMAGE)][:4] == ["run", "--rm", "--network", "host"]


def test_a_container_that_does_not_get_ready_is_removed(bin_directory: Path, tmp_path: Path) -> None:
    os.symlink("/bin/false", bin_directory / "false")
    engine, log = bin_directory / "podman", tmp_path / "engine.log"
    engine.write_text(ENGINE.format(log=log, program="false"))
    engine.chmod(0o755)
    with pytest.raises(CannotStart, match="did not get ready"), started(DaemonChoice(container=IMAGE)):
        pass
    run, remove = (line.split() for line in log.read_text().splitlines())
    assert remove == ["rm", "--force", run[run.index("--name") + 1]]


def test_a_container_needs_an_engine(bin_directory: Path) -> None:
    with pytest.raises(CannotStart, match="docker nor podman"), started(DaemonChoice(container=IMAGE)):
        pass


@pytest.mark.parametrize("version", ["0.0.9", "0.99.0", "1.0.0", "unknown"])
def test_a_daemon_of_another_version_is_refused(version: str, bin_directory: Path) -> None:
    program = write_stand_in(bin_directory / "groupd", version)
    with pytest.raises(CannotStart) as refused, started():
        pass
    for expected in (str(program), version, __version__, "--groupd-command"):
        assert expected in str(refused.value)


@pytest.mark.parametrize(("version", "fits"), [(__version__, True), ("99.0.0", False)])
def test_a_running_daemon_is_used_if_its_version_fits(version: str, fits: bool, tmp_path: Path) -> None:
    program = write_stand_in(tmp_path / "running", version)
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        ready = running.stdout.readline().split()
        url = "http://" + next(part for part in ready if part.startswith("http=")).removeprefix("http=")
        refused = nullcontext() if fits else pytest.raises(CannotStart, match=f"{url} is groupd {version}")
        try:
            with refused, started(DaemonChoice(url=url, command="not used")) as board:
                assert board.program == str(program)
        finally:
            running.kill()


def test_another_patch_version_fits(bin_directory: Path) -> None:
    parts = __version__.split(".")
    write_stand_in(bin_directory / "groupd", ".".join([*parts[:2], "99"]))
    with started() as board:
        assert board.version.endswith(".99")


def test_without_a_daemon_one_message_says_where_it_looked_and_what_to_do(
    bin_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "groupd").mkdir()  # a folder of the project is not the package
    monkeypatch.delitem(sys.modules, "groupd", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(CannotStart) as refused:
        create_daemon([DaemonChoice()], None, ())
    message = str(refused.value)
    looked = (os.path.dirname(sys.executable), "PATH", sys.executable)
    remedies = ("Install groupd", "--groupd-command", "GROUPD", "--groupd=URL", "--groupd-container")
    for expected in (*looked, *remedies):
        assert expected in message
    assert "\n" not in message
