import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator.core import clock
from storage.files import Files, OsFiles, mark_directory_deleted, remove_directory
from storage.memory_files import MemoryFiles
from storage.storage_errors import FileClosed
from tests.storage.faulty_files import FaultyFiles


@pytest.fixture(params=["os", "memory", "faulty"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """All file systems must behave alike."""
    if request.param == "os":
        return OsFiles(), str(tmp_path)
    files: Files = FaultyFiles() if request.param == "faulty" else MemoryFiles(1 << 20, clock.wall_ms)
    files.mkdir("/data")
    return files, "/data"


def test_appends_are_read_back_where_they_are(place: tuple[Files, str]) -> None:
    files, directory = place
    file = files.open_append(f"{directory}/a")
    file.write(b"one")
    file.write(b"two")
    assert file.size() == 6
    assert file.pread(2, 2) == b"et"
    assert file.pread(100, 4) == b"wo"
    assert file.pread(100, 6) == b""
    file.fdatasync()
    file.close()
    again = files.open_append(f"{directory}/a")
    again.write(b"three")
    assert files.read(f"{directory}/a") == b"onetwothree"
    again.close()


def test_a_duplicate_can_be_read_after_the_file_is_closed_and_removed(place: tuple[Files, str]) -> None:
    files, directory = place
    file = files.open_append(f"{directory}/a")
    file.write(b"one")
    first, second = file.duplicate(), file.duplicate()
    file.close()
    first.close()
    first.close()
    files.unlink(f"{directory}/a")
    other = files.open_append(f"{directory}/b")
    other.write(b"two")
    assert second.pread(3, 0) == b"one"
    second.close()
    assert other.pread(3, 0) == b"two"
    other.close()


def test_a_truncated_file_continues_where_it_was_cut(place: tuple[Files, str]) -> None:
    files, directory = place
    file = files.open_append(f"{directory}/a")
    file.write(b"onetwo")
    file.truncate(3)
    file.write(b"x")
    assert files.read(f"{directory}/a") == b"onex"
    assert files.size(f"{directory}/a") == 4
    file.close()


def test_a_closed_file_is_not_synced(place: tuple[Files, str]) -> None:
    files, directory = place
    file = files.open_append(f"{directory}/a")
    file.close()
    file.close()
    with pytest.raises(FileClosed):
        file.fdatasync()


def test_small_files_are_replaced(place: tuple[Files, str]) -> None:
    files, directory = place
    files.write(f"{directory}/a", b"long contents")
    files.write(f"{directory}/a", b"short")
    assert files.read(f"{directory}/a") == b"short"
    files.write_atomically(f"{directory}/a", b"atomic")
    assert files.read(f"{directory}/a") == b"atomic"
    assert files.listdir(directory) == ["a"]


def test_names(place: tuple[Files, str]) -> None:
    files, directory = place
    files.mkdir(f"{directory}/d/e")
    files.mkdir(f"{directory}/d")
    files.write(f"{directory}/d/b", b"")
    files.write(f"{directory}/d/a", b"")
    assert files.listdir(f"{directory}/d") == ["a", "b", "e"]
    assert files.is_directory(f"{directory}/d")
    assert not files.is_directory(f"{directory}/d/a")
    files.replace(f"{directory}/d/a", f"{directory}/d/b")
    files.rmdir(f"{directory}/d/e")
    files.fsync_directory(f"{directory}/d")
    assert files.listdir(f"{directory}/d") == ["b"]
    with pytest.raises(OSError, match="not empty"):
        files.rmdir(f"{directory}/d")
    files.unlink(f"{directory}/d/b")
    assert not files.exists(f"{directory}/d/b")


def test_what_is_missing_is_an_error(place: tuple[Files, str]) -> None:
    files, directory = place
    missing = f"{directory}/missing"
    for call in (files.open_read, files.read, files.unlink, files.size, files.listdir, files.modified_ms):
        with pytest.raises(FileNotFoundError):
            call(missing)


def test_a_file_in_place_of_a_directory_is_an_error(place: tuple[Files, str]) -> None:
    files, directory = place
    files.write(f"{directory}/a", b"")
    with pytest.raises(OSError, match="directory"):
        files.mkdir(f"{directory}/a")


def test_a_lock_excludes_until_it_is_released(place: tuple[Files, str]) -> None:
    files, directory = place
    lock = files.lock(f"{directory}/.lock")
    with pytest.raises(BlockingIOError):
        files.lock(f"{directory}/.lock")
    lock.release()
    lock.release()
    files.lock(f"{directory}/.lock").release()


def test_a_deleted_directory_is_gone_with_its_files(place: tuple[Files, str]) -> None:
    files, directory = place
    files.mkdir(f"{directory}/orders-0")
    files.write(f"{directory}/orders-0/a", b"")
    remove_directory(files, mark_directory_deleted(files, f"{directory}/orders-0"))
    assert files.listdir(directory) == []


def test_a_removed_file_stays_with_whoever_has_it_open(place: tuple[Files, str]) -> None:
    files, directory = place
    file = files.open_append(f"{directory}/a")
    file.write(b"one")
    files.unlink(f"{directory}/a")
    file.write(b"two")
    assert file.pread(100, 0) == b"onetwo"
    assert files.listdir(directory) == []
    file.close()


def test_a_renamed_directory_takes_along_what_is_in_it(place: tuple[Files, str]) -> None:
    files, directory = place
    files.mkdir(f"{directory}/a/b")
    files.write(f"{directory}/a/b/c", b"kept")
    files.replace(f"{directory}/a", f"{directory}/z")
    assert files.listdir(directory) == ["z"]
    assert files.read(f"{directory}/z/b/c") == b"kept"


def test_memory_holds_no_more_than_it_may_and_what_is_removed_makes_room() -> None:
    files = MemoryFiles(1000, clock.wall_ms)
    files.write("/a", bytes(900))
    held = files.open_append("/a")
    with pytest.raises(OSError, match="space") as caught:
        held.write(bytes(101))
    assert (caught.value.filename, files.size("/a")) == ("/a", 900)
    held.write(bytes(100))
    assert files.space("/").usable_bytes == 0
    files.unlink("/a")
    held.truncate(10)
    held.write(bytes(5000))
    assert (held.size(), files.space("/").usable_bytes) == (5010, 1000)
    files.write("/b", bytes(600))
    files.write("/c", bytes(400))
    files.replace("/c", "/b")
    assert files.space("/").usable_bytes == 600


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole_write(descriptor, data[:3]))
    file = OsFiles().open_append(str(tmp_path / "a"))
    file.write(b"more than three bytes")
    assert file.pread(100, 0) == b"more than three bytes"
    file.close()


def test_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFiles().open_append(str(tmp_path / "a"))
    file.write(b"more than three bytes")
    whole_read = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, position: whole_read(fd, min(3, length), position))
    assert file.pread(100, 5) == b"than three bytes"
    file.close()


