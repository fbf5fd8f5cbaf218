"""An error of the operating system as a person reads it."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

from storage.storage_errors import format_error_reason


def raised(call: Callable[[], object]) -> OSError:
    try:
        call()
    except OSError as error:
        return error
    raise AssertionError("nothing was refused")


def test_a_path_comes_with_it_unless_the_line_names_it_already(tmp_path: Path) -> None:
    path = str(tmp_path / "missing")
    error = raised(lambda: os.stat(path))
    assert format_error_reason(error) == f"{path}: no such file or directory"
    assert format_error_reason(error, path) == "no such file or directory"
    assert format_error_reason(error, "/elsewhere") == f"{path}: no such file or directory"
    both = raised(lambda: os.replace(path, path + ".new"))
    assert format_error_reason(both, path) == f"{path} to {path}.new: no such file or directory"


def test_what_has_no_path_is_words_alone() -> None:
    assert format_error_reason(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) == "no space left on device"
    assert format_error_reason(OSError(errno.EIO, "I/O of a kind")) == "I/O of a kind"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "Errno" not in format_error_reason(raised(lambda: socket.create_server(taken.getsockname())))
    assert "Errno" not in format_error_reason(raised(lambda: socket.getaddrinfo("no.such.host.invalid", 1)))


def test_a_timeout_and_several_attempts_have_words_too() -> None:
    assert (
        format_error_reason(TimeoutError()) == format_error_reason(TimeoutError("timed out")) == "timed out"
    )
    several = OSError("Multiple exceptions: [Errno 111] Connect call failed, [Errno 99] no address")
    assert format_error_reason(several) == "multiple exceptions: Connect call failed, no address"
    told_twice = FileNotFoundError(2, "Failed to open '/log'. Detail: [errno 2] No such file or directory")
    assert format_error_reason(told_twice) == "failed to open '/log'. Detail: No such file or directory"


def test_another_error_keeps_its_text() -> None:
    assert format_error_reason(ValueError("Not [Errno 13]")) == "Not [Errno 13]"
