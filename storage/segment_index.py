"""The offset index and the time index of a segment, in Kafka's layout, and both together while the segment is
in use.

    .index      relative offset int32 | position int32
    .timeindex  timestamp int64 | relative offset int32

Both are sparse. Offsets are relative to the segment's base offset. An offset entry names the last offset of a
batch and the byte at which that batch begins. A lookup finds the greatest entry not above the target, and the
reader walks on from there. A time entry means that every record with a greater timestamp comes after this
offset. Timestamps strictly increase; the time index of a closed segment ends with the segment's greatest
timestamp.

A missing or wrong index does no harm: it is checked when it is loaded, and rebuilt from the segment. The
indexes of an active segment are in memory. They are written when it is rolled or closed.

Source: Kafka's `OffsetIndex`, `TimeIndex` and `LogSegment`.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import lt
from typing import Final

from storage.files import Files, sync_file
from storage.storage_errors import CorruptBatch
from storage.stored_batch import StoredBatch

INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_TIME_ENTRY: Final = struct.Struct(">qi")


class OffsetIndex:
    """Maps offsets to positions in one segment. Both increase strictly from entry to entry."""

    __slots__ = ("_base_offset", "_positions", "_relative_offsets")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._relative_offsets = array("i")
        self._positions = array("i")

    @classmethod
    def decode(cls, base_offset: int, data: bytes, segment_bytes: int) -> "OffsetIndex | None":
        """Decode an index file. Return None if it cannot be the index of a segment of `segment_bytes` bytes.

        Trailing zeros are dropped: a broker preallocates them and leaves them when it is killed.
        """
        if len(data) % OFFSET_ENTRY_BYTES:
            return None
        numbers = array("i", data)
        if sys.byteorder == "little":
            numbers.byteswap()
        index = cls(base_offset)
        index._relative_offsets, index._positions = numbers[0::2], numbers[1::2]
        # The first batch is never indexed, so a position of 0 is preallocated space.
        while index._positions and index._positions[-1] == 0:
            index._positions.pop()
            index._relative_offsets.pop()
        return index if index._is_sane(segment_bytes) else None

    def _is_sane(self, segment_bytes: int) -> bool:
        offsets, positions = self._relative_offsets, self._positions
        if not offsets:
            return True
        if offsets[0] < 0 or positions[0] < 0 or positions[-1] >= segment_bytes:
            return False
        return all(map(lt, offsets, offsets[1:])) and all(map(lt, positions, positions[1:]))

    def encode(self) -> bytes:
        """Return the content of the index file."""
        numbers = array("i", bytes(OFFSET_ENTRY_BYTES * len(self._positions)))
        numbers[0::2] = self._relative_offsets
        numbers[1::2] = self._positions
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers.tobytes()

    def __len__(self) -> int:
        return len(self._positions)

    def append(self, last_offset: int, position: int) -> None:
        """Add an entry: the batch that ends with `last_offset` begins at `position`."""
        relative_offset = last_offset - self._base_offset
        assert 0 <= relative_offset <= MAX_RELATIVE_OFFSET
        assert not self._positions or (
            position > self._positions[-1] and relative_offset > self._relative_offsets[-1]
        )
        self._relative_offsets.append(relative_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """Return a position from which a walk finds the batch with `offset`. It is 0 if no entry is that low."""
        relative_offset = min(offset - self._base_offset, MAX_RELATIVE_OFFSET)
        entry = bisect_right(self._relative_offsets, relative_offset) - 1
        return self._positions[entry] if entry >= 0 else 0

    def find_offset_from(self, position: int) -> int | None:
        """Return the last offset of the first indexed batch that begins at `position` or later, or None.

        The very first entry must begin after `position`, because Kafka's search (`AbstractIndex.binarySearch`)
        returns it as a lower bound without a comparison.
        """
        entry = bisect_left(self._positions, position)
        if entry == 0 and self._positions and self._positions[0] == position:
            entry = 1
        return self._base_offset + self._relative_offsets[entry] if entry < len(self._positions) else None

    def last_position(self) -> int:
        """Return the position of the last indexed batch, or 0 without one."""
        return self._positions[-1] if self._positions else 0

    def last_offset(self) -> int:
        """Return the last offset of the last indexed batch, or the base offset without one."""
        return self._base_offset + (self._relative_offsets[-1] if self._relative_offsets else 0)


class TimeIndex:
    """Maps timestamps in milliseconds to offsets in one segment."""

    __slots__ = ("_base_offset", "_relative_offsets", "_timestamps_ms")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps_ms = array("q")
        self._relative_offsets = array("i")

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> "TimeIndex | None":
        """Decode a time index file. Return None if it is invalid. Trailing zeros are dropped."""
        if len(data) % TIME_ENTRY_BYTES:
            return None
        index = cls(base_offset)
        for timestamp_ms, relative_offset in _TIME_ENTRY.iter_unpack(data):
            if timestamp_ms == 0 and relative_offset == 0:
                break  # preallocated, or the timestamp 0: then the segment finds its index too short
            if timestamp_ms < 0 or relative_offset < 0:
                return None
            if index._timestamps_ms and (
                timestamp_ms <= index._timestamps_ms[-1] or relative_offset < index._relative_offsets[-1]
            ):
                return None
            index._timestamps_ms.append(timestamp_ms)
            index._relative_offsets.append(relative_offset)
        return index

    def encode(self) -> bytes:
        """Return the content of the time index file."""
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps_ms, self._relative_offsets))

    def __len__(self) -> int:
        return len(self._timestamps_ms)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry: all records later than `timestamp_ms` follow `offset`. A timestamp that is not the greatest
        is ignored.
        """
        if timestamp_ms < 0 or (self._timestamps_ms and timestamp_ms <= self._timestamps_ms[-1]):
            return
        relative_offset = offset - self._base_offset
        assert 0 <= relative_offset <= MAX_RELATIVE_OFFSET
        assert not self._relative_offsets or relative_offset >= self._relative_offsets[-1]
        self._timestamps_ms.append(timestamp_ms)
        self._relative_offsets.append(relative_offset)

    def lookup(self, timestamp_ms: int) -> int:
        """Return an offset from which a walk finds the first record at or after `timestamp_ms`."""
        # An entry means "later than", so an entry equal to the target would skip records of exactly that time.
        entry = bisect_right(self._timestamps_ms, timestamp_ms - 1) - 1
        return self._base_offset + (self._relative_offsets[entry] if entry >= 0 else 0)

    def find_last_entry(self) -> tuple[int, int]:
        """Return the greatest timestamp and its offset, or (-1, base offset) without an entry."""
        if not self._timestamps_ms:
            return -1, self._base_offset
        return self._timestamps_ms[-1], self._base_offset + self._relative_offsets[-1]


