"""The segments of one log, in order of their offsets: the only thing that names them.

All but the last are sealed; the last, the active one, is appended to. A segment holds the offsets from its base
offset to the next one's. Deletion, truncation and compaction change files first and this list after, or the other
way round, whichever order a crash in between leaves harmless.

Source: Kafka's `LogSegments`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from storage.errors import CorruptBatch, LogDamaged
from storage.read_limits import ReadLimits
from storage.segment import Segment
from storage.stored_batch import StoredBatch
from storage.walk import walk_segments

_base_offset = attrgetter("base_offset")


class LogSegments:
    """At least one. What reads raises LogDamaged, with file and position, where it meets damage."""

    __slots__ = ("_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self.active = segments[-1]
        offsets = [segment.base_offset for segment in segments]
        assert all(before < after for before, after in pairwise(offsets)), offsets

    @property
    def all(self) -> tuple[Segment, ...]:
        """From the oldest to the active one."""
        return tuple(self._segments)

    @property
    def size_bytes(self) -> int:
        """Of all together."""
        return sum(segment.size for segment in self._segments)

    def unsynced(self) -> list[Segment]:
        """Those that hold unsynced bytes, from the oldest.

        Below a synced segment all are synced, save that the active one may still be empty.
        """
        found: list[Segment] = []
        for segment in reversed(self._segments):
            if not segment.is_synced:
                found.insert(0, segment)
            elif segment is not self.active:
                break
        return found

    # Reading

    def _from(self, offset: int) -> list[Segment]:
        """The one that holds an offset, and all after it."""
        if offset >= self.active.base_offset:
            return [self.active]
        return self._segments[max(0, bisect_right(self._segments, offset, key=_base_offset) - 1) :]

    def read(self, offset: int, limits: ReadLimits, index_interval_bytes: int) -> bytes:
        """Batches of one segment, as `Segment.read` gives them; b"" where there are none up to the end."""
        for segment in self._from(offset):
            try:
                data = segment.read(offset, limits, index_interval_bytes)
            except CorruptBatch as error:
                raise LogDamaged(segment.path, error.reason, error.position) from error
            # Compaction may have left nothing from this offset to the end of its segment.
            if data or segment.position_of(offset, index_interval_bytes) < segment.size:
                return data
        return b""

    def bound_of_read(self, offset: int, size_bytes: int, end_offset: int, index_interval_bytes: int) -> int:
        """As `ReadableLog.bound_of_read`. In: where the log ends now."""
        following = self._from(offset)
        while following:
            segment, *following = following
            try:
                position = segment.position_of(offset, index_interval_bytes)
            except CorruptBatch as error:
                raise LogDamaged(segment.path, error.reason, error.position) from error
            if position < segment.size:
                bound = segment.indexes.offset_from(position + size_bytes)
                if bound is not None:
                    return bound
                break
        return following[0].base_offset if following else end_offset

    def size_from(self, offset: int, index_interval_bytes: int) -> int:
        """How many bytes the batches have that end at or after an offset. Raises LogDamaged."""
        first, *following = self._from(offset)
        try:
            size = first.size - first.position_of(offset, index_interval_bytes)
        except CorruptBatch as error:
            raise LogDamaged(first.path, error.reason, error.position) from error
        return size + sum(segment.size for segment in following)

    def batches(self, from_offset: int, end_offset: int, index_interval_bytes: int) -> Iterator[StoredBatch]:
        """Every batch that ends at or after an offset. In: where the log ends now."""
        return walk_segments(self._from(from_offset), from_offset, end_offset, index_interval_bytes)

    # Changing

    def add(self, segment: Segment) -> None:
        """Makes a new, empty segment the active one; what came before is sealed."""
        assert self.active.base_offset < segment.base_offset, segment.path
        self._segments.append(segment)
        self.active = segment
        assert self.unsynced() == [each for each in self._segments if not each.is_synced], segment.path

    def remove_first(self, count: int) -> None:
        """Removes the oldest, their files first. Raises OSError; those before the one in question are gone then."""
        assert 0 <= count < len(self._segments), (count, len(self._segments))
        for segment in self._segments[:count]:
            segment.delete()
            self._segments.remove(segment)

    def cut_at(self, offset: int, index_interval_bytes: int) -> int:
        """Removes the batches that end at or after an offset; returns the new end. Raises OSError."""
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._segments.pop().delete()
        active = self.active = self._segments[-1]
        try:
            end_offset = active.cut_at(offset, index_interval_bytes)
        except CorruptBatch as error:
            raise LogDamaged(active.path, error.reason, error.position) from error
        assert active.base_offset <= end_offset <= offset, (active.path, end_offset, offset)
        return end_offset

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Puts one in the place of sealed neighbours, in this list; the files are the caller's."""
        first = self._segments.index(old[0])
        following = first + len(old)
        assert self._segments[first:following] == list(old), new.path
        assert self.active not in old, new.path
        assert new.base_offset == old[0].base_offset, new.path
        assert new.base_offset <= new.next_offset <= self._segments[following].base_offset, new.path
        assert new.is_synced, new.path
        self._segments[first:following] = [new]

    def close(self, *, is_deleted: bool = False) -> None:
        """Closes the files. Reading opens them again. In: whether they are about to go."""
        for segment in self._segments:
            segment.is_deleted |= is_deleted
            segment.close()
