"""Appending to a log, and when a segment is full."""

import errno
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.batch import encode_batch, walk_batches
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.storage_errors import AppendFailed, LogClosed
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles
from tests.storage.lookups import run_lookup
from tests.storage.numbered_log import SMALL, contents, expected, filled


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[PartitionLog]:
    log = PartitionLog.open(OsFiles(), str(tmp_path / "orders-0"), SMALL)
    yield log
    log.close(clean=False)


def test_an_empty_log_begins_and_ends_at_zero(on_disk: PartitionLog) -> None:
    assert (on_disk.log_start_offset, on_disk.durable_offset, on_disk.log_end_offset) == (0, 0, 0)
    assert on_disk.read(0, 1000, up_to=0) == b""
    assert contents(on_disk) == []
    assert run_lookup(on_disk.find_max_timestamp()) is None


def test_appends_get_consecutive_offsets_on_a_real_disk(on_disk: PartitionLog, tmp_path: Path) -> None:
    assert on_disk.append_records([record(0), record(1)])[:2] == (0, 1)
    assert on_disk.append_records([record(2)])[:2] == (2, 2)
    assert (on_disk.durable_offset, on_disk.log_end_offset) == (0, 3)
    on_disk.sync()
    assert on_disk.durable_offset == 3
    stored = (tmp_path / "orders-0" / "00000000000000000000.log").read_bytes()
    assert [header.base_offset for _, header in walk_batches(stored)] == [0, 2]
    assert stored == on_disk.read(0, 10_000, up_to=3)
    assert (tmp_path / "orders-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


def test_times_can_be_given_on_append() -> None:
    _, log = filled([1])
    log.append_records([record(1)], now_ms=4242)
    log.append(encode_batch([record(2)]), log_append_time_ms=5000)
    log.append(encode_batch([record(3)]), max_timestamp_ms=6000)
    assert [item.timestamp_ms for item in contents(log)] == [1000, 4242, 5000, 1003]
    assert [batch.header.max_timestamp_ms for batch in log.iterate_batches()] == [1000, 4242, 5000, 6000]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda batch: batch[:-1],
        lambda batch: batch + batch,
        lambda batch: batch[:57] + struct.pack(">i", 0) + batch[61:],
        lambda batch: batch[:57] + struct.pack(">i", 2) + batch[61:],
    ],
    ids=["half a batch", "two batches", "a count of none", "a count of two"],
)
def test_what_is_not_one_whole_batch_is_never_appended(spoil: Callable[[bytes], bytes]) -> None:
    _, log = filled([1])
    with pytest.raises(AssertionError):
        log.append(spoil(encode_batch([record(1)])))
    assert log.log_end_offset == 1
    assert log.append_records([record(1)]).base_offset == 1
    assert contents(log) == expected(2)


def test_segments_roll_by_size_and_are_named_by_offset() -> None:
    files, log = filled([3] * 10)
    assert len(log.segments) > 2
    for segment in log.segments:
        assert segment.size <= SMALL.segment_bytes
        assert files.exists(f"/data/orders-0/{segment.base_offset:020d}.log")
    for segment in log.segments[:-1]:
        assert files.exists(f"/data/orders-0/{segment.base_offset:020d}.index")
        assert files.exists(f"/data/orders-0/{segment.base_offset:020d}.timeindex")


def test_an_append_says_whether_it_began_a_segment() -> None:
    _, log = filled([1])
    results = [log.append_records([record(number)]) for number in range(1, 20)]
    assert [result.base_offset for result in results if result.is_rolled] == [
        segment.base_offset for segment in log.segments[1:]
    ]


def test_a_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    _, log = filled([1])
    log.append_records([record(1, size=2000)])
    log.append_records([record(2)])
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


def test_segments_roll_by_time() -> None:
    files = FaultyFiles()
    log = PartitionLog.open(files, "/data/orders-0", LogConfig(segment_ms=1000))
    for timestamp_ms in (5000, 4000, 6000, 6001, 7001, 7002):
        log.append_records([record(0, timestamp_ms)])
    assert [segment.base_offset for segment in log.segments] == [0, 3, 5]
    log.close()
    again = PartitionLog.open(files, "/data/orders-0", log.config, recovery_point=6, was_clean=True)
    again.append_records([record(0, 8002)])
    again.append_records([record(0, 8003)])
    assert [segment.base_offset for segment in again.segments] == [0, 3, 5, 7]


def test_segments_roll_when_an_index_is_full() -> None:
    _, log = filled([1] * 12, LogConfig(index_interval_bytes=0, segment_index_bytes=36))
    assert len(log.segments) > 2
    assert contents(log) == expected(12)


def test_segments_roll_before_offsets_outgrow_their_index() -> None:
    files = FaultyFiles()
    log = PartitionLog.open(files, "/data/orders-0", LogConfig(cleanup_policy="compact"))
    log.append_records([record(0)])
    # A compacted batch keeps a range that no single produced batch could have.
    wide = bytearray(encode_batch([record(1)]))
    wide[23:27] = (2**31 - 1).to_bytes(4, "big")
    log.append(bytes(wide))
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_failed_write_leaves_the_log_as_it_was() -> None:
    for torn_bytes in (0, 1, 40, 80):
        files, log = filled([2, 2])
        files.fail("write", error=errno.ENOSPC, torn_bytes=torn_bytes)
        with pytest.raises(AppendFailed) as caught:
            log.append_records([record(99)])
        assert caught.value.path == "/data/orders-0/00000000000000000000.log"
        assert log.append_records([record(4)]).base_offset == 4
        assert contents(log) == expected(5)


@pytest.mark.parametrize("operation", ["open", "write"])
def test_a_segment_that_cannot_begin_fails_the_append_only(operation: str) -> None:
    files, log = filled([5, 5])
    files.fail(operation, error=errno.ENOSPC)
    with pytest.raises(AppendFailed):
        log.append_records([record(99, size=600)])
    assert log.log_end_offset == 10
    for number in range(10, 14):
        assert log.append_records([record(number, size=20)]).base_offset == number
    assert contents(log) == expected(14)


def test_a_closed_log_refuses_appends() -> None:
    _, log = filled([2])
    log.close()
    log.close()
    with pytest.raises(LogClosed):
        log.append_records([record(2)])
    with pytest.raises(LogClosed):
        log.sync()


def test_a_log_that_was_let_go_takes_nothing() -> None:
    _, log = filled([2])
    log.close_deleted()
    with pytest.raises(LogClosed):
        log.append_records([record(2)])