class SegmentIndexes:
    """Both indexes of one segment. They are not loaded at first: `start_empty` creates empty ones, `read`
    reads the files."""

    __slots__ = (
        "_base_offset",
        "_bytes_since_entry",
        "_files",
        "_offsets",
        "_stem",
        "_times",
        "are_loaded",
        "first_timestamp_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "size_with_next_entry",
    )

    def __init__(self, files: Files, stem: str, base_offset: int) -> None:
        """Create the indexes of a segment. `stem` is its path without a suffix."""
        self._files = files
        self._stem = stem
        self._base_offset = base_offset
        self.first_timestamp_ms = -1
        """The greatest timestamp of the first batch, -1 if unknown. The age of the segment counts from it."""
        self.size_with_next_entry = 0
        """The size of the larger index file after one more entry in each, in bytes."""
        self.start_empty()
        self.are_loaded = False

    def start_empty(self) -> None:
        """Create empty indexes, which `add_batch` fills."""
        self._set_indexes(OffsetIndex(self._base_offset), TimeIndex(self._base_offset))

    def _set_indexes(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self._offsets, self._times = offsets, times
        self.max_timestamp_ms, self.max_timestamp_offset = times.find_last_entry()
        self._bytes_since_entry = 0
        self.are_loaded = True
        self._update_size()

    def _update_size(self) -> None:
        # One entry is reserved for the greatest timestamp, which is written when the segment is sealed.
        self.size_with_next_entry = max(
            (len(self._offsets) + 1) * OFFSET_ENTRY_BYTES, (len(self._times) + 2) * TIME_ENTRY_BYTES
        )

    def add_batch(
        self, position: int, length: int, last_offset: int, max_timestamp_ms: int, index_interval_bytes: int
    ) -> None:
        """Add the next batch of the segment."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        if self._bytes_since_entry > index_interval_bytes:
            assert self.are_loaded, self._stem
            self._offsets.append(last_offset, position)
            self._times.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
            self._bytes_since_entry = 0
            self._update_size()
        self._bytes_since_entry += length

    # Lookups

    def find_position(self, offset: int) -> int:
        """Return a position from which a walk finds the batch with `offset`."""
        assert self.are_loaded, self._stem
        return self._offsets.lookup(offset)

    def find_offset_from(self, position: int) -> int | None:
        assert self.are_loaded, self._stem
        return self._offsets.find_offset_from(position)

    def find_position_before(self, timestamp_ms: int) -> int:
        """Return a position from which a walk finds the first record at or after `timestamp_ms`."""
        assert self.are_loaded, self._stem
        return self._offsets.lookup(self._times.lookup(timestamp_ms))

    # On disk

    def write(self, segment_bytes: int) -> None:
        """Add the greatest timestamp to the time index and write both files. `segment_bytes` is the segment's
        size.

        Raises OSError; both files are removed then, because a partial index could look complete.
        """
        assert self.are_loaded, self._stem
        self._times.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        assert self._times.find_last_entry()[0] == self.max_timestamp_ms, self._stem
        assert self._offsets.last_position() < segment_bytes or not len(self._offsets), self._stem
        try:
            self._files.write(self._stem + INDEX_SUFFIX, self._offsets.encode())
            self._files.write(self._stem + TIME_INDEX_SUFFIX, self._times.encode())
        except OSError:
            self.delete()
            raise

    def sync(self) -> None:
        """Make the files durable. It blocks and is safe in any thread. Raises OSError."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            sync_file(self._files, self._stem + suffix)

    def read(self, segment_bytes: int) -> bool:
        """Read both files. Return False if one is missing or cannot be the index of a segment of
        `segment_bytes` bytes."""
        index_path, time_index_path = self._stem + INDEX_SUFFIX, self._stem + TIME_INDEX_SUFFIX
        if not self._files.exists(index_path) or not self._files.exists(time_index_path):
            return False
        offsets = OffsetIndex.decode(self._base_offset, self._files.read(index_path), segment_bytes)
        times = TimeIndex.decode(self._base_offset, self._files.read(time_index_path))
        if offsets is None or times is None:
            return False
        # With an empty time index, the age of a segment with records would be unknown. If no record has a
        # timestamp, the rebuilt index is empty too.
        # vain.
        if segment_bytes and not len(times):
            return False
        self._set_indexes(offsets, times)
        return True

    def resume(self) -> int:
        """Prepare for `add_batch` of every batch from the last indexed one on. Return the position of that
        batch."""
        self._bytes_since_entry = 0
        return self._offsets.last_position()

    def check_tail(self, tail: Iterator[StoredBatch]) -> Iterator[StoredBatch]:
        """Yield the batches of `tail`, which are those from the last indexed one to the end.

        The caller adds each batch to the indexes before it takes the next one.

        Raises CorruptBatch if the indexes do not match. The last entry must be that of the first batch, and
        later batches must have the end and any greater timestamp. A Kafka broker may have indexed the last of
        several batches of one write: such an index does not match either.
        """
        entry_offset = self._offsets.last_offset() if len(self._offsets) else None
        last_offset = self._base_offset
        for batch in tail:
            last_offset = batch.header.last_offset
            is_late = batch.header.max_timestamp_ms > self.max_timestamp_ms
            if entry_offset not in (None, last_offset) or (
                is_late and last_offset < self.max_timestamp_offset
            ):
                raise CorruptBatch("differs from the indexes", batch.position)
            entry_offset = None
            yield batch
        if last_offset < self.max_timestamp_offset:
            raise CorruptBatch("ends before the time index does")

    def delete(self) -> None:
        """Remove the existing files. Raises OSError."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._files.exists(self._stem + suffix):
                self._files.unlink(self._stem + suffix)
