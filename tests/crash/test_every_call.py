"""A crash at every file-system call, and the state that the next process finds.

One short life of a data directory appends, syncs, rolls, checkpoints, deletes and closes. It ends at its first
file-system call, at its second, and so on to its last; at a write, also with a part of the bytes written. With any
part of the unsynced data on the disk, the next process must open the directory without damage. It must find every
durable record and nothing but a prefix of the appended ones, and it must be able to continue.
"""

import asyncio
import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

import pytest

from coordinator.broker.checkpoint_writer import CheckpointWriter
from coordinator.core.daemon_log import OngoingFailures
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.storage_errors import StorageError, SyncFailed
from storage.topic_partition import TopicPartition
from tests.storage.batches import record
from tests.storage.faulty_files import CrashError, FaultyFiles
from tests.storage.numbered_log import contents, expected

META = MetaProperties("cluster", 1, "directory")
ORDERS = TopicPartition("orders", 0)

WriteCheckpoints = Callable[[DataDirectory, PartitionLog], None]


def at_once(directory: DataDirectory, log: PartitionLog) -> None:
    directory.write_checkpoints({ORDERS: log})


@pytest.fixture
def from_a_loop() -> Iterator[WriteCheckpoints]:
    with asyncio.Runner() as runner:

        async def write(directory: DataDirectory, log: PartitionLog) -> None:
            for draft in directory.draft_checkpoints({ORDERS: log}):
                await CheckpointWriter(directory, OngoingFailures("LogManager")).write_checkpoint(draft)

        yield lambda directory, log: runner.run(write(directory, log))


class Life:
    """What one process did, as far as it got."""

    def __init__(
        self, files: FaultyFiles, config: LogConfig, write_checkpoints: WriteCheckpoints = at_once
    ) -> None:
        self.files = files
        self.config = config
        self._write_checkpoints = write_checkpoints
        self.durable = 0
        self.appended = 0
        self.start = 0

    def run(self) -> None:
        directory = DataDirectory.open(self.files, "/data", META)
        log = directory.open_log(ORDERS, self.config, bytes(range(16)))
        for turn in range(12):
            for _ in range(2):
                self.appended = log.log_end_offset + 1
                log.append_records([record(log.log_end_offset)])
            if turn % 3 == 1:
                self._sync(log)
            if turn in (4, 9):
                self._write_checkpoints(directory, log)
            if turn == 8:
                self.start = 5
                log.delete_records_before(5)
                self._write_checkpoints(directory, log)
        directory.close({ORDERS: log})
        self.durable = log.durable_offset

    def _sync(self, log: PartitionLog) -> None:
        log.sync()
        self.durable = log.durable_offset


def check(life: Life, files: FaultyFiles) -> None:
    """Check the invariants after one crash, and again after a crash of the next process."""
    directory, log = check_opening(life, files)
    end = log.log_end_offset
    assert log.append_records([record(end)]).base_offset == end
    log.sync()
    directory.write_checkpoints({ORDERS: log})
    after = DataDirectory.open(files.crash(), "/data", META).open_log(ORDERS, life.config)
    assert after.log_end_offset == end + 1


def check_opening(life: Life, files: FaultyFiles) -> tuple[DataDirectory, PartitionLog]:
    """Check the invariants after one crash."""
    directory = DataDirectory.open(files, "/data", META)
    log = directory.open_log(ORDERS, life.config, bytes(range(16)))
    assert life.durable <= log.log_end_offset <= life.appended
    assert log.log_start_offset <= life.start
    assert contents(log) == expected(log.log_end_offset)[log.log_start_offset :]
    return directory, log


@pytest.mark.parametrize("sync_on_roll", [False, True])
@pytest.mark.parametrize("torn_bytes", [0, 1, 30, 75])
def test_a_crash_at_every_call(torn_bytes: int, sync_on_roll: bool) -> None:
    crash_at_every_call(torn_bytes, sync_on_roll, at_once)


