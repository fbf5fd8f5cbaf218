"""The ledger as a file: lines, a second file when it has grown, and disks that are slow or fail."""

import asyncio
import logging
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from coordinator.control.ledger.file import LedgerFile
from storage.files import File, OsFiles
from tests.storage.faulty_files import FaultyFiles

PATH = "/ledger.jsonl"
NO_SPACE = OSError(28, "No space left on device")


def lines_of(files: FaultyFiles, path: str = PATH) -> list[str]:
    return files.read(path).decode().splitlines()


async def written(file: LedgerFile) -> None:
    while file._writing is not None:
        await asyncio.sleep(0)


async def test_lines_go_to_the_end_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"torn": ')
    file = LedgerFile(OsFiles(), str(path))
    for number in range(3):
        file.add(b'{"number": %d}' % number)
    await file.close()
    assert path.read_text() == '{"torn": \n{"number": 0}\n{"number": 1}\n{"number": 2}\n'
    assert file.dropped == 0
    file.add(b"late")
    assert file.dropped == 1


async def test_when_it_has_grown_it_becomes_the_first_file_before() -> None:
    files = FaultyFiles()
    file = LedgerFile(files, PATH, max_file_bytes=40)
    for number in range(10):
        file.add(b"line number %03d" % number)
        await written(file)
    await file.close()
    assert lines_of(files) == ["line number 008", "line number 009"]
    assert lines_of(files, f"{PATH}.1") == ["line number 006", "line number 007"]
    assert sorted(files.listdir("/")) == ["ledger.jsonl", "ledger.jsonl.1"]


class SlowFiles(OsFiles):
    """Writes wait until they may go on."""

    def __init__(self) -> None:
        self.may_write = Event()

    def open_append(self, path: str) -> Any:
        self.may_write.wait()
        return super().open_append(path)


async def test_what_a_slow_disk_has_no_time_for_is_dropped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = SlowFiles()
    path = tmp_path / "ledger.jsonl"
    file = LedgerFile(files, str(path), max_queue_bytes=500)
    file.add(b"first")
    await asyncio.sleep(0.01)  # it is being written now, and the loop goes on
    for _ in range(100):
        file.add(b"x" * 99)
    assert file.dropped == 95
    files.may_write.set()
    await file.close()
    assert path.read_text().splitlines() == ["first", *["x" * 99] * 5]
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


async def test_a_failing_disk_harms_nobody_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    files = FaultyFiles()
    file = LedgerFile(files, PATH)
    file.add(b"one")
    await written(file)
    files.fail("write", NO_SPACE, torn_bytes=4)
    for _ in range(3):
        file.add(b"lost in parts")
        await written(file)
        files.fail("write", NO_SPACE)
    files.faults.clear() if hasattr(files, "faults") else None
    assert file.dropped >= 3
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    for _ in range(2):
        file.add(b"two")
        await written(file)
    await file.close()
    assert lines_of(files)[-1] == "two"
    assert lines_of(files)[0] == "one"


def _typed(file: File) -> File:
    return file
