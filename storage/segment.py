"""One segment of a partition's log: a `.log` file of record batches and its two sparse indexes.

Two more files of its name may lie beside it: the index of aborted transactions with a marker in the segment,
and a snapshot of the producers when the segment began.

The name of a segment is its first offset in twenty digits. Only the last segment of a log is appended to; the
others are sealed. A sealed segment costs nothing until it is read: the file is opened at first use. A read
returns batches of one segment and needs its indexes. Loading them rebuilds a missing or unfit index from the
batches.

Source: Kafka's `LogSegment`.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from storage.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, MIN_BATCH_LENGTH, BatchHeader, read_header
from storage.files import File, Files, sync_file
from storage.log_config import LogConfig
from storage.producers.producer_snapshots import format_snapshot_path
from storage.segment_index import MAX_RELATIVE_OFFSET, SegmentIndexes
from storage.storage_errors import CorruptBatch, IndexesNotLoaded
from storage.stored_batch import StoredBatch, walk_file
from storage.transaction_index import (
    AbortedTransaction,
    encode_transaction_index,
    format_transaction_index_path,
)


class ReadLimits(NamedTuple):
    """Limits of a read. A read returns batches of one segment."""

    max_bytes: int
    up_to: int
    """The exclusive upper bound of the batches' base offsets."""
    min_one_batch: bool
    """Whether a first batch larger than `max_bytes` is returned as a whole."""
    is_cut: bool
    """Whether the read ends at exactly `max_bytes`, possibly within a batch. Otherwise all batches are
    complete."""


LOG_SUFFIX: Final = ".log"

_SEEK_BYTES: Final = 8 * 1024
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_STEP: Final = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")


def format_segment_name(base_offset: int) -> str:
    """Return the file name, without suffix, of the segment that starts at an offset."""
    return f"{base_offset:020d}"


