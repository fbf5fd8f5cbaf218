"""A pseudo-terminal in which a command runs, and the text on its screen."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final
from unittest.mock import patch

import pytest

from coordinator.cli.main import groupd
from tests.cli.in_process import run_groupd
from tests.cli.test_serve import TIMEOUT_S, clean_environment

_ROWS: Final = 40
_STEP: Final = re.compile(
    r"\x1b\[(?P<code>[0-9;]*[A-Za-z])|(?P<end>\r?\n)|(?P<back>\r)|(?P<text>[^\x1b\r\n]+)|(?P<bad>.)"
)
_COLORS: Final = re.compile(r"[0-9;]*m")
COLORED: Final = re.compile(r"\x1b\[[0-9;]*m")
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_OF_OUTPUT: Final = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "PYTHONIOENCODING")


Variables = Mapping[str, str]


def environment(columns: int = 100, more: Variables = NOTHING) -> dict[str, str]:
    """Return the environment of a terminal with a number of columns and default settings."""
    inherited = {name: value for name, value in clean_environment().items() if name not in _OF_OUTPUT}
    return inherited | {"TERM": "xterm-256color", "COLUMNS": str(columns), **more}


class Terminal:
    """`groupd log …`, or another command, with its standard error, and by itself its standard output, at a
    terminal."""

    def __init__(
        self,
        *arguments: object,
        columns: int = 100,
        stdout: int | None = None,
        variables: Variables = NOTHING,
        module: str = "coordinator",
        command: Sequence[str] = ("log",),
    ) -> None:
        self._master, slave = _open_terminal(columns)
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *command, *map(str, arguments)],
            stdin=slave,
            stdout=slave if stdout is None else stdout,
            stderr=slave,
            env=environment(columns, variables),
        )
        os.close(slave)
        self._seen = b""

    def wait_for(self, text: str) -> None:
        """Until the text has been printed."""
        while text.encode() not in self._seen:
            if not self._read():
                raise AssertionError(f"{text!r} was never printed: {self._seen!r}")

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def finish(self) -> tuple[int, str]:
        """The exit code, and everything that was written to the terminal."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(TIMEOUT_S), self._seen.decode()

    def _read(self) -> bytes:
        data = _read_terminal(self._master)
        self._seen += data
        return data


def at_terminal(
    *arguments: object,
    columns: int = 100,
    variables: Variables = NOTHING,
    command: Sequence[str] = ("log",),
    stdout: int | None = None,
) -> tuple[int, str]:
    """Run `groupd log …`, or another command, in this process with a terminal for its standard streams.

    Returns its exit code and its output at the terminal. `stdout` is a descriptor to use in place of the terminal
    for standard output.
    """
    master, slave = _open_terminal(columns)
    with ThreadPoolExecutor(1) as reader:
        written = reader.submit(_read_to_end, master)
        try:
            with (
                open(slave, encoding="utf-8", closefd=False) as stdin,
                open(slave if stdout is None else stdout, "w", encoding="utf-8", closefd=False) as output,
                open(slave, "w", encoding="utf-8", closefd=False) as stderr,
                patch.multiple(sys, stdin=stdin, stdout=output, stderr=stderr),
                patch.dict(os.environ, environment(columns, variables), clear=True),
                pytest.raises(SystemExit) as end,
            ):
                groupd([*command, *map(str, arguments)], prog_name="groupd")
        finally:
            os.close(slave)
        try:
            text = written.result(TIMEOUT_S).decode()
        finally:
            os.close(master)
    assert isinstance(end.value.code, int)
    return end.value.code, text


def _open_terminal(columns: int) -> tuple[int, int]:
    """The descriptors of a new pseudo-terminal: the screen and keyboard, and the end for a command."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    return master, slave


def _read_terminal(master: int) -> bytes:
    """The next bytes on the screen; empty when no command has the terminal open any more."""
    try:
        return os.read(master, 65536)
    except OSError:  # Linux raises EIO then
        return b""


def _read_to_end(master: int) -> bytes:
    return b"".join(iter(lambda: _read_terminal(master), b""))


def piped(*arguments: object, variables: Variables = NOTHING) -> subprocess.CompletedProcess[str]:
    """Run `groupd log …` in this process with pipes for its standard streams."""
    with patch.dict(os.environ, environment(more=variables), clear=True):
        return run_groupd("log", *map(str, arguments))


def screen(written: str) -> list[str]:
    """The rows that are left to see, without spaces at their ends.

    Fails for anything that does more to a terminal than colour, end or erase a row.
    """
    rows, row, column = [], "", 0
    for step in _STEP.finditer(written):
        code, text = step["code"], step["text"]
        if text is not None:
            assert text.isprintable(), text
            row = row[:column].ljust(column) + text + row[column + len(text) :]
            column += len(text)
        elif step["end"] is not None:
            rows.append(row.rstrip())
            row, column = "", 0
        elif step["back"] is not None:
            column = 0
        elif code == "2K":
            row = ""
        else:
            assert code is not None, f"{step['bad']!r} in {written!r}"
            assert _COLORS.fullmatch(code), f"{code!r} in {written!r}"
    return [*rows, row.rstrip()] if row.strip() else rows
