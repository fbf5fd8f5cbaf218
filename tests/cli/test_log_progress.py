"""`groupd log` during long work: progress, interruption, and a closed output."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.cli.log import progress_bar
from storage.batch import encode_batch
from tests.cli.log_directory import OFFSETS, flip, segments, write_data_directory
from tests.cli.log_records import commit
from tests.cli.terminal import Terminal, at_terminal, environment, piped, screen
from tests.cli.test_serve import TIMEOUT_S

BAR = " MB, __consumer_offsets"
IMPATIENT = "tests.cli.impatient"
"""Shows progress also where a fast machine is done before it would be worth it."""


def write_large(path: Path, batches: int = 30) -> Path:
    """Something that takes a while to read."""
    batch = encode_batch([commit("readers", f"topic-{number}") for number in range(4000)], base_sequence=0)
    write_data_directory(
        path, {OFFSETS: [[commit("rare", "early")], *[batch] * batches, [commit("rare", "late")]]}
    )
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_large(tmp_path_factory.mktemp("large"))


@pytest.fixture
def shows_progress_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process draw the bar with every read."""
    monkeypatch.setattr(progress_bar, "_DELAY_MS", 0)
    monkeypatch.setattr(progress_bar, "_PERIOD_MS", 0)


@pytest.fixture(scope="module")
def enough(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several reads long."""
    return write_large(tmp_path_factory.mktemp("enough"), 6)


@pytest.mark.usefixtures("shows_progress_at_once")
@pytest.mark.parametrize(
    "command", [["verify"], ["stats"], ["dump", "--group", "nobody"], ["repair", "--out", "copy"]]
)
def test_long_work_shows_how_far_it_is_and_leaves_nothing_of_that_behind(
    enough: Path, tmp_path: Path, command: list[str]
) -> None:
    if "--out" in command:
        command = [*command[:-1], str(tmp_path / "copy")]
    code, written = at_terminal(*command, enough)
    assert code == 0
    assert BAR in written
    assert f"{OFFSETS}/{segments(enough)[0].name}" in written
    assert not any(BAR in row or "━" in row for row in screen(written))
    assert written.count("\n") == len(screen(written))


@pytest.mark.usefixtures("shows_progress_at_once")
def test_progress_is_for_terminals_only(enough: Path, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    assert at_terminal("stats", enough, stdout=writer) == (0, "")
    os.close(writer)
    with open(reader) as pipe:
        assert "readers" in pipe.read()
    with (tmp_path / "file").open("wb") as file:
        code, written = at_terminal("stats", enough, stdout=file.fileno())
    assert code == 0
    assert BAR in written
    assert screen(written) == []
    assert (tmp_path / "file").read_text() == piped("stats", enough).stdout
    assert BAR not in at_terminal("stats", enough, variables={"TERM": "dumb"})[1]


@pytest.mark.usefixtures("shows_progress_at_once")
def test_matches_are_printed_above_the_progress(enough: Path) -> None:
    code, written = at_terminal("dump", "--group", "rare", enough)
    assert code == 0
    heading, first, second = screen(written)
    assert heading == f"{enough}/{OFFSETS}"
    assert "topic=early" in first
    assert "topic=late" in second
    assert not any("━" in row for row in (first, second))
    assert BAR in written[written.index("early") : written.index("late")]


def test_an_interrupt_ends_it_quietly(large: Path) -> None:
    terminal = Terminal("verify", large, module=IMPATIENT)
    terminal.wait_for(BAR)
    terminal.interrupt()
    code, written = terminal.finish()
    assert code == 130
    assert screen(written) == []


@pytest.mark.parametrize("command", [["verify"], ["stats"], ["dump", "--follow"]])
def test_an_interrupt_in_a_pipe_ends_it_quietly(tmp_path: Path, command: list[str]) -> None:
    flip(segments(write_large(tmp_path))[0], 30)
    process = subprocess.Popen(
        [sys.executable, "-m", "coordinator", "log", *command, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(more={"PYTHONUNBUFFERED": "1"}),
    )
    assert process.stdout is not None
    assert "byte 0" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert all(line.startswith(str(OFFSETS)) for line in rest.splitlines()[:-1])
    assert "Traceback" not in rest


@pytest.mark.parametrize("command", [["dump"], ["stats"], ["verify"], ["repair", "--out", "copy"]])
def test_without_standard_output_nothing_is_done_and_one_line_says_why(
    tmp_path: Path, command: list[str]
) -> None:
    write_data_directory(tmp_path / "data", {OFFSETS: [[commit("readers", "orders")]]})
    shell = f"exec {sys.executable} -m coordinator log {' '.join(command)} data >&-"
    process = subprocess.run(
        ["sh", "-c", shell],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(),
        check=False,
    )
    assert process.returncode == 2
    (line,) = process.stderr.splitlines()
    assert "standard output" in line
    assert not (tmp_path / "copy").exists()


def test_without_standard_error_the_output_is_the_same(tmp_path: Path) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[commit("readers", "orders")]]})
    command = f"{sys.executable} -m coordinator log dump {tmp_path}"
    outputs = [
        subprocess.check_output(["sh", "-c", f"exec {command} {end}"], timeout=TIMEOUT_S, env=environment())
        for end in ("", "2>&-")
    ]
    assert outputs[0] == outputs[1] != b""


@pytest.mark.parametrize("command", [["verify"], ["stats"], ["dump"], ["verify", "--json"]])
def test_a_closed_pipe_ends_it_quietly(tmp_path: Path, command: list[str]) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[commit("readers", "orders")], [commit("readers", "orders")]]})
    flip(segments(tmp_path)[0], 30)
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "coordinator", "log", *command, str(tmp_path)],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
        env=environment(),
        check=False,
    )
    os.close(writer)
    assert process.returncode == 0
    assert b"Traceback" not in process.stderr
    assert b"BrokenPipe" not in process.stderr
