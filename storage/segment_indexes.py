"""Both indexes of one segment, and the times of its records.

While a segment is appended to they live in memory; they are written when it is sealed or closed, and read again, or
made anew from its batches, when somebody looks into it. `index.py` says what the files hold.

Source: Kafka's `LogSegment`, which keeps them beside its file.
"""

from collections.abc import Iterator
from typing import Final

from storage.errors import CorruptBatch
from storage.files import Files, sync_file
from storage.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from storage.stored_batch import StoredBatch

INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"


class SegmentIndexes:
    """Not loaded at first: `start` makes empty ones, `read` those on disk."""

    __slots__ = (
        "_base_offset",
        "_bytes_since_entry",
        "_files",
        "_offsets",
        "_stem",
        "_times",
        "are_loaded",
        "bytes_with_next",
        "first_timestamp_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
    )

    def __init__(self, files: Files, stem: str, base_offset: int) -> None:
        """In: the path of the segment without its suffix."""
        self._files = files
        self._stem = stem
        self._base_offset = base_offset
        self.first_timestamp_ms = -1
        """Greatest timestamp of the first batch, -1 while unknown; the segment's age counts from it."""
        self.bytes_with_next = 0
        """Of the larger file, had both one more entry."""
        self.start()
        self.are_loaded = False

    def start(self) -> None:
        """Empty ones, to be filled by `note`."""
        self._set(OffsetIndex(self._base_offset), TimeIndex(self._base_offset))

    def _set(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self._offsets, self._times = offsets, times
        self.max_timestamp_ms, self.max_timestamp_offset = times.last()
        self._bytes_since_entry = 0
        self.are_loaded = True
        self._count()

    def _count(self) -> None:
        # One entry is kept back for the greatest timestamp, written when the segment is sealed.
        self.bytes_with_next = max(
            (len(self._offsets) + 1) * OFFSET_ENTRY_BYTES, (len(self._times) + 2) * TIME_ENTRY_BYTES
        )

    def note(
        self, position: int, length: int, last_offset: int, max_timestamp_ms: int, index_interval_bytes: int
    ) -> None:
        """Takes one batch, the next of the segment."""
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
            self._count()
        self._bytes_since_entry += length

    # Looking something up

    def position_of(self, offset: int) -> int:
        """A position from which a walk meets the batch that holds `offset`."""
        assert self.are_loaded, self._stem
        return self._offsets.lookup(offset)

    def offset_from(self, position: int) -> int | None:
        """As `OffsetIndex.offset_from`."""
        assert self.are_loaded, self._stem
        return self._offsets.offset_from(position)

    def position_before(self, timestamp_ms: int) -> int:
        """A position from which a walk meets the first record at or after `timestamp_ms`."""
        assert self.are_loaded, self._stem
        return self._offsets.lookup(self._times.lookup(timestamp_ms))

    # On disk

    def write(self, segment_bytes: int) -> None:
        """Completes the time index with the greatest timestamp and writes both files. In: the segment's size.

        Raises OSError; there are no files then, as half an index might pass for a whole one.
        """
        assert self.are_loaded, self._stem
        self._times.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        assert self._times.last()[0] == self.max_timestamp_ms, self._stem
        assert self._offsets.last_position() < segment_bytes or not len(self._offsets), self._stem
        try:
            self._files.write(self._stem + INDEX_SUFFIX, self._offsets.encode())
            self._files.write(self._stem + TIME_INDEX_SUFFIX, self._times.encode())
        except OSError:
            self.delete()
            raise

    def sync(self) -> None:
        """Makes the files durable; blocks, safe in any thread. Raises OSError."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            sync_file(self._files, self._stem + suffix)

    def read(self, segment_bytes: int) -> bool:
        """Loads both files. False where one is missing or cannot be the index of a segment of that size."""
        index_path, time_index_path = self._stem + INDEX_SUFFIX, self._stem + TIME_INDEX_SUFFIX
        if not self._files.exists(index_path) or not self._files.exists(time_index_path):
            return False
        offsets = OffsetIndex.decode(self._base_offset, self._files.read(index_path), segment_bytes)
        times = TimeIndex.decode(self._base_offset, self._files.read(time_index_path))
        if offsets is None or times is None:
            return False
        # An empty time index would make a segment of records ageless; one without any timestamp is rebuilt in
        # vain.
        if segment_bytes and not len(times):
            return False
        self._set(offsets, times)
        return True

    def resume(self) -> int:
        """Prepares for `note` of every batch from the position returned, that of the last indexed one."""
        self._bytes_since_entry = 0
        return self._offsets.last_position()

    def fitting(self, tail: Iterator[StoredBatch]) -> Iterator[StoredBatch]:
        """The same batches, each to be noted before the next. In: those from the last indexed one to the end.

        Raises CorruptBatch when what was read cannot be their indexes: the last entry has to be of the first of
        them; what is later than the greatest timestamp, and the end, has to come after it. A broker may have named
        the last of several batches that it wrote at once: no fit either.
        """
        entry_offset = self._offsets.last_offset() if len(self._offsets) else None
        last_offset = self._base_offset
        for batch in tail:
            last_offset = batch.header.last_offset
            is_late = batch.header.max_timestamp_ms > self.max_timestamp_ms
            if entry_offset not in (None, last_offset) or (
                is_late and last_offset < self.max_timestamp_offset
            ):
                raise CorruptBatch("is not what the indexes say", batch.position)
            entry_offset = None
            yield batch
        if last_offset < self.max_timestamp_offset:
            raise CorruptBatch("ends before the time index does")

    def delete(self) -> None:
        """Removes the files, as far as they are there. Raises OSError."""
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._files.exists(self._stem + suffix):
                self._files.unlink(self._stem + suffix)
