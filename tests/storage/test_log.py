import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import decode_records, encode_batch, read_header, rewrite_batch, walk_batches
from storage.compression import NONE, ZSTD
from storage.errors import AppendFailed, LogClosed, LogDamaged, LogPoisoned, OffsetOutOfRange, SyncFailed
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles

SMALL = LogConfig(segment_bytes=700, index_interval_bytes=150)
SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=25)


def filled(
    sizes: list[int], config: LogConfig = SMALL, codec: int = NONE
) -> tuple[FaultyFiles, PartitionLog]:
    """A log of batches with these numbers of records, numbered on."""
    files = FaultyFiles()
    log = PartitionLog.open(files, "/data/orders-0", config)
    for size in sizes:
        start = log.log_end_offset
        log.append(encode_batch([record(start + number) for number in range(size)], codec=codec))
    return files, log


def contents(log: PartitionLog, from_offset: int | None = None) -> list[Record]:
    """All records, through the loading iterator."""
    return [item for batch in log.batches(from_offset) for item in batch.records()]


def expected(end: int, start: int = 0) -> list[Record]:
    """The records that `filled` numbers `start` to `end`."""
    return [record(number)._replace(offset=number) for number in range(start, end)]


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[PartitionLog]:
    log = PartitionLog.open(OsFiles(), str(tmp_path / "orders-0"), SMALL)
    yield log
    log.close(clean=False)


def test_an_empty_log_begins_and_ends_at_zero(on_disk: PartitionLog) -> None:
    assert (on_disk.log_start_offset, on_disk.durable_offset, on_disk.log_end_offset) == (0, 0, 0)
    assert on_disk.read(0, 1000, up_to=0) == b""
    assert contents(on_disk) == []
    assert on_disk.max_timestamp() is None


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
    assert [batch.header.max_timestamp_ms for batch in log.batches()] == [1000, 4242, 5000, 6000]


def test_half_a_batch_is_never_appended() -> None:
    _, log = filled([1])
    with pytest.raises(AssertionError):
        log.append(encode_batch([record(1)])[:-1])
    assert log.log_end_offset == 1


@given(SIZES, st.data())
def test_a_read_gives_whole_batches_from_the_one_that_holds_the_offset(
    sizes: list[int], data: st.DataObject
) -> None:
    _, log = filled(sizes)
    stored = b"".join(batch.data for batch in log.batches())
    starts = [header.base_offset for _, header in walk_batches(stored)]
    for _ in range(10):
        offset = data.draw(st.integers(0, log.log_end_offset - 1))
        max_bytes = data.draw(st.integers(0, 1500))
        up_to = data.draw(st.sampled_from([*starts, log.log_end_offset]))
        got = log.read(offset, max_bytes, up_to=up_to)
        batches = list(walk_batches(got))
        assert sum(header.size_bytes for _, header in batches) == len(got)
        if offset >= up_to:
            assert got == b""
            continue
        assert batches[0][1].base_offset <= offset <= batches[0][1].last_offset
        assert got in stored
        assert batches[-1][1].next_offset <= up_to
        assert len(got) <= max_bytes or len(batches) == 1
        # Nothing was left out that fits, up to the end of the segment.
        following = stored[stored.index(got) + len(got) :]
        is_last_of_segment = batches[-1][1].next_offset in [item.base_offset for item in log.segments]
        if following and not is_last_of_segment and batches[-1][1].next_offset < up_to:
            assert len(got) + read_header(following).size_bytes > max_bytes
        # A consumer gets the beginning of that one too, as far as the bytes go.
        cut = log.read(offset, max_bytes, up_to=up_to, is_cut=True)
        assert cut.startswith(got)
        assert cut in stored
        if following and not is_last_of_segment and batches[-1][1].next_offset < up_to:
            assert len(cut) == max(len(got), max_bytes)
        else:
            assert cut == got


@given(SIZES, st.integers(0, 900))
def test_reading_on_meets_every_record_once(sizes: list[int], max_bytes: int) -> None:
    _, log = filled(sizes)
    offset = 0
    found = []
    while got := log.read(offset, max_bytes, up_to=log.log_end_offset):
        for position, header in walk_batches(got):
            found += decode_records(got[position : position + header.size_bytes])
            offset = header.next_offset
    assert found == expected(log.log_end_offset)


def test_a_first_batch_that_is_too_large_comes_only_on_request() -> None:
    _, log = filled([5, 1])
    assert log.read(0, 10, up_to=6, min_one_batch=False) == b""
    assert read_header(log.read(0, 10, up_to=6)).next_offset == 5


