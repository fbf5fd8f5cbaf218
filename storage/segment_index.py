"""The two sparse indexes beside a segment, in Kafka's layout.

    .index      relative offset int32 | position int32
    .timeindex  timestamp int64 | relative offset int32

Offsets are relative to the segment's base offset. An offset entry names the last offset of a batch and the
byte at which that batch begins; the lookup finds the greatest entry not above the target, and the reader
walks on from there. A time entry says: every record with a greater timestamp comes after this offset. Its
timestamps strictly increase; a segment that is closed always ends its time index with its greatest timestamp.

An index may be missing or wrong without harm: it is checked when loaded and rebuilt from the segment. While a
segment is active its indexes live in memory; they are written when it is rolled or closed.

Source: Kafka's `OffsetIndex` and `TimeIndex`.
"""

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from typing import Final

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_TIME_ENTRY: Final = struct.Struct(">qi")


class OffsetIndex:
    """Offsets to positions, for one segment. Entries increase strictly in both."""

    __slots__ = ("_base_offset", "_positions", "_relative_offsets")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._relative_offsets = array("i")
        self._positions = array("i")

    @classmethod
    def decode(cls, base_offset: int, data: bytes, segment_bytes: int) -> "OffsetIndex | None":
        """From the bytes of an index file; None when they cannot be the index of a segment of
        `segment_bytes`.

        Zeros at the end, which a broker preallocates and leaves there when it is killed, are dropped.
        """
        if len(data) % OFFSET_ENTRY_BYTES:
            return None
        numbers = array("i", data)
        if sys.byteorder == "little":
            numbers.byteswap()
        index = cls(base_offset)
        index._relative_offsets, index._positions = numbers[0::2], numbers[1::2]
        # The first batch is never indexed, so that a position of 0 can only be preallocated space.
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
        """The bytes of the index file."""
        numbers = array("i", bytes(OFFSET_ENTRY_BYTES * len(self._positions)))
        numbers[0::2] = self._relative_offsets
        numbers[1::2] = self._positions
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers.tobytes()

    def __len__(self) -> int:
        return len(self._positions)

    def append(self, last_offset: int, position: int) -> None:
        """The batch that ends with `last_offset` begins at `position`."""
        relative_offset = last_offset - self._base_offset
        assert 0 <= relative_offset <= MAX_RELATIVE_OFFSET
        assert not self._positions or (
            position > self._positions[-1] and relative_offset > self._relative_offsets[-1]
        )
        self._relative_offsets.append(relative_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """A position from which a walk meets the batch that holds `offset`: 0 when no entry is that low."""
        relative_offset = min(offset - self._base_offset, MAX_RELATIVE_OFFSET)
        entry = bisect_right(self._relative_offsets, relative_offset) - 1
        return self._positions[entry] if entry >= 0 else 0

    def offset_from(self, position: int) -> int | None:
        """The last offset of the first indexed batch that begins at `position` or later, if there is one.

        The very first has to begin later: Kafka's search (`AbstractIndex.binarySearch`) takes it for a lower bound
        without a look.
        """
        entry = bisect_left(self._positions, position)
        if entry == 0 and self._positions and self._positions[0] == position:
            entry = 1
        return self._base_offset + self._relative_offsets[entry] if entry < len(self._positions) else None

    def last_position(self) -> int:
        """Of the last indexed batch, 0 when there is none."""
        return self._positions[-1] if self._positions else 0

    def last_offset(self) -> int:
        """Of the last indexed batch, the base offset when there is none."""
        return self._base_offset + (self._relative_offsets[-1] if self._relative_offsets else 0)


class TimeIndex:
    """Timestamps (milliseconds) to offsets, for one segment."""

    __slots__ = ("_base_offset", "_relative_offsets", "_timestamps_ms")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps_ms = array("q")
        self._relative_offsets = array("i")

    @classmethod
    def decode(cls, base_offset: int, data: bytes) -> "TimeIndex | None":
        """From the bytes of a time index file; None when they are not one. Zeros at the end are dropped."""
        if len(data) % TIME_ENTRY_BYTES:
            return None
        index = cls(base_offset)
        for timestamp_ms, relative_offset in _TIME_ENTRY.iter_unpack(data):
            if timestamp_ms == 0 and relative_offset == 0:
                break  # preallocated, or the epoch itself: then the segment finds its index too short
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
        """The bytes of the time index file."""
        return b"".join(map(_TIME_ENTRY.pack, self._timestamps_ms, self._relative_offsets))

    def __len__(self) -> int:
        return len(self._timestamps_ms)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Everything later than `timestamp_ms` follows `offset`; nothing happens unless the timestamp is
        new.
        """
        if timestamp_ms < 0 or (self._timestamps_ms and timestamp_ms <= self._timestamps_ms[-1]):
            return
        relative_offset = offset - self._base_offset
        assert 0 <= relative_offset <= MAX_RELATIVE_OFFSET
        assert not self._relative_offsets or relative_offset >= self._relative_offsets[-1]
        self._timestamps_ms.append(timestamp_ms)
        self._relative_offsets.append(relative_offset)

    def lookup(self, timestamp_ms: int) -> int:
        """An offset from which a walk meets the first record at or after `timestamp_ms`."""
        # Entries say "later than": an entry equal to the target would skip records of exactly that time.
        entry = bisect_right(self._timestamps_ms, timestamp_ms - 1) - 1
        return self._base_offset + (self._relative_offsets[entry] if entry >= 0 else 0)

    def last(self) -> tuple[int, int]:
        """Greatest timestamp and its offset: (-1, base offset) when there is no entry."""
        if not self._timestamps_ms:
            return -1, self._base_offset
        return self._timestamps_ms[-1], self._base_offset + self._relative_offsets[-1]
