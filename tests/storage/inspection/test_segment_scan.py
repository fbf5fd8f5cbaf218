"""Reading on behind damage: nothing sound is passed over, nothing else is taken for sound."""

import struct
import zlib
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.batch import encode_batch, read_header, rewrite_batch
from storage.compression import NONE, ZSTD
from storage.inspection.segment_scan import BadBytes, Piece, SegmentScan
from storage.record import Record
from storage.stored_batch import StoredBatch
from tests.storage.batches import record
from tests.storage.faulty_files import FaultyFiles

PATH = "/segment.log"
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=12)
OFFSET_BYTES = 8


class Written(NamedTuple):
    """A batch, and the bytes that it takes."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def records(self) -> list[Record]:
        return StoredBatch(PATH, self.start, read_header(self.data), self.data).records()


def written(sizes: list[int], codec: int = NONE, base_offset: int = 0) -> list[Written]:
    """Batches with these numbers of records, one after the other."""
    batches: list[Written] = []
    offset, position = base_offset, 0
    for size in sizes:
        data = encode_batch([record(offset + number) for number in range(size)], offset, codec=codec)
        batches.append(Written(position, data))
        offset, position = offset + size, position + len(data)
    return batches


def scanned(data: bytes, base_offset: int = 0, end_offset: int | None = None) -> list[Piece]:
    files = FaultyFiles()
    files.write(PATH, data)
    return list(SegmentScan(files.open_read(PATH), base_offset, end_offset=end_offset).scan_pieces())


def sound(pieces: list[Piece]) -> list[StoredBatch]:
    return [piece for piece in pieces if isinstance(piece, StoredBatch)]


def bad(pieces: list[Piece]) -> list[BadBytes]:
    return [piece for piece in pieces if isinstance(piece, BadBytes)]


def joined(batches: list[Written]) -> bytes:
    return b"".join(batch.data for batch in batches)


@given(SIZES, st.sampled_from([NONE, ZSTD]), st.data())
def test_an_undamaged_segment_is_all_batches_with_or_without_gaps(
    sizes: list[int], codec: int, data: st.DataObject
) -> None:
    batches = written(sizes, codec, base_offset=100)
    kept = data.draw(st.lists(st.sampled_from(batches), unique=True)) or batches
    kept.sort()
    pieces = scanned(joined(kept), 100)
    assert bad(pieces) == []
    assert [batch.data for batch in sound(pieces)] == [batch.data for batch in kept]


@settings(max_examples=300)
@given(SIZES, st.sampled_from([NONE, ZSTD]), st.data())
def test_damage_loses_what_it_touches_and_nothing_else(
    sizes: list[int], codec: int, data: st.DataObject
) -> None:
    batches = written(sizes, codec)
    stored = bytearray(joined(batches))
    touched: set[int] = set()
    for _ in range(data.draw(st.integers(1, 3))):
        victim = data.draw(st.sampled_from(batches))
        # Base offsets have a test of their own: no checksum covers them.
        start = data.draw(st.integers(victim.start + OFFSET_BYTES, victim.end - 1))
        garbage = data.draw(st.binary(min_size=1, max_size=victim.end - start))
        stored[start : start + len(garbage)] = garbage
        touched.add(victim.start)
    pieces = scanned(bytes(stored))
    assert [piece.position for piece in pieces] == [
        0,
        *(
            piece.position + (len(piece.data) if isinstance(piece, StoredBatch) else piece.length)
            for piece in pieces
        ),
    ][:-1]
    found = {batch.position: batch for batch in sound(pieces)}
    for batch in batches:
        if batch.start not in touched:
            assert found[batch.start].data == batch.data
    everything = [item for batch in batches for item in batch.records()]
    assert all(item in everything for batch in found.values() for item in batch.records())


@given(st.lists(st.integers(1, 4), min_size=3, max_size=10), st.integers(0, 2**40), st.data())
def test_a_wrong_base_offset_loses_its_own_batch_only(
    sizes: list[int], wrong: int, data: st.DataObject
) -> None:
    batches = written(sizes)
    number = data.draw(st.integers(0, len(batches) - 3))
    victim = batches[number]
    stored = bytearray(joined(batches))
    right = read_header(victim.data).base_offset
    stored[victim.start : victim.start + OFFSET_BYTES] = struct.pack(">q", wrong)
    pieces = scanned(bytes(stored))
    expected = [batch.data for batch in batches if batch is not victim]
    if wrong == right:
        expected.insert(number, victim.data)
    assert [batch.data for batch in sound(pieces)] == expected


@pytest.mark.parametrize("part", [slice(8, 12), slice(16, 17), slice(17, 21), slice(70, 80)])
def test_a_batch_that_a_record_holds_is_never_taken_for_one_of_the_log(part: slice) -> None:
    inner = encode_batch([record(1)], 7)
    outer = encode_batch([Record(-1, 1000, b"key" * 9, inner)], 5)
    after = encode_batch([record(6)], 6)
    damaged = bytearray(outer)
    damaged[part] = bytes(byte ^ 0x55 for byte in outer[part])
    if part == slice(8, 12):
        # With the length gone, only the offsets tell: those of a batch in a record are its producer's, from 0 on.
        damaged = damaged.replace(inner, encode_batch([record(1)], 0))
    pieces = scanned(bytes(damaged) + after, 5)
    assert [batch.data for batch in sound(pieces)] == [after]
    assert [(piece.position, piece.length) for piece in bad(pieces)] == [(0, len(outer))]


@pytest.mark.parametrize("damaged_too", [False, True])
def test_a_length_that_leads_past_others_loses_its_own_batch_only(damaged_too: bool) -> None:
    """`damaged_too`: the batch behind it is damaged as well."""
    batches = written([2, 1, 3, 1, 2, 1])
    for number, batch in enumerate(batches[:-2]):
        for end in [other.end for other in batches[number + 1 :]]:
            data = bytearray(joined(batches))
            data[batch.start + 8 : batch.start + 12] = struct.pack(">i", end - batch.start - 12)
            lost = batches[number : number + 1 + damaged_too]
            if damaged_too:
                data[lost[1].end - 3] ^= 1
            pieces = scanned(bytes(data))
            assert [each.data for each in sound(pieces)] == [
                each.data for each in batches if each not in lost
            ]


def test_two_damaged_batches_are_found_one_by_one_where_the_first_repeats_offsets() -> None:
    """The batch inside a record of the first one has an offset that is due, and is not part of the log."""
    inner = encode_batch([record(1)], 3)
    first = encode_batch([record(number) for number in range(3)], 0)
    repeated = bytearray(encode_batch([record(1), Record(-1, 1000, b"key", inner)], 1))
    repeated[-1] ^= 1
    after = bytearray(encode_batch([record(3)], 3))
    after[-1] ^= 1
    last = encode_batch([record(4)], 4)
    pieces = scanned(first + bytes(repeated + after) + last)
    assert [batch.data for batch in sound(pieces)] == [first, last]
    assert [piece.length for piece in bad(pieces)] == [len(repeated), len(after)]


def test_a_segment_ends_where_the_next_one_begins() -> None:
    batches = written([1, 1, 1])
    pieces = scanned(joined(batches), end_offset=2)
    assert [batch.header.base_offset for batch in sound(pieces)] == [0, 1]
    assert [piece.position for piece in bad(pieces)] == [batches[2].start]


def test_records_that_compaction_removed_leave_sound_batches() -> None:
    batches = [read_header(batch.data) for batch in written([3, 3])]
    stored = rewrite_batch(batches[0], []) + rewrite_batch(batches[1], [record(4)._replace(offset=4)])
    assert [len(batch.records()) for batch in sound(scanned(stored))] == [0, 1]


def test_every_prefix_ends_with_an_unfinished_batch() -> None:
    batches = written([1, 2, 1])
    stored = joined(batches)
    for length in range(len(stored) + 1):
        pieces = scanned(stored[:length])
        whole = [batch for batch in batches if batch.end <= length]
        assert [batch.data for batch in sound(pieces)] == [batch.data for batch in whole]
        rest = length - len(joined(whole))
        assert [(piece.length, piece.is_incomplete) for piece in bad(pieces)] == (
            [(rest, True)] if rest else []
        )


@pytest.mark.parametrize("tail", [bytes(100), bytes(5000), b"\x02" * 300, b"\xff" * 61])
def test_a_tail_that_is_no_batch_is_not_an_unfinished_one(tail: bytes) -> None:
    batches = written([2])
    pieces = scanned(joined(batches) + tail)
    assert [batch.data for batch in sound(pieces)] == [batches[0].data]
    assert [(piece.length, piece.is_incomplete, piece.is_old_format) for piece in bad(pieces)] == [
        (len(tail), False, False)
    ]


def test_messages_of_old_brokers_are_told_from_damage() -> None:
    after_crc = struct.pack(">bbqii", 1, 0, 1000, -1, 3) + b"old"
    message = struct.pack(">I", zlib.crc32(after_crc)) + after_crc
    old = struct.pack(">qi", 0, len(message)) + message
    batch = encode_batch([record(2)], 2)
    (first, second) = scanned(old + old + batch)
    assert isinstance(first, BadBytes)
    assert (first.length, first.is_old_format) == (2 * len(old), True)
    assert isinstance(second, StoredBatch)


def test_a_scan_goes_on_where_another_ended() -> None:
    files = FaultyFiles()
    batches = written([1, 2, 1])
    files.write(PATH, joined(batches[:2]))
    file = files.open_read(PATH)
    first = SegmentScan(file, 0)
    assert len(list(first.scan_pieces())) == 2
    files.open_append(PATH).write(batches[2].data)
    assert list(first.scan_pieces()) == []
    again = SegmentScan(file, 0, position=first.position, next_offset=first.next_offset)
    assert [batch.data for batch in sound(list(again.scan_pieces()))] == [batches[2].data]