LOCK_AS_JAVA_DOES = """
import fcntl, sys
file = open(sys.argv[1], "r+")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
except OSError:
    print("refused", flush=True)
sys.stdin.read()
"""


def test_a_lock_excludes_a_broker_and_is_refused_while_a_broker_runs(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    command = [sys.executable, "-c", LOCK_AS_JAVA_DOES, path]
    lock = OsFiles().lock(path)
    with pytest.raises(BlockingIOError):
        OsFiles().lock(path)  # and this does not give the first one up
    assert subprocess.run(command, input="", capture_output=True, text=True).stdout == "refused\n"
    lock.release()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == "locked\n"
        with pytest.raises(BlockingIOError):
            OsFiles().lock(path)
        broker.communicate("")
    OsFiles().lock(path).release()


@contextmanager
def small_files_only(limit: int) -> Iterator[None]:
    """No file of this process may grow past a number of bytes: as on a full disk, a write fails half-way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_small_file_that_cannot_be_replaced_stays_and_nothing_else(tmp_path: Path) -> None:
    path = str(tmp_path / "topics.json")
    OsFiles().write_atomically(path, b"old")
    with small_files_only(1000), pytest.raises(OSError, match="large") as caught:
        OsFiles().write_atomically(path, bytes(2000))
    assert caught.value.filename == path
    assert OsFiles().read(path) == b"old"
    assert OsFiles().listdir(str(tmp_path)) == ["topics.json"]


def test_a_private_file_is_nobody_elses(tmp_path: Path) -> None:
    path = str(tmp_path / "security.json")
    (tmp_path / "security.json.tmp").write_text("left by a crash")
    (tmp_path / "security.json.tmp").chmod(0o644)
    for data in (b"one", b"two"):
        OsFiles().write_atomically(path, data, is_private=True)
        assert (OsFiles().read(path), stat.S_IMODE(os.stat(path).st_mode)) == (data, 0o600)
    OsFiles().write_atomically(str(tmp_path / "topics.json"), b"")
    assert stat.S_IMODE(os.stat(tmp_path / "topics.json").st_mode) & 0o400


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_private_directory_is_nobody_elses_and_one_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    made = tmp_path / "parent" / "made"
    OsFiles().mkdir(str(made), is_private=True)
    assert mode_of(made) == 0o700
    assert mode_of(tmp_path / "parent") & 0o500 == 0o500
    made.chmod(0o750)
    OsFiles().mkdir(str(made), is_private=True)
    assert mode_of(made) == 0o750


def test_a_refused_write_names_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    file = OsFiles().open_append(path)
    with small_files_only(1000):
        for write in (file.write, lambda data: OsFiles().write(path, data)):
            with pytest.raises(OSError, match="large") as caught:
                write(bytes(2000))
            assert caught.value.filename == path
    file.close()
