"""Opening logs that ended in every way a log can end."""

import os
import struct
import zlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.batch import walk_batches
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.storage_errors import LogDamaged
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles
from tests.storage.lookups import run_lookup
from tests.storage.numbered_log import SIZES, SMALL, contents, expected, filled

DIRECTORY = "/data/orders-0"
ONE_SEGMENT = LogConfig(index_interval_bytes=150)


def path_of(base_offset: int) -> str:
    return f"{DIRECTORY}/{base_offset:020d}.log"


def reopened(
    files: FaultyFiles, recovery_point: int = 0, *, was_clean: bool = False, config: LogConfig = SMALL
) -> PartitionLog:
    return PartitionLog.open(files, DIRECTORY, config, recovery_point=recovery_point, was_clean=was_clean)


@pytest.mark.parametrize("was_clean", [False, True])
def test_every_prefix_of_a_log_opens_as_its_whole_batches(was_clean: bool) -> None:
    _, log = filled([1, 3, 2], ONE_SEGMENT)
    stored = log.read(0, 10_000, up_to=6)
    ends = {position + header.size_bytes: header.next_offset for position, header in walk_batches(stored)}
    for length in range(len(stored) + 1):
        files = FaultyFiles()
        files.mkdir(DIRECTORY)
        files.write(path_of(0), stored[:length])
        again = reopened(files, was_clean=was_clean, config=ONE_SEGMENT)
        whole, next_offset = max(((end, at) for end, at in ends.items() if end <= length), default=(0, 0))
        assert again.log_end_offset == next_offset
        assert again.recovery_report.cut_bytes == length - whole
        assert files.size(path_of(0)) == whole
        if length != whole:
            assert again.recovery_report.cut_path == path_of(0)
            assert again.recovery_report.cut_position == whole
        assert again.append_records([record(next_offset)]).base_offset == next_offset
        assert contents(again) == expected(next_offset + 1)


def test_every_prefix_below_the_recovery_point_is_damage() -> None:
    _, log = filled([1, 3, 2], ONE_SEGMENT)
    stored = log.read(0, 10_000, up_to=6)
    starts = [position for position, _ in walk_batches(stored)]
    for length in range(1, len(stored)):
        files = FaultyFiles()
        files.mkdir(DIRECTORY)
        files.write(path_of(0), stored[:length])
        for was_clean in (False, True):
            with pytest.raises(LogDamaged) as caught:
                reopened(files, 6, was_clean=was_clean, config=ONE_SEGMENT)
            assert caught.value.path == path_of(0)
            assert caught.value.position == max(start for start in starts if start <= length)
            assert files.read(path_of(0)) == stored[:length]


@settings(max_examples=200)
@given(SIZES, st.data())
def test_a_flipped_bit_is_cut_past_the_recovery_point_and_damage_before(
    sizes: list[int], data: st.DataObject
) -> None:
    files, log = filled(sizes)
    log.sync()
    batches = list(log.iterate_batches())
    bad = data.draw(st.sampled_from(batches))
    position = bad.position + data.draw(st.integers(16, len(bad.data) - 1))
    files.names[bad.path].data[position] ^= 1 << data.draw(st.integers(0, 7))
    recovery_point = data.draw(st.sampled_from([0, *(batch.header.next_offset for batch in batches)]))
    total = sum(len(batch.data) for batch in batches)
    whole = sum(len(batch.data) for batch in batches if batch.header.base_offset < bad.header.base_offset)
    first = max(item.base_offset for item in log.segments if item.base_offset <= recovery_point)
    if bad.header.base_offset >= recovery_point:
        again = reopened(files, recovery_point)
        assert again.recovery_report.cut_bytes == total - whole
        assert again.recovery_report.cut_position == bad.position
        assert contents(again) == expected(bad.header.base_offset)
        assert again.append_records([record(bad.header.base_offset)]).base_offset == bad.header.base_offset
        again.sync()
        assert contents(reopened(files.crash(), again.log_end_offset)) == expected(again.log_end_offset)
    else:
        # Met when the log opens or, in a segment that opening does not look at, when it is read.
        with pytest.raises(LogDamaged) as caught:
            contents(reopened(files, recovery_point))
        assert (caught.value.path, caught.value.position) == (bad.path, bad.position)
        if bad.header.base_offset >= first:
            with pytest.raises(LogDamaged):
                reopened(files, recovery_point)


