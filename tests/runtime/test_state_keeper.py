"""The writing of state files: after a failure at any call, the old state or the new one exists."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from coordinator.core import async_files
from coordinator.core.async_files import AsyncFiles
from coordinator.runtime.state_keeper import write_state
from storage.batch import encode_batch
from storage.files import Files, OsFile, OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.state_file import StatePoint, find_state, remove_states
from tests.runtime.states import goes_on, written_state
from tests.storage.batches import record
from tests.storage.faulty_files import CrashError, FaultyFiles

DIRECTORY = "/data/orders-0"
CONTENTS = "numbers"
CONFIG = LogConfig(segment_bytes=400, index_interval_bytes=100)
RECORDS = 5
MANY_CALLS = 40


@pytest.fixture(autouse=True)
def each_batch_is_written_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_files, "WRITE_BUFFER_BYTES", 100)


def opened(files: Files, records: int = 0, directory: str = DIRECTORY) -> PartitionLog:
    log = PartitionLog.open(files, directory, CONFIG)
    for number in range(records):
        log.append_records([record(number)])
    log.sync()
    return log


def with_state(end_offset: int = 12) -> FaultyFiles:
    """Where a log of 20 records has a state, durably, and no process has it open."""
    files = FaultyFiles()
    files.mkdir("/data")
    opened(files, 20).close()
    log = opened(files)
    written_state(files, log, point_of(log, end_offset), CONTENTS, RECORDS, batches(end_offset))
    return files.crash()


def point_of(log: PartitionLog, end_offset: int) -> StatePoint:
    point = StatePoint.at_offset(log, end_offset)
    assert point is not None
    return point


def batches(end_offset: int) -> Iterator[bytes]:
    """Yield batches of a state whose records contain its end offset."""
    said = Record(-1, -1, b"end", str(end_offset).encode())
    yield encode_batch([said] * (RECORDS - 1))
    yield encode_batch([said])


def ends_at(files: FaultyFiles) -> int:
    """Where the state ends that the next process finds, which has to be whole."""
    log = opened(files)
    state, _ = find_state(files, log, CONTENTS)
    assert state is not None
    found = [record for batch in state.iterate_batches() for record in batch]
    assert [found.value for found in found] == [str(state.end_offset).encode()] * RECORDS
    return state.end_offset


def temporary(files: Files, directory: str = DIRECTORY) -> list[str]:
    return [name for name in files.listdir(directory) if name.endswith(".tmp")]


@pytest.mark.parametrize("torn_bytes", [0, 1, 70])
def test_a_crash_at_every_call_leaves_the_old_state_or_the_new(torn_bytes: int) -> None:
    seen = set()
    for nth in range(1, MANY_CALLS):
        files = with_state()
        log = opened(files)
        files.crash_at("any", nth, torn_bytes)
        try:
            written_state(files, log, point_of(log, 20), CONTENTS, RECORDS, batches(20))
            is_done = True
        except CrashError:
            is_done = False
        for left in (files.crash(), files.crash(Random(nth)), files.crash(Random(-nth)), files.kill()):
            found = ends_at(left)
            assert found in ((20,) if is_done else (12, 20))
            assert temporary(left) == []
            seen.add(found)
        if is_done:
            assert seen == {12, 20}
            assert nth > 10
            return
    raise AssertionError("it never ends")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("operation", ["open", "truncate", "write", "fdatasync", "replace"])
def test_a_disk_that_refuses_costs_the_new_state_only(operation: str, error: int) -> None:
    files = with_state()
    log = opened(files)
    point = point_of(log, 20)
    files.fail(operation, error=error, torn_bytes=9)
    with pytest.raises(OSError, match=os.strerror(error)):
        written_state(files, log, point, CONTENTS, RECORDS, batches(20))
    assert files.has_failed
    assert temporary(files) == []
    assert ends_at(files.crash()) == ends_at(files) == 12


class CancellingFiles(FaultyFiles):
    """The same files; they cancel the task during one call, which then continues."""

    def __init__(self, files: FaultyFiles) -> None:
        super().__init__()
        self.names, self.disk_names = files.names, files.disk_names
        self.calls_until = -1
        self._loop = asyncio.get_running_loop()
        self._is_cancelled = threading.Event()
        self.task: asyncio.Task[bool] | None = None

    def call(self, operation: str) -> int:
        self.calls_until -= 1
        if self.calls_until == 0:
            assert self.task is not None
            if threading.current_thread() is threading.main_thread():
                self.task.cancel()
            else:
                self._loop.call_soon_threadsafe(self._cancel)
                assert self._is_cancelled.wait(60)
        return super().call(operation)

    def _cancel(self) -> None:
        assert self.task is not None
        self.task.cancel()
        # Whoever does not wait for the call to end does something else in the next turn.
        self._loop.call_later(0.01, self._is_cancelled.set)


async def test_who_is_cancelled_at_any_call_leaves_the_old_state_or_the_new() -> None:
    seen = set()
    survivor = await asyncio.to_thread(with_state)
    for nth in range(1, MANY_CALLS):
        files = CancellingFiles(survivor.crash())
        log = opened(files)
        point = point_of(log, 20)
        work = write_state(AsyncFiles(files), log, point, CONTENTS, RECORDS, batches(20), goes_on)
        files.calls_until = nth
        files.task = asyncio.create_task(work)
        with suppress(asyncio.CancelledError):
            await files.task
        assert temporary(files) == []
        found = ends_at(files.crash())
        seen.add(found)
        if not files.task.cancelled():
            assert (found, seen) == (20, {12, 20})
            assert nth > 10
            return
    raise AssertionError("it never ends")


async def test_a_state_that_is_not_wanted_any_more_is_left_out() -> None:
    files = await asyncio.to_thread(with_state)
    log = opened(files)
    for times in range(3):
        answers = iter([True] * times + [False])

        async def is_wanted(answers: Iterator[bool] = answers) -> bool:
            return next(answers)

        point = point_of(log, 20)
        is_written = await write_state(
            AsyncFiles(files), log, point, CONTENTS, RECORDS, batches(20), is_wanted
        )
        assert not is_written
        assert temporary(files) == []
    assert ends_at(files) == 12


async def test_compaction_goes_past_a_state_that_is_being_written() -> None:
    files = await asyncio.to_thread(with_state)
    log = opened(files)

    async def compacts() -> bool:
        remove_states(files, DIRECTORY, 21)
        return True

    point = point_of(log, 20)
    assert not await write_state(AsyncFiles(files), log, point, CONTENTS, RECORDS, batches(20), compacts)
    assert find_state(files, log, CONTENTS) == (None, [])


def test_an_error_names_the_file() -> None:
    for operation in ("write", "fdatasync", "fsync_directory"):
        files = with_state()
        log = opened(files)
        point = point_of(log, 20)
        files.fail(operation, error=errno.ENOSPC)
        with pytest.raises(OSError, match="space") as caught:
            written_state(files, log, point, CONTENTS, RECORDS, batches(20))
        assert caught.value.filename == f"{DIRECTORY}/{20:020d}.state"


class HeldFiles(OsFiles):
    """Those of the operating system; opening a file that is new takes until it is let go."""

    def __init__(self) -> None:
        self.is_opening = threading.Event()
        self.goes_on = threading.Event()

    def open_append(self, path: str) -> OsFile:
        file = super().open_append(path)
        if path.endswith(".tmp"):
            self.is_opening.set()
            assert self.goes_on.wait(60)
        return file


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="tells open files by /proc")
def test_no_file_and_no_thread_is_left_of_what_is_cancelled(tmp_path: Path) -> None:
    files = HeldFiles()
    directory = f"{tmp_path}/orders-0"
    log = opened(files, 20, directory)

    async def cancel() -> None:
        work = write_state(AsyncFiles(files), log, point_of(log, 20), CONTENTS, RECORDS, batches(20), goes_on)
        task = asyncio.create_task(work)
        await asyncio.to_thread(files.is_opening.wait, 10)
        task.cancel()
        asyncio.get_running_loop().call_later(0.01, files.goes_on.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    before = sorted(os.listdir(directory)), open_files(), threading.active_count()
    asyncio.run(cancel())
    assert (sorted(os.listdir(directory)), open_files(), threading.active_count()) == before
    log.close()


def open_files() -> list[str]:
    return sorted(str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
