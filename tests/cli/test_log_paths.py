"""`groupd log` with paths that are not logs."""

import errno
import os
from pathlib import Path

import pytest

from storage.files import OsFile, OsFiles
from tests.cli.log_directory import OFFSETS, log, segments, write_data_directory
from tests.cli.log_records import commit


def is_refused(path: Path | str, *more: str) -> None:
    for command in ("dump", "verify", "stats"):
        result = log(command, *more, path)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert str(path) in result.stderr
        assert result.stderr.count("\n") == 1


def test_paths_that_are_no_log_are_refused_in_one_line(tmp_path: Path) -> None:
    write_data_directory(tmp_path / "data", {OFFSETS: [[commit("g", "orders")]]})
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text(
        "something else entirely, and quite long, so that it might be a batch by its size"
    )
    (tmp_path / "nothing").write_bytes(b"")
    is_refused(tmp_path / "missing")
    is_refused(tmp_path / "empty")
    is_refused(tmp_path)
    is_refused(tmp_path / "text")
    is_refused(tmp_path / "nothing")
    is_refused(tmp_path / "data" / "meta.properties")
    is_refused(segments(tmp_path / "data")[0].with_suffix(".index"))
    os.mkfifo(tmp_path / "pipe")
    is_refused(tmp_path / "pipe")


def test_directories_that_only_have_the_names_of_partitions_are_no_logs(tmp_path: Path) -> None:
    for name in ("dbus-1", "orders-0"):
        (tmp_path / name).mkdir()
    (tmp_path / "dbus-1" / "session.conf").write_text("something else")
    is_refused(tmp_path)
    is_refused(tmp_path / "dbus-1")
    is_refused(tmp_path / "orders-0")
    assert log("repair", tmp_path, "--out", tmp_path / "copy").exit_code == 2
    assert not (tmp_path / "copy").exists()


def test_a_log_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_data_directory(tmp_path, {OFFSETS: [[commit("g", "orders")]]})

    def refuse(files: OsFiles, path: str) -> OsFile:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(OsFiles, "open_read", refuse)
    assert log("dump", tmp_path).exit_code == 2
