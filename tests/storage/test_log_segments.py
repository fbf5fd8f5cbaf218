"""Reading over segments, and removing them at either end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.batch import decode_records, encode_batch, read_header, rewrite_batch, walk_batches
from storage.compression import NONE, ZSTD
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.storage_errors import IndexesNotLoaded, LogDamaged, OffsetOutOfRange
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles
from tests.storage.lookups import run_lookup
from tests.storage.numbered_log import SIZES, SMALL, contents, expected, filled


@given(SIZES, st.data())
def test_a_read_gives_whole_batches_from_the_one_that_holds_the_offset(
    sizes: list[int], data: st.DataObject
) -> None:
    _, log = filled(sizes)
    stored = b"".join(batch.data for batch in log.iterate_batches())
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
    for call in (lambda: log.read(offset, 100, up_to=5), lambda: list(log.iterate_batches(offset))):
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
    walk = log.iterate_batches()
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
    kept = [batch.header.next_offset for batch in log.iterate_batches() if batch.header.last_offset < offset]
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


def test_damage_met_while_reading_names_file_and_byte() -> None:
    files, log = filled([1] * 5)
    bad = list(log.iterate_batches())[3]
    inode = files.names[bad.path]
    inode.data[bad.position + 70] ^= 1
    with pytest.raises(LogDamaged) as caught:
        contents(log)
    assert (caught.value.path, caught.value.position) == (bad.path, bad.position)
    inode.data[bad.position + 16] = 0
    for call in (lambda: log.read(3, 100, up_to=5), lambda: run_lookup(log.find_offset_for_timestamp(1003))):
        with pytest.raises(LogDamaged) as caught:
            call()
        assert caught.value.position == bad.position


def test_a_read_needs_loaded_indexes_of_the_next_batch_as_well() -> None:
    """Compaction has left no batch between the first one and the last one."""
    _, log = filled([2] * 20)
    files = compacted(log, {0, 39})
    config = LogConfig(segment_bytes=700, index_interval_bytes=150, cleanup_policy="compact")
    again = PartitionLog.open(files, log.directory, config)
    assert len(again.segments) > 3
    again.close()
    again = PartitionLog.open(files, log.directory, config, recovery_point=40, was_clean=True)
    for offset in (0, 2, 39):
        if offset < again.segments[-1].base_offset:
            with pytest.raises(IndexesNotLoaded):
                again.read(offset, 1, up_to=40)
        run_lookup(again.load_segments(offset))
        assert read_header(again.read(offset, 1, up_to=40)).last_offset >= offset
    run_lookup(again.load_segments(40))
    assert again.read(40, 1, up_to=40) == b""