def test_a_clean_stop_leaves_only_the_end_to_check() -> None:
    files, log = filled([2] * 200, LogConfig(segment_bytes=5000, index_interval_bytes=500))
    log.close()
    again = reopened(files, 400, was_clean=True)
    assert (again.log_end_offset, again.durable_offset) == (400, 400)
    assert again.recovery_report.scanned_bytes < 1000
    assert contents(again) == expected(400)
    assert run_lookup(again.find_offset_for_timestamp(1301)) == (1301, 301)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", [None, b"", b"\x00", b"\xff" * 24, bytes(240)])
def test_indexes_that_are_missing_or_wrong_are_rebuilt(suffix: str, damage: bytes | None) -> None:
    files, log = filled([3] * 10)
    log.close()
    for segment in log.segments:
        path = segment.path.removesuffix("log") + suffix
        if damage is None:
            files.unlink(path)
        else:
            files.write(path, damage)
    again = reopened(files, 30, was_clean=True)
    assert contents(again) == expected(30)
    for number in range(30):
        assert run_lookup(again.find_offset_for_timestamp(1000 + number)) == (1000 + number, number)
        assert again.read(number, 1, up_to=30)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-1, 50)), min_size=1, max_size=40))
def test_every_clean_stop_is_taken_up_from_its_indexes(batches: list[tuple[int, int]]) -> None:
    files = FaultyFiles()
    log = PartitionLog.open(files, DIRECTORY, SMALL)
    for size, timestamp_ms in batches:
        log.append_records([record(log.log_end_offset + number, timestamp_ms) for number in range(size)])
    end = log.log_end_offset
    log.close()
    again = reopened(files, end, was_clean=True)
    assert again.recovery_report.was_clean
    assert again.log_end_offset == end


@pytest.mark.parametrize(("suffix", "at"), [("index", -8), ("timeindex", -4)])
def test_an_index_that_goes_past_the_end_of_the_log_is_made_anew(suffix: str, at: int) -> None:
    files, log = filled([1] * 20, ONE_SEGMENT)
    log.close()
    path = path_of(0).removesuffix("log") + suffix
    raw = bytearray(files.read(path))
    struct.pack_into(">i", raw, len(raw) + at, 1000)
    files.write(path, bytes(raw))
    again = reopened(files, 20, was_clean=True, config=ONE_SEGMENT)
    for number in range(20, 40):
        again.append_records([record(number)])
    for number in range(40):
        assert run_lookup(again.find_offset_for_timestamp(1000 + number)) == (1000 + number, number)
        assert again.read(number, 1, up_to=40)
    assert contents(again) == expected(40)


def test_a_wrong_offset_in_a_segment_without_indexes_is_damage() -> None:
    files, log = filled([1] * 20)
    log.close()
    first = log.segments[0]
    bad = list(first.walk())[3]
    files.names[first.path].data[bad.position + 5] ^= 1
    files.unlink(first.path.removesuffix("log") + "index")
    again = reopened(files, 20, was_clean=True)
    steps: tuple[Generator[Callable[[], Any], Any, object], ...] = (
        again.load_segments(0),
        again.find_offset_for_timestamp(1003),
    )
    for each in steps:
        with pytest.raises(LogDamaged) as caught:
            run_lookup(each)
        assert caught.value.path == first.path


def test_a_tail_that_repeats_offsets_is_cut() -> None:
    files, log = filled([2, 2], ONE_SEGMENT)
    files.open_append(path_of(0)).write(log.read(0, 1, up_to=4))
    again = reopened(files, 4, config=ONE_SEGMENT)
    assert again.log_end_offset == 4
    assert again.recovery_report.cut_bytes > 0


