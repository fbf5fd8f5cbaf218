"""An error of the operating system as a person reads it."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

from storage.os_error import reason_of


def raised(call: Callable[[], object]) -> OSError:
    try:
        call()
    except OSError as error:
        return error
    raise AssertionError("nothing was refused")


def test_a_path_comes_with_it_unless_the_line_names_it_already(tmp_path: Path) -> None:
    path = str(tmp_path / "missing")
    error = raised(lambda: os.stat(path))
    assert reason_of(error) == f"{path}: no such file or directory"
    assert reason_of(error, path) == "no such file or directory"
    assert reason_of(error, "/elsewhere") == f"{path}: no such file or directory"
    both = raised(lambda: os.replace(path, path + ".new"))
    assert reason_of(both, path) == f"{path} to {path}.new: no such file or directory"


def test_what_has_no_path_is_words_alone() -> None:
    assert reason_of(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) == "no space left on device"
    assert reason_of(OSError(errno.EIO, "I/O of a kind")) == "I/O of a kind"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "Errno" not in reason_of(raised(lambda: socket.create_server(taken.getsockname())))
    assert "Errno" not in reason_of(raised(lambda: socket.getaddrinfo("no.such.host.invalid", 1)))


def test_a_timeout_and_several_attempts_have_words_too() -> None:
    assert reason_of(TimeoutError()) == reason_of(TimeoutError("timed out")) == "timed out"
    several = OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 99] no address")
    assert reason_of(several) == "multiple exceptions: Connect call failed, no address"
    told_twice = FileNotFoundError(2, "Failed to open '/log'. Detail: [errno 2] No such file or directory")
    assert reason_of(told_twice) == "failed to open '/log'. Detail: No such file or directory"


def test_another_error_keeps_its_text() -> None:
    assert reason_of(ValueError("Not [Errno 13]")) == "Not [Errno 13]"
