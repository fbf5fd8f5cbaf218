"""The segments of one log in order of their offsets, and walks across segments.

All but the last are sealed; the last one, the active segment, is appended to. A segment holds the offsets from
its base offset to that of the next. Deletion, truncation and compaction choose the order of the changes of
files and list so that a crash in between is harmless. A walk verifies checksums and offsets, and accepts the
gaps and empty batches that compaction leaves.

Source: Kafka's `LogSegments`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from storage.segment import LogSegment, ReadLimits
from storage.storage_errors import CorruptBatch, LogDamaged
from storage.stored_batch import StoredBatch

_get_base_offset = attrgetter("base_offset")


class LogSegments:
    """The segments of one log, at least one. Methods that read raise LogDamaged with file and position for
    damaged bytes."""

    __slots__ = ("_segments", "active")

    def __init__(self, segments: list[LogSegment]) -> None:
        self._segments = segments
        self.active = segments[-1]
        offsets = [segment.base_offset for segment in segments]
        assert all(before < after for before, after in pairwise(offsets)), offsets

    @property
    def all(self) -> tuple[LogSegment, ...]:
        """Return the segments from the oldest to the active one."""
        return tuple(self._segments)

    @property
    def size_bytes(self) -> int:
        """Return the size of all segments in bytes."""
        return sum(segment.size for segment in self._segments)

    def find_unsynced(self) -> list[LogSegment]:
        """Return the segments with unsynced bytes, from the oldest.

        All segments before a synced one are synced, except that the active one may still be empty.
        """
        found: list[LogSegment] = []
        for segment in reversed(self._segments):
            if not segment.is_synced:
                found.insert(0, segment)
            elif segment is not self.active:
                break
        return found

    # Reading

    def _find_segments_from(self, offset: int) -> list[LogSegment]:
        """Return the segment with an offset, and all later ones."""
        if offset >= self.active.base_offset:
            return [self.active]
        return self._segments[max(0, bisect_right(self._segments, offset, key=_get_base_offset) - 1) :]

    def find_segment(self, offset: int, end_offset: int) -> tuple[LogSegment, int]:
        """Return the segment with an offset, and the offset at which the next one begins.

        `end_offset` is the end of the log, and so of the active segment.
        """
        if offset >= self.active.base_offset:
            return self.active, end_offset
        number = max(0, bisect_right(self._segments, offset, key=_get_base_offset) - 1)
        return self._segments[number], self._segments[number + 1].base_offset

    def read(self, offset: int, limits: ReadLimits) -> bytes:
        """Return batches of one segment, as `LogSegment.read` does, or b"" at the end. Raises IndexesNotLoaded."""
        for segment in self._find_segments_from(offset):
            try:
                data = segment.read(offset, limits)
            except CorruptBatch as error:
                raise LogDamaged(segment.path, error.reason, error.position) from error
            # Compaction may have removed all batches from this offset to the end of its segment.
            if data or segment.find_loaded_position(offset) < segment.size:
                return data
        return b""

    def find_upper_bound_offset(
        self, offset: int, size_bytes: int, end_offset: int, index_interval_bytes: int
    ) -> int:
        """Return an offset after all batches that a read of `size_bytes` from `offset` has returned.

        `end_offset` is the current end of the log. Raises LogDamaged.
        """
        following = self._find_segments_from(offset)
        while following:
            segment, *following = following
            try:
                position = segment.find_position(offset, index_interval_bytes)
            except CorruptBatch as error:
                raise LogDamaged(segment.path, error.reason, error.position) from error
            if position < segment.size:
                bound = segment.indexes.find_offset_from(position + size_bytes)
                if bound is not None:
                    return bound
                break
        return following[0].base_offset if following else end_offset

    def count_bytes_from(self, offset: int, index_interval_bytes: int) -> int:
        """Return the size of the batches that end at or after an offset. Raises LogDamaged."""
        first, *following = self._find_segments_from(offset)
        try:
            size = first.size - first.find_position(offset, index_interval_bytes)
        except CorruptBatch as error:
            raise LogDamaged(first.path, error.reason, error.position) from error
        return size + sum(segment.size for segment in following)

    def iterate_batches(
        self, from_offset: int, end_offset: int, index_interval_bytes: int
    ) -> Iterator[StoredBatch]:
        """Yield every batch that ends at or after an offset. `end_offset` is the current end of the log."""
        return walk_segments(
            self._find_segments_from(from_offset), from_offset, end_offset, index_interval_bytes
        )

    # Changing

    def add_active(self, segment: LogSegment) -> None:
        """Make a new, empty segment the active one. All others are sealed."""
        assert self.active.base_offset < segment.base_offset, segment.path
        self._segments.append(segment)
        self.active = segment
        assert self.find_unsynced() == [each for each in self._segments if not each.is_synced], segment.path

    def remove_first(self, count: int) -> None:
        """Remove the oldest segments, their files first. Raises OSError; the segments before the failed one are
        removed."""
        assert 0 <= count < len(self._segments), (count, len(self._segments))
        for segment in self._segments[:count]:
            segment.delete()
            self._segments.remove(segment)

    def truncate_to_offset(self, offset: int, index_interval_bytes: int) -> int:
        """Remove the batches that end at or after an offset. Return the new end offset. Raises OSError."""
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._segments.pop().delete()
        active = self.active = self._segments[-1]
        try:
            end_offset = active.truncate_to_offset(offset, index_interval_bytes)
        except CorruptBatch as error:
            raise LogDamaged(active.path, error.reason, error.position) from error
        assert active.base_offset <= end_offset <= offset, (active.path, end_offset, offset)
        return end_offset

    def replace(self, old: Sequence[LogSegment], new: LogSegment) -> None:
        """Replace adjacent sealed segments by one, in this list only. The caller replaces the files."""
        first = self._segments.index(old[0])
        following = first + len(old)
        assert self._segments[first:following] == list(old), new.path
        assert self.active not in old, new.path
        assert new.base_offset == old[0].base_offset, new.path
        assert new.base_offset <= new.next_offset <= self._segments[following].base_offset, new.path
        assert new.is_synced, new.path
        self._segments[first:following] = [new]

    def close(self, *, is_deleted: bool = False) -> None:
        """Close the files. Reads open them again. `is_deleted`: the files are about to be removed."""
        for segment in self._segments:
            segment.is_deleted |= is_deleted
            segment.close()


def walk_segments(
    segments: Sequence[LogSegment], from_offset: int, end_offset: int, index_interval_bytes: int
) -> Iterator[StoredBatch]:
    """Yield the batches that end at or after `from_offset`, with verified checksums and offsets.

    `segments` are neighbours. `end_offset` is the current end of the last one; later appends are not
    included. Gaps and empty batches of compaction are normal. Raises LogDamaged with file and position.
    """
    return _walk_segments(segments, segments[-1].size, from_offset, end_offset, index_interval_bytes)


def _walk_segments(
    segments: Sequence[LogSegment],
    end_position: int,
    from_offset: int,
    end_offset: int,
    index_interval_bytes: int,
) -> Iterator[StoredBatch]:
    expected_offset = 0
    for segment in segments:
        try:
            position = 0
            if segment.base_offset < from_offset:
                position = segment.find_position(from_offset, index_interval_bytes)
            expected_offset = max(expected_offset, segment.base_offset)
            for batch in segment.walk(position, check=True):
                if segment is segments[-1] and batch.position >= end_position:
                    return  # appended after the walk began
                header = batch.header
                next_offset = header.base_offset + header.last_offset_delta + 1
                check_batch_offsets(
                    header.base_offset, next_offset, expected_offset, end_offset, batch.position
                )
                expected_offset = next_offset
                yield batch
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error


def check_batch_offsets(
    base_offset: int, next_offset: int, expected_offset: int, end_offset: int, position: int
) -> None:
    """Raise CorruptBatch for a batch whose offset does not fit its position. No checksum covers the offset."""
    if base_offset < expected_offset:
        raise CorruptBatch(f"offset {base_offset} is a duplicate", position)
    if next_offset > end_offset:
        raise CorruptBatch(f"offset {next_offset - 1} is past the end, {end_offset}", position)
