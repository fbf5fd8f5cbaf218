"""A crash at every single call of a compaction, and the log that the next process finds."""

import errno
from contextlib import suppress
from random import Random

import pytest

from storage.batch import encode_batch
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from storage.storage_errors import StorageError
from tests.storage.compaction.compacting import committed, compact
from tests.storage.faulty_files import CrashError, FaultyFiles

CONFIG = LogConfig(
    segment_bytes=400, index_interval_bytes=100, cleanup_policy="compact", delete_retention_ms=1000
)
END = 41


def history(files: FaultyFiles) -> PartitionLog:
    """A log with values, tombstones, and a first pass behind it, so that the next one removes tombstones and makes
    one segment of several that hold keys of their own."""
    log = PartitionLog.open(files, "/data/log-0", CONFIG)
    for number in range(END):
        value = None if number % 7 == 3 else b"value-%d" % number
        key = b"once-%d" % number if number in (2, 8) else b"key-%d" % (number % 6)
        log.append(encode_batch([Record(-1, 1000, key, value)]))
        if number == 20:
            compact(log, 0, now_ms=0)
    log.sync()
    return log


def check(files: FaultyFiles, state: dict[bytes, bytes]) -> None:
    """No record is lost, no deleted record returns, and the log accepts records: now, and after the next crash."""
    log = PartitionLog.open(files, "/data/log-0", CONFIG, recovery_point=END)
    assert committed(log) == state
    assert log.log_end_offset == END
    assert not [name for name in files.listdir("/data/log-0") if name.endswith((".cleaned", ".swap"))]
    log.append(encode_batch([Record(-1, 1000, b"after", b"the crash")]))
    compact(log, 0, now_ms=10**9)
    log.sync()
    after = PartitionLog.open(files.crash(), "/data/log-0", CONFIG, recovery_point=END + 1)
    assert committed(after) == {**state, b"after": b"the crash"}


@pytest.mark.parametrize("torn_bytes", [0, 30])
def test_a_crash_at_every_call_of_a_compaction(torn_bytes: int) -> None:
    whole = FaultyFiles()
    log = history(whole)
    state, before = committed(log), whole.calls.total()
    compact(log, 0, now_ms=5000)
    calls = whole.calls.total() - before
    assert calls > 20
    assert committed(log) == state
    for nth in range(1, calls + 1):
        files = FaultyFiles()
        log = history(files)
        files.crash_at("any", nth, torn_bytes)
        with pytest.raises(CrashError):
            compact(log, 0, now_ms=5000)
        lost = [files.crash(Random(f"{nth} {number}")) for number in range(4)]
        for after in (files.crash(), *lost, files.kill()):
            check(after, state)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_compaction_that_fails_at_any_call_costs_nothing(error: int) -> None:
    whole = FaultyFiles()
    log = history(whole)
    state, before = committed(log), whole.calls.total()
    compact(log, 0, now_ms=5000)
    for nth in range(1, whole.calls.total() - before + 1):
        files = FaultyFiles()
        log = history(files)
        files.fail("any", nth, error, torn_bytes=nth % 40)
        with suppress(StorageError, OSError):
            compact(log, 0, now_ms=5000)
        assert files.has_failed
        assert committed(log) == state
        if log.failure is None:
            compact(log, 0, now_ms=5000)
            assert committed(log) == state
        else:
            assert committed(log.reopen()) == state
        check(files.crash(), state)
