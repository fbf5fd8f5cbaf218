"""The ledger as a file: lines, a second file when it has grown, and disks that are slow or fail."""

import asyncio
import errno
import json
import logging
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from coordinator.control.ledger.ledger_storage import LedgerFile
from storage.files import OsFiles
from tests.broker.harness import Client, join_alone
from tests.interop.daemon import Daemon
from tests.storage.faulty_files import FaultyFiles

PATH = "/ledger.jsonl"
TIMEOUT_S = 60


def lines_of(files: FaultyFiles, path: str = PATH) -> list[str]:
    return files.read(path).decode().splitlines()


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
        await file.flush()
    await file.close()
    assert lines_of(files) == ["line number 008", "line number 009"]
    assert lines_of(files, f"{PATH}.1") == ["line number 006", "line number 007"]
    assert sorted(files.listdir("/")) == ["ledger.jsonl", "ledger.jsonl.1"]


class SlowFiles(OsFiles):
    """Opening a file blocks until the test releases it."""

    def __init__(self) -> None:
        self.is_asked = Event()
        self.may_go_on = Event()

    def open_append(self, path: str) -> Any:
        self.is_asked.set()
        assert self.may_go_on.wait(TIMEOUT_S)
        return super().open_append(path)


async def test_a_slow_disk_drops_and_counts_entries(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = SlowFiles()
    path = tmp_path / "ledger.jsonl"
    file = LedgerFile(files, str(path), max_queue_bytes=500)
    file.add(b"first")
    assert await asyncio.to_thread(files.is_asked.wait, TIMEOUT_S)
    for _ in range(100):
        file.add(b"x" * 99)
    files.may_go_on.set()
    assert file.dropped == 95
    await file.close()
    assert path.read_text().splitlines() == ["first", *["x" * 99] * 5]
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


async def test_a_failing_disk_is_logged_once_and_harmless(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    files = FaultyFiles()
    file = LedgerFile(files, PATH)
    file.add(b"one")
    await file.flush()
    files.fail("write", error=errno.ENOSPC, times=3)
    for _ in range(3):
        file.add(b"lost")
        await file.flush()
    assert file.dropped == 3
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    file.add(b"two")
    await file.close()
    assert lines_of(files) == ["one", "two"]
    assert "recovered after" in caplog.text


async def test_a_line_that_was_cut_short_does_not_spoil_the_next() -> None:
    files = FaultyFiles()
    file = LedgerFile(files, PATH)
    files.fail("write", torn_bytes=4)
    file.add(b"lost in parts")
    await file.flush()
    file.add(b"whole")
    await file.close()
    assert lines_of(files) == ["lost", "whole"]


async def test_a_daemon_writes_each_generation_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    daemon = Daemon(str(tmp_path / "data"), "-o", f"ledger.file={path}")
    try:
        async with Client(port=int(daemon.bootstrap.rpartition(":")[2])) as client:
            _, generation_id = await join_alone(client, "billing")
        daemon.stop()
    finally:
        daemon.kill()
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["generation_id"] for entry in entries] == [generation_id]