@pytest.mark.parametrize("offset", [-1, 6])
def test_a_read_outside_the_log_is_refused(offset: int) -> None:
    _, log = filled([5])
    for call in (lambda: log.read(offset, 100, up_to=5), lambda: list(log.batches(offset))):
        with pytest.raises(OffsetOutOfRange) as caught:
            call()
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 5)


@given(SIZES, st.data())
def test_loading_starts_at_the_batch_that_holds_the_offset(sizes: list[int], data: st.DataObject) -> None:
    _, log = filled(sizes, codec=data.draw(st.sampled_from([NONE, ZSTD])))
    assert contents(log) == expected(log.log_end_offset)
    offset = data.draw(st.integers(0, log.log_end_offset))
    found = contents(log, offset)
    assert [item for item in found if item.offset >= offset] == expected(log.log_end_offset, offset)
    assert len(found) - len(expected(log.log_end_offset, offset)) < max(sizes)


def test_a_walk_ends_where_the_log_ended_when_it_began() -> None:
    _, log = filled([1, 1])
    walk = log.batches()
    first = next(walk)
    log.append_records([record(2)])
    assert [first.header.base_offset, *(batch.header.base_offset for batch in walk)] == [0, 1]


def compacted(log: PartitionLog, keep: set[int]) -> FaultyFiles:
    """The log's files with only some records left, as compaction leaves them: ranges stay."""
    files = FaultyFiles()
    files.mkdir(log.directory)
    for segment in log.segments:
        data = b""
        for batch in segment.walk():
            kept = [item for item in batch.records() if item.offset in keep]
            # Compaction drops an empty batch or keeps its header; both are met.
            if kept or batch.header.base_offset % 2:
                data += rewrite_batch(batch.header, kept)
        files.write(segment.path, data)
    return files


@given(SIZES, st.data())
def test_gaps_and_empty_batches_are_stepped_over(sizes: list[int], data: st.DataObject) -> None:
    _, log = filled(sizes)
    end = log.log_end_offset
    keep = data.draw(st.sets(st.integers(0, end - 1))) | {end - 1}
    config = LogConfig(segment_bytes=700, index_interval_bytes=150, cleanup_policy="compact")
    again = PartitionLog.open(compacted(log, keep), log.directory, config)
    assert again.log_end_offset == end
    assert [item.offset for item in contents(again)] == sorted(keep)
    for offset in range(end):
        got = again.read(offset, 1, up_to=end)
        header = read_header(got)
        assert header.last_offset >= offset
        found = list(walk_batches(got))
        assert len(found) == 1
        assert again.read(header.next_offset, 1, up_to=end) or header.next_offset == end
    assert again.append_records([record(end)]).base_offset == end


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


def test_a_failed_write_that_cannot_be_taken_back_poisons_the_log() -> None:
    files, log = filled([2, 2])
    log.sync()
    files.fail("write", torn_bytes=50)
    files.fail("truncate")
    with pytest.raises(AppendFailed):
        log.append_records([record(99)])
    with pytest.raises(LogPoisoned):
        log.append_records([record(99)])
    with pytest.raises(LogPoisoned):
        log.sync()
    again = log.reopen()
    assert again.recovery_report.cut_bytes == 50
    assert again.append_records([record(4)]).base_offset == 4
    assert contents(again) == expected(5)


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


def test_a_failed_sync_is_never_taken_back() -> None:
    files, log = filled([2])
    log.sync()
    log.append_records([record(2)])
    files.fail("fdatasync")
    with pytest.raises(SyncFailed):
        log.sync()
    for _ in range(2):
        with pytest.raises(LogPoisoned):
            log.sync()
        with pytest.raises(LogPoisoned):
            log.append_records([record(3)])
    assert log.durable_offset == 2


def test_a_poisoned_log_reopens_with_every_byte_on_disk() -> None:
    files, log = filled([2, 2])
    log.sync()
    log.append_records([record(4)])
    files.fail("fdatasync")
    with pytest.raises(SyncFailed):
        log.sync()
    again = log.reopen()
    assert again.durable_offset == again.log_end_offset == 5
    after = PartitionLog.open(files.crash(), "/data/orders-0", SMALL, recovery_point=5)
    assert contents(after) == expected(5)


def test_a_reopening_that_cannot_sync_fails_and_can_be_repeated() -> None:
    files, log = filled([2])
    files.fail("fdatasync", times=2)
    with pytest.raises(SyncFailed):
        log.sync()
    with pytest.raises(SyncFailed):
        log.reopen()
    assert contents(log.reopen()) == expected(2)


def test_a_closed_log_refuses_appends() -> None:
    _, log = filled([2])
    log.close()
    log.close()
    with pytest.raises(LogClosed):
        log.append_records([record(2)])
    with pytest.raises(LogClosed):
        log.sync()