def test_a_crash_at_every_call_where_a_loop_writes_the_checkpoints(from_a_loop: WriteCheckpoints) -> None:
    crash_at_every_call(1, True, from_a_loop)


def crash_at_every_call(torn_bytes: int, sync_on_roll: bool, write_checkpoints: WriteCheckpoints) -> None:
    config = LogConfig(segment_bytes=500, index_interval_bytes=100, sync_on_roll=sync_on_roll)
    whole = FaultyFiles()
    Life(whole, config, write_checkpoints).run()
    calls = whole.calls.total()
    assert calls > 50
    for nth in range(1, calls + 1):
        files = FaultyFiles()
        files.crash_at("any", nth, torn_bytes)
        life = Life(files, config, write_checkpoints)
        with suppress(CrashError):
            life.run()
        check(life, files.crash())
        check(life, files.crash(Random(nth)))
        check(life, files.crash(Random(-nth)))
        check(life, files.kill())


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_process_that_stops_at_any_failing_call(error: int) -> None:
    fail_at_any_call(error, at_once)


def test_a_process_that_stops_at_any_failing_call_where_a_loop_writes_the_checkpoints(
    from_a_loop: WriteCheckpoints,
) -> None:
    fail_at_any_call(errno.ENOSPC, from_a_loop)


def fail_at_any_call(error: int, write_checkpoints: WriteCheckpoints) -> None:
    config = LogConfig(segment_bytes=500, index_interval_bytes=100, sync_on_roll=True)
    whole = FaultyFiles()
    Life(whole, config, write_checkpoints).run()
    for nth in range(1, whole.calls.total() + 1):
        files = FaultyFiles()
        files.fail("any", nth, error, torn_bytes=nth % 40)
        life = Life(files, config, write_checkpoints)
        with suppress(StorageError, OSError):
            life.run()
        check(life, files.crash())
        check(life, files.kill())


@pytest.mark.parametrize("lives", [0, 1])
def test_the_first_acknowledged_record_of_a_log_outlives_the_power(lives: int) -> None:
    config = LogConfig()
    files = FaultyFiles()
    for _ in range(lives):
        directory = DataDirectory.open(files, "/data", META)
        directory.close({ORDERS: directory.open_log(ORDERS, config, bytes(range(16)))})
        files = files.kill()
    directory = DataDirectory.open(files, "/data", META)
    log = directory.open_log(ORDERS, config, bytes(range(16)))
    log.append_records([record(0)])
    log.sync()
    assert log.durable_offset == 1
    after = DataDirectory.open(files.crash(), "/data", META).open_log(ORDERS, config)
    assert contents(after) == expected(1)


def test_a_log_that_is_new_after_a_clean_start_outlives_the_power() -> None:
    files = FaultyFiles()
    DataDirectory.open(files, "/data", META).close({})
    files = files.kill()
    directory = DataDirectory.open(files, "/data", META)
    assert directory.was_clean
    log = directory.open_log(ORDERS, LogConfig())
    log.append_records([record(0)])
    log.sync()
    after = DataDirectory.open(files.crash(), "/data", META).open_log(ORDERS, LogConfig())
    assert contents(after) == expected(1)


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_sync_that_failed_before_a_restart_is_made_good(has_checkpoint: bool) -> None:
    files = FaultyFiles()
    directory = DataDirectory.open(files, "/data", META)
    log = directory.open_log(ORDERS, LogConfig())
    log.append_records([record(0)])
    log.sync()
    directory.write_checkpoints({ORDERS: log})
    log.append_records([record(1)])
    files.fail("fdatasync")
    with pytest.raises(SyncFailed):
        log.sync()
    files = files.kill()
    directory = DataDirectory.open(files, "/data", META)
    log = directory.open_log(ORDERS, LogConfig())
    log.append_records([record(2)])
    log.sync()
    assert log.durable_offset == 3
    if has_checkpoint:
        directory.write_checkpoints({ORDERS: log})
    after = DataDirectory.open(files.crash(), "/data", META).open_log(ORDERS, LogConfig())
    assert contents(after) == expected(3)
