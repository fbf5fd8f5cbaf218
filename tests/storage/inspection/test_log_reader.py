"""Reading a log from outside while its owner appends to it, deletes from it and compacts it."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.files import Files
from storage.inspection.log_reader import LogListing, LogReader, NotALog, find_logs, parse_partition
from storage.inspection.segment_scan import BadBytes, Piece
from storage.log import PartitionLog
from storage.record import Record
from storage.recovery.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX
from storage.stored_batch import StoredBatch
from tests.storage.batches import record
from tests.storage.damaged_logs import DIRECTORY, flip, records_of, stored, the_log
from tests.storage.faulty_files import FaultyFiles
from tests.storage.numbered_log import SMALL, contents, filled


def read(pieces: Iterator[Piece]) -> list[Record]:
    """All records; there must be no bad bytes."""
    batches = []
    for piece in pieces:
        assert isinstance(piece, StoredBatch), piece
        batches.append(piece)
    return records_of(batches)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20), st.data())
def test_a_reader_sees_what_the_log_holds_from_an_offset_on(sizes: list[int], data: st.DataObject) -> None:
    files, log = filled(sizes)
    start = data.draw(st.integers(0, log.log_end_offset))
    found = read(LogReader(files, the_log(files), from_offset=start).read_pieces())
    assert [item for item in found if item.offset >= start] == contents(log)[start:]
    assert len(found) - len(contents(log)[start:]) < 4


@given(st.lists(st.lists(st.integers(1, 4), max_size=8), min_size=1, max_size=4))
def test_what_was_appended_since_comes_once(rounds: list[list[int]]) -> None:
    files, log = filled([1])
    reader = LogReader(files, the_log(files))
    found = read(reader.read_pieces())
    for sizes in rounds:
        for size in sizes:
            log.append_records([record(log.log_end_offset + number) for number in range(size)])
        found += read(reader.read_appended())
    assert found == contents(log)


def test_segments_that_went_meanwhile_are_passed_over() -> None:
    files, log = filled([3] * 15)
    pieces = LogReader(files, the_log(files)).read_pieces()
    first = next(pieces)
    assert isinstance(first, StoredBatch)
    kept_from = log.segments[2].base_offset
    log.delete_records_before(kept_from)
    rest = read(pieces)
    # The segment that was open is read to its end; the second one is gone.
    assert rest[-1].offset == log.log_end_offset - 1
    assert [item for item in rest if item.offset >= kept_from] == contents(log)


def merge_first_two(files: Files, log: LogListing, suffix: str = "") -> None:
    """What compaction leaves of the first two segments when every record survives."""
    first, second = (segment.path for segment in log.segments[:2])
    merged = files.read(first) + files.read(second)
    if suffix:
        files.write(first + suffix, merged)
        return
    files.write(first + ".new", merged)
    files.unlink(second)
    files.replace(first + ".new", first)


def test_a_compaction_between_two_looks_changes_nothing() -> None:
    files, log = filled([3] * 15)
    expected = contents(log)
    for stop_after in range(12):
        files, log = filled([3] * 15)
        listed = the_log(files)
        pieces = LogReader(files, listed).read_pieces()
        found = read(next(pieces) for _ in range(stop_after))
        merge_first_two(files, listed)
        assert found + read(pieces) == expected


def test_a_compacted_segment_stands_for_those_it_replaces() -> None:
    files, log = filled([3] * 15)
    expected = contents(log)
    listed = the_log(files)
    merge_first_two(files, listed, SWAP_SUFFIX)
    assert read(LogReader(files, the_log(files)).read_pieces()) == expected
    files.unlink(listed.segments[0].path)
    assert read(LogReader(files, the_log(files)).read_pieces()) == expected
    # One that is being written before it says that the swap is not decided yet.
    files, log = filled([3] * 15)
    merge_first_two(files, the_log(files), SWAP_SUFFIX)
    files.write(the_log(files).segments[0].path.removesuffix(SWAP_SUFFIX) + CLEANED_SUFFIX, b"")
    assert [segment.path for segment in the_log(files).segments] == [segment.path for segment in log.segments]


def test_damage_is_damage_however_often_the_directory_is_listed() -> None:
    files, batches = stored([3] * 15)
    flip(files, batches[2])
    pieces = list(LogReader(files, the_log(files)).read_pieces())
    assert [piece.position for piece in pieces if isinstance(piece, BadBytes)] == [batches[2].position]
    assert len(pieces) == len(batches)


def test_an_unfinished_batch_that_is_taken_back_was_never_there() -> None:
    files, batches = stored([1, 1])
    last = batches[-1]
    file = files.open_append(last.path)
    file.truncate(last.position + 30)
    reader = LogReader(files, the_log(files), pause=lambda: file.truncate(last.position))
    assert len(read(reader.read_pieces())) == 1


def test_a_log_that_is_cut_and_grows_again_is_followed() -> None:
    files, log = filled([1, 1, 1])
    reader = LogReader(files, the_log(files))
    assert len(read(reader.read_pieces())) == 3
    log.truncate_to(1)
    for number in range(1, 5):
        log.append_records([record(100 + number)])
    # Offsets that were read already do not come again.
    assert [item.offset for item in read(reader.read_appended())] == [3, 4]


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders-0", "orders-0"),
        ("a.b_c-d-17", "a.b_c-d-17"),
        (f"orders-3.{'0a' * 16}-delete", "orders-3"),
        (f"orders-3.{'0a' * 16}-future", "orders-3"),
        ("orders", None),
        ("orders-x", None),
        ("or ders-1", None),
    ],
)
def test_a_directory_tells_its_partition(name: str, partition: str | None) -> None:
    found = parse_partition(f"/data/{name}")
    assert (None if found is None else str(found)) == partition


def test_a_data_directory_lists_partitions_in_order_and_nothing_else() -> None:
    files = FaultyFiles()
    for name in ("orders-10", "orders-9", "b-0", f"gone-0.{'0' * 32}-delete", "misc"):
        if name != "misc":
            PartitionLog.open(files, f"/data/{name}", SMALL).close()
    files.mkdir("/data/misc")
    assert [str(log.name) for log in find_logs(files, "/data")] == ["b-0", "orders-9", "orders-10"]
    with pytest.raises(NotALog):
        find_logs(files, "/data/misc")
    with pytest.raises(NotALog):
        find_logs(files, DIRECTORY + "/none")


def test_a_directory_whose_name_ends_in_a_number_is_not_a_partition_by_that() -> None:
    files = FaultyFiles()
    files.mkdir("/etc/dbus-1")
    with pytest.raises(NotALog):
        find_logs(files, "/etc")


def test_partitions_without_segments_are_listed_where_a_broker_keeps_its_data() -> None:
    files = FaultyFiles()
    files.mkdir("/data/orders-1")
    files.open_append("/data/meta.properties").close()
    assert [str(log.name) for log in find_logs(files, "/data")] == ["orders-1"]