def test_a_roll_syncs_first_where_the_configuration_says_so() -> None:
    files, log = filled([3] * 6, LogConfig(segment_bytes=700, sync_on_roll=True))
    sealed, active = log.segments
    assert bytes(files.names[sealed.path].disk) == bytes(files.names[sealed.path].data)
    assert bytes(files.names[active.path].disk) == b""


def test_a_roll_that_cannot_sync_first_fails_the_append_and_poisons_the_log() -> None:
    files, log = filled([3] * 3, LogConfig(segment_bytes=700, sync_on_roll=True))
    assert len(log.segments) == 1
    files.fail("fdatasync")
    with pytest.raises(AppendFailed):
        log.append_records([record(9, size=600)])
    with pytest.raises(LogPoisoned):
        log.append_records([record(9)])
    assert contents(log) == expected(9)


def test_deleted_records_move_the_start_and_drop_whole_segments() -> None:
    files, log = filled([3] * 10)
    second = log.segments[1].base_offset
    assert log.delete_records_before(second + 1) == second + 1
    assert log.segments[0].base_offset == second
    assert not files.exists(f"/data/orders-0/{0:020d}.log")
    with pytest.raises(OffsetOutOfRange):
        log.read(second, 100, up_to=30)
    assert log.delete_records_before(1) == second + 1
    assert log.delete_records_before(30) == 30
    assert log.read(30, 100, up_to=30) == b""
    with pytest.raises(OffsetOutOfRange):
        log.delete_records_before(31)
    log.append_records([record(30)])
    assert [item.offset for item in contents(log) if item.offset >= 30] == [30]


def test_the_start_is_kept_over_a_restart() -> None:
    files, log = filled([3] * 4)
    log.delete_records_before(5)
    log.close()
    again = PartitionLog.open(
        files, "/data/orders-0", SMALL, recovery_point=12, log_start_offset=5, was_clean=True
    )
    assert (again.log_start_offset, again.log_end_offset) == (5, 12)


@given(SIZES, st.data())
def test_a_truncated_log_ends_before_the_offset_and_goes_on(sizes: list[int], data: st.DataObject) -> None:
    files, log = filled(sizes)
    log.sync()
    offset = data.draw(st.integers(0, log.log_end_offset))
    kept = [batch.header.next_offset for batch in log.batches() if batch.header.last_offset < offset]
    log.truncate_to(offset)
    end = kept[-1] if kept else 0
    assert log.log_end_offset == end
    assert log.durable_offset <= end
    assert contents(log) == expected(end)
    assert log.append_records([record(end)]).base_offset == end
    log.sync()
    again = PartitionLog.open(files.crash(), "/data/orders-0", SMALL, recovery_point=end + 1)
    assert contents(again) == expected(end + 1)


def test_no_read_remembers_what_was_before_a_truncation() -> None:
    _, log = filled([1] * 4)
    for size in (20, 40, 10):
        for offset in range(4):
            log.read(offset, 1, up_to=4)
        log.truncate_to(1)
        log.append(encode_batch([record(number, size=size) for number in range(1, 3)]))
        log.append_records([record(3, size=size)])
        for offset, base_offset in enumerate([0, 1, 1, 3]):
            assert read_header(log.read(offset, 1, up_to=4)).base_offset == base_offset


def test_a_sync_begun_before_a_truncation_makes_nothing_durable() -> None:
    _, log = filled([2, 2])
    plan = log.begin_sync()
    assert plan is not None
    log.truncate_to(2)
    log.append_records([record(2)])
    plan.run(set())
    log.complete_sync(plan, None)
    assert log.durable_offset <= 2


def test_a_deleted_log_is_gone() -> None:
    files, log = filled([2])
    log.delete()
    assert files.listdir("/data") == []
    with pytest.raises(LogClosed):
        log.append_records([record(2)])


def test_a_sync_under_way_survives_the_deletion_of_its_log() -> None:
    _, log = filled([2])
    plan = log.begin_sync()
    assert plan is not None
    log.delete()
    plan.run(set())
    assert log.complete_sync(plan, None) is None


def test_damage_met_while_reading_names_file_and_byte() -> None:
    files, log = filled([1] * 5)
    bad = list(log.batches())[3]
    inode = files.names[bad.path]
    inode.data[bad.position + 70] ^= 1
    with pytest.raises(LogDamaged) as caught:
        contents(log)
    assert (caught.value.path, caught.value.position) == (bad.path, bad.position)
    inode.data[bad.position + 16] = 0
    for call in (lambda: log.read(3, 100, up_to=5), lambda: log.offset_for_timestamp(1003)):
        with pytest.raises(LogDamaged) as caught:
            call()
        assert caught.value.position == bad.position