class LogSegment:
    """One `.log` file and its indexes. Methods that change it belong to the log that owns it."""

    __slots__ = (
        "_directory",
        "_file",
        "_files",
        "_next_read",
        "base_offset",
        "indexes",
        "is_deleted",
        "is_synced",
        "next_offset",
        "path",
        "size",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, size: int) -> None:
        stem = f"{directory}/{format_segment_name(base_offset)}"
        self._directory = directory
        self._files = files
        self._file: File | None = None
        self._next_read = (-1, 0)
        self.path = stem + LOG_SUFFIX
        self.base_offset = base_offset
        self.size = size
        self.next_offset = base_offset
        """The minimum base offset of the next batch."""
        self.indexes = SegmentIndexes(files, stem, base_offset)
        self.is_synced = True
        self.is_deleted = False

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int) -> "LogSegment":
        """Create a new, empty segment for appends."""
        segment = cls(files, directory, base_offset, 0)
        segment._file = files.open_append(segment.path)
        assert segment._file.size() == 0, segment.path
        segment.indexes.start_empty()
        return segment

    def adopt_file(self, file: File) -> None:
        """Use an open file as the log of this segment, whatever its current name is."""
        assert self._file is None, self.path
        self._file = file

    @property
    def file(self) -> File:
        """The open `.log` file. The first use opens it."""
        if self._file is None:
            self._file = self._files.open_append(self.path)
        return self._file

    # Appending

    def is_full(self, more_bytes: int, last_offset: int, max_timestamp_ms: int, config: LogConfig) -> bool:
        """Return whether a batch with these properties must go to a new segment. An empty segment is never
        full."""
        if self.size == 0:
            return False
        indexes = self.indexes
        return (
            self.size + more_bytes > config.segment_bytes
            # A batch without a timestamp (-1) is never later than the first one.
            or (
                indexes.first_timestamp_ms >= 0
                and max_timestamp_ms - indexes.first_timestamp_ms > config.segment_ms
            )
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or indexes.size_with_next_entry > config.segment_index_bytes
        )

    def append(
        self,
        data: bytes,
        base_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
        index_interval_bytes: int,
    ) -> None:
        """Append one batch. After an OSError the file may have a part of it, which does not belong to the
        segment."""
        assert self.next_offset <= base_offset <= last_offset, (self.path, self.next_offset, base_offset)
        (self._file or self.file).write(data)
        self.is_synced = False
        size_bytes = len(data)
        self.indexes.add_batch(self.size, size_bytes, last_offset, max_timestamp_ms, index_interval_bytes)
        self.next_offset = last_offset + 1
        self.size += size_bytes

    def index_batch(
        self, position: int, length: int, last_offset: int, max_timestamp_ms: int, index_interval_bytes: int
    ) -> None:
        """Add a batch that a scan found to the indexes, as `append` does."""
        self.indexes.add_batch(position, length, last_offset, max_timestamp_ms, index_interval_bytes)
        self.next_offset = last_offset + 1

    def write_indexed_batches(self, data: bytes) -> None:
        """Append complete batches that are already in the indexes. Raises OSError."""
        (self._file or self.file).write(data)
        self.is_synced = False
        self.size += len(data)

    def start_indexes(self) -> None:
        """Start with empty indexes, which `index_batch` fills."""
        self.indexes.start_empty()
        self.next_offset = self.base_offset

    def write_indexes(self) -> None:
        """Write the indexes of all appended or noted batches."""
        self.indexes.write(self.size)

    def write_transaction_index(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Write the aborted transactions with a marker in this segment, in order. Raises OSError."""
        path, data = (
            format_transaction_index_path(self._directory, self.base_offset),
            encode_transaction_index(aborted),
        )
        if self._files.exists(path):
            if data and self._files.read(path) == data:
                return
            self._files.unlink(path)
        if data:
            self._files.write(path, data)

    def sync_indexes(self) -> None:
        """Make the index files durable. It blocks and is safe in any thread. Raises OSError."""
        if not self.size:
            return  # the indexes can be rebuilt
        self.indexes.sync()
        path = format_transaction_index_path(self._directory, self.base_offset)
        if self._files.exists(path):
            sync_file(self._files, path)

    def seal(self, *, is_synced: bool) -> None:
        """Write the complete indexes, and sync them if `is_synced`. Raises OSError."""
        assert self.file.size() == self.size, (self.path, self.size)
        self.write_indexes()
        if is_synced:
            self.sync_indexes()

    # Indexes of a segment found on disk

    def load_indexes(self, index_interval_bytes: int) -> None:
        """Read the indexes, or rebuild both if one is missing or does not match.

        Raises CorruptBatch if the scan finds bytes that are not a batch.
        """
        if not self.indexes.are_loaded and not self.indexes.read(self.size):
            self.rebuild_indexes(index_interval_bytes)

    def rebuild_indexes(self, index_interval_bytes: int) -> None:
        """Rebuild the indexes from a scan of the segment. Raises CorruptBatch; the segment then has no indexes."""
        self.start_indexes()
        try:
            for batch in self.walk():
                header, length = batch.header, len(batch.data)
                self.check_offsets(header, batch.position)
                self.index_batch(
                    batch.position, length, header.last_offset, header.max_timestamp_ms, index_interval_bytes
                )
        except CorruptBatch:
            self.indexes.are_loaded = False
            raise

    def resume(self) -> int:
        """Prepare for `index_batch` of every batch from the last indexed one on. Return the position of that
        batch."""
        self.next_offset = self.base_offset
        return self.indexes.resume()

    def check_offsets(self, header: BatchHeader, position: int) -> None:
        """Check that a batch may be the next one. No checksum covers its offset. Raises CorruptBatch."""
        base_offset = header.base_offset
        if base_offset < self.next_offset:
            reason = f"batch at offset {base_offset} where {self.next_offset} or more is due"
            raise CorruptBatch(reason, position)
        if base_offset + header.last_offset_delta - self.base_offset > MAX_RELATIVE_OFFSET:
            reason = f"offset {header.last_offset} is more than a segment of {self.base_offset} holds"
            raise CorruptBatch(reason, position)

    def find_max_timestamp_ms(self, index_interval_bytes: int) -> int:
        """Return the greatest timestamp of the records, or -1 if none has one. Raises CorruptBatch as
        `load_indexes`."""
        self.load_indexes(index_interval_bytes)
        return self.indexes.max_timestamp_ms

    def find_latest_ms(self, index_interval_bytes: int) -> int:
        """Return the time from which the age of the segment counts: its greatest timestamp, or its last
        modification (wall clock) if no record has a timestamp. In milliseconds. Raises CorruptBatch as
        `load_indexes`."""
        latest_ms = self.find_max_timestamp_ms(index_interval_bytes)
        return latest_ms if latest_ms >= 0 else self.read_modified_ms()

    def read_modified_ms(self) -> int:
        """Return the time of the last modification of the file, wall clock in milliseconds."""
        return self._files.modified_ms(self.path)

    # Reading

    def walk(self, position: int = 0, *, check: bool = False) -> Iterator[StoredBatch]:
        """Yield the batches from `position` (the start of one) to the current end of the file.

        `check` verifies checksums. Raises CorruptBatch with the position in the file, and UnsupportedMagic for
        messages of a broker before Kafka 0.11.
        """
        return walk_file(self.file, self.path, position, self.size, check)

    def find_position(self, offset: int, index_interval_bytes: int) -> int:
        """Load the indexes, which may walk the segment, and return `find_loaded_position`.

        Raises CorruptBatch for damage on the way.
        """
        self.load_indexes(index_interval_bytes)
        return self.find_loaded_position(offset)

    def find_loaded_position(self, offset: int) -> int:
        """Return the position of the first batch that ends at or after `offset`, or the segment's size.

        Raises:
            IndexesNotLoaded: the indexes are not loaded.
            CorruptBatch: for damage on the way.
        """
        next_offset, next_position = self._next_read
        if next_offset == offset and next_position <= self.size:
            return next_position
        if not self.indexes.are_loaded:
            raise IndexesNotLoaded(self.path, "the indexes are not loaded")
        position = self.indexes.find_position(offset)
        assert position <= self.size, (self.path, position, self.size)
        chunk, chunk_position = b"", position
        while position < self.size:
            local = position - chunk_position
            if local + HEADER_BYTES > len(chunk):
                chunk, chunk_position, local = self.file.pread(_SEEK_BYTES, position), position, 0
                if len(chunk) < HEADER_BYTES:
                    raise CorruptBatch(f"{len(chunk)} bytes are less than a batch header", position)
            base_offset, length, magic, last_offset_delta = _STEP.unpack_from(chunk, local)
            if magic != MAGIC or length < MIN_BATCH_LENGTH:
                try:
                    read_header(chunk, local)
                except CorruptBatch as error:
                    raise CorruptBatch(error.reason, position) from None
            if base_offset + last_offset_delta >= offset:
                return position
            position += length + LOG_OVERHEAD
        return self.size

    def read(self, offset: int, limits: ReadLimits) -> bytes:
        """Return batches from the one with `offset`, within limits, or b"" at the end. The reader must verify
        checksums.

        Raises:
            IndexesNotLoaded: the indexes are not loaded.
            CorruptBatch: for a broken structure.
        """
        max_bytes, up_to, min_one_batch, is_cut = limits
        start = self.find_loaded_position(offset)
        available = self.size - start
        if available <= 0:
            return b""
        data = self.file.pread(min(max(max_bytes, HEADER_BYTES), available), start)
        first = read_header(data)
        if first.base_offset >= up_to:
            return b""
        if first.size_bytes > max_bytes and not min_one_batch:
            return b""
        if first.size_bytes > available:
            raise CorruptBatch(f"a batch of {first.size_bytes} bytes ends after {available} bytes", start)
        if first.size_bytes > len(data):
            data = self.file.pread(first.size_bytes, start)
        last, end = 0, first.size_bytes
        limit = min(len(data), max(max_bytes, end))
        is_last = False
        while end + LOG_OVERHEAD <= limit:
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(data, end)
            if base_offset >= up_to:
                is_last = True
                break
            if length < MIN_BATCH_LENGTH:
                raise CorruptBatch(f"batch length {length} is less than a header", start + end)
            if end + LOG_OVERHEAD + length > limit:
                break
            last, end = end, end + LOG_OVERHEAD + length
        (base_offset, _) = _OFFSET_AND_LENGTH.unpack_from(data, last)
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, last + 23)
        next_offset = base_offset + delta + 1
        self._next_read = (next_offset, start + end)
        if is_cut and next_offset < up_to and not is_last:
            end = limit
        return data if end == len(data) else data[:end]

    def open_copy(self) -> "LogSegment":
        """Return a segment with the current content of this one, for reading in any thread. The caller closes
        it. It has a handle of its own on the file, and no indexes."""
        assert not self.is_deleted, self.path
        copy = LogSegment(self._files, self._directory, self.base_offset, self.size)
        copy.adopt_file(self.file.duplicate())
        return copy

    def adopt_indexes(self, copy: "LogSegment") -> None:
        """Use the indexes that a copy has loaded, unless this segment has loaded its own meanwhile or has
        changed."""
        if not (self.indexes.are_loaded or self.is_deleted) and copy.size == self.size:
            self.indexes = copy.indexes

    # Truncation and deletion

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes, the start of a batch. The caller corrects the indexes."""
        assert 0 <= size <= self.size, (self.path, size, self.size)
        self.file.truncate(size)
        assert self.file.size() == size, (self.path, size)
        self.size = size
        self.is_synced = False
        self._next_read = (-1, 0)

    def truncate_to_offset(self, offset: int, index_interval_bytes: int) -> int:
        """Remove the batches that end at or after `offset`. Return the new end offset. Raises CorruptBatch."""
        end_offset = self.base_offset
        size = self.size
        for batch in self.walk():
            if batch.header.last_offset >= offset:
                size = batch.position
                break
            end_offset = batch.header.next_offset
        self.truncate(size)
        self.rebuild_indexes(index_interval_bytes)
        assert self.next_offset == end_offset, (self.path, self.next_offset, end_offset)
        assert self.indexes.find_position(self.base_offset + MAX_RELATIVE_OFFSET) <= size, (self.path, size)
        return end_offset

    def rewrite_from(self, position: int) -> None:
        """Let the next sync write every byte from `position` on to the disk. Raises OSError."""
        if position < self.size:
            self._files.rewrite(self.path, position)
        self.is_synced = False

    def close(self) -> None:
        """Close the file. The next read opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def delete(self, *, keeps_log: bool = False) -> None:
        """Remove the files of the segment. The log is removed first, because an index without its log has no
        effect.

        `keeps_log`: remove only the indexes, because another file is about to get the name of the log.
        """
        self.is_deleted = True
        self.close()
        if not keeps_log:
            self._files.unlink(self.path)
        self.indexes.delete()
        beside = [format_transaction_index_path(self._directory, self.base_offset)]
        if not keeps_log:
            beside.append(format_snapshot_path(self._directory, self.base_offset))
        for path in filter(self._files.exists, beside):
            self._files.unlink(path)