def test_a_hole_between_segments_past_the_recovery_point_ends_the_log() -> None:
    files, log = filled([3] * 10)
    first, second, third = (segment.base_offset for segment in log.segments[:3])
    last_batch = next(batch for batch in log.iterate_batches() if batch.header.next_offset == third)
    files.open_append(path_of(second)).truncate(last_batch.position)
    assert first == 0
    again = reopened(files, second)
    assert again.log_end_offset == last_batch.header.base_offset
    assert contents(again) == expected(again.log_end_offset)
    assert not files.exists(path_of(third))


def test_damage_in_the_segment_before_the_recovery_point_is_met_when_loading() -> None:
    files, log = filled([3] * 10)
    log.close()
    files.open_append(path_of(0)).truncate(log.segments[0].size - 5)
    again = reopened(files, 30, was_clean=True)
    with pytest.raises(LogDamaged) as caught:
        contents(again)
    assert caught.value.path == path_of(0)


def test_a_log_without_segments_was_damaged_if_it_ever_had_records() -> None:
    files = FaultyFiles()
    files.mkdir(DIRECTORY)
    with pytest.raises(LogDamaged):
        reopened(files, 10)
    assert reopened(files, 0).log_end_offset == 0


def test_a_start_beyond_the_end_begins_the_log_anew() -> None:
    files, log = filled([2])
    log.close()
    again = PartitionLog.open(files, DIRECTORY, SMALL, log_start_offset=50)
    assert (again.log_start_offset, again.log_end_offset) == (50, 50)
    assert again.append_records([record(50)]).base_offset == 50


def test_files_that_are_no_segments_are_left_alone() -> None:
    files, log = filled([2])
    log.close()
    strays = ["1.log", "x" * 20 + ".log", "00000000000000000007.snapshot", "notes.txt"]
    for name in strays:
        files.write(f"{DIRECTORY}/{name}", b"?")
    again = reopened(files, 2, was_clean=True)
    assert contents(again) == expected(2)
    assert set(strays) <= set(files.listdir(DIRECTORY))


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_an_old_broker_are_never_cut(magic: int) -> None:
    body = bytes([magic, 0]) + bytes(8 * magic) + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x05value"
    message = struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
    for stored, is_whole in ((message, True), (message[:-1], False), (message[:-1] + b"x", False)):
        files = FaultyFiles()
        files.mkdir(DIRECTORY)
        files.write(path_of(0), stored)
        if is_whole:
            with pytest.raises(LogDamaged):
                reopened(files)
            assert files.read(path_of(0)) == stored
        else:
            assert reopened(files).recovery_report.cut_bytes == len(stored)


def test_a_log_that_cannot_open_holds_no_file(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"damaged")
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        with pytest.raises(LogDamaged):
            PartitionLog.open(OsFiles(), str(directory), SMALL, recovery_point=1)
    assert len(os.listdir("/dev/fd")) == before


def test_the_report_is_one_line_that_names_the_bytes_cut() -> None:
    files, _ = filled([2], ONE_SEGMENT)
    files.open_append(path_of(0)).write(b"torn")
    report = reopened(files, config=ONE_SEGMENT).recovery_report
    assert report.cut_bytes == 4
    line = str(report)
    assert "\n" not in line
    assert "4 bytes" in line
    assert path_of(0) in line


def test_what_was_cut_at_the_recovery_point_does_not_come_back() -> None:
    """A new segment may begin there, and later recoveries do not check the end of this one."""
    files = FaultyFiles()
    log = PartitionLog.open(files, "/data/orders-0", LogConfig())
    log.append_records([record(0)])
    log.sync()
    path = "/data/orders-0/00000000000000000000.log"
    whole = files.read(path)
    file = files.open_append(path)
    file.write(b"torn")
    file.fdatasync()
    PartitionLog.open(files, "/data/orders-0", LogConfig(), recovery_point=1)
    assert files.crash().read(path) == whole
