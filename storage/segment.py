"""One segment of a partition's log: a `.log` file of record batches and its two sparse indexes.

A segment is named by the offset it starts at, in twenty digits. Only the last segment of a log is appended
to; the others are sealed. A sealed segment costs nothing until it is read: file handle and indexes load on
first use, and an index that is missing or does not fit is rebuilt from the batches.

Walking is strict. Whatever does not read as a batch raises CorruptBatch with its position in this file;
whether that means a torn tail or damage is for the log to say, which knows what was synced.

Source: Kafka's `LogSegment`.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from storage.batch import (
    CRC_FROM,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    check_crc,
    decode_records,
    is_old_message,
    read_header,
)
from storage.checksum import crc32c
from storage.errors import CorruptBatch, UnsupportedMagic
from storage.files import File, Files
from storage.index import MAX_RELATIVE_OFFSET, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from storage.log_config import LogConfig
from storage.record import Record

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
MAX_SEGMENT_BYTES: Final = 2**31 - 1

_CHUNK_BYTES: Final = 1024 * 1024
_SEEK_BYTES: Final = 8 * 1024
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_STEP: Final = struct.Struct(">qi4xb6xi")  # base offset, batch length, magic, last offset delta
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")


def segment_name(base_offset: int) -> str:
    """The file name, without suffix, of the segment that starts at an offset."""
    return f"{base_offset:020d}"


class StoredBatch(NamedTuple):
    """One batch as it lies in a segment."""

    path: str
    position: int
    """Of its first byte in the file."""
    header: BatchHeader
    data: bytes

    def records(self) -> list[Record]:
        """Its records, unpacked and decoded; raises CorruptBatch."""
        return decode_records(self.data, self.header)


class Segment:
    """One `.log` file and its indexes. Mutators belong to the log that owns it."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_file",
        "_files",
        "_next_read",
        "_offset_index",
        "_stem",
        "_time_index",
        "base_offset",
        "first_timestamp_ms",
        "is_deleted",
        "is_synced",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "size",
    )

    def __init__(self, files: Files, directory: str, base_offset: int, size: int) -> None:
        self._files = files
        self._stem = f"{directory}/{segment_name(base_offset)}"
        self._file: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._bytes_since_index_entry = 0
        self._next_read = (-1, 0)
        self.base_offset = base_offset
        self.size = size
        self.first_timestamp_ms = -1
        """Greatest timestamp of the first batch, -1 while unknown; the segment's age counts from it."""
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = base_offset
        self.is_synced = True
        self.is_deleted = False

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int) -> "Segment":
        """A new, empty segment, ready to be appended to."""
        segment = cls(files, directory, base_offset, 0)
        segment._file = files.open_append(segment.path)
        assert segment._file.size() == 0, segment.path
        segment.start_indexes()
        return segment

    def adopt(self, file: File) -> None:
        """Uses an open file as its log, whatever that is called on disk by now."""
        assert self._file is None, self.path
        self._file = file

    @property
    def path(self) -> str:
        """Of the `.log` file."""
        return self._stem + LOG_SUFFIX

    @property
    def file(self) -> File:
        """The open `.log` file."""
        if self._file is None:
            self._file = self._files.open_append(self.path)
        return self._file

    # Appending

    def is_full(self, more_bytes: int, last_offset: int, max_timestamp_ms: int, config: LogConfig) -> bool:
        """Whether a batch with these properties belongs into a new segment. An empty segment is never
        full.
        """
        if self.size == 0:
            return False
        offset_index, time_index = self._offset_index, self._time_index
        assert offset_index is not None
        assert time_index is not None
        return (
            self.size + more_bytes > min(config.segment_bytes, MAX_SEGMENT_BYTES)
            # A batch without a time (-1) is never later than the first.
            or (
                self.first_timestamp_ms >= 0
                and max_timestamp_ms - self.first_timestamp_ms > config.segment_ms
            )
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            or (len(offset_index) + 1) * OFFSET_ENTRY_BYTES > config.segment_index_bytes
            # One entry is kept back for the greatest timestamp, written when the segment is sealed.
            or (len(time_index) + 2) * TIME_ENTRY_BYTES > config.segment_index_bytes
        )

    def append(self, data: bytes, last_offset: int, max_timestamp_ms: int, index_interval_bytes: int) -> None:
        """Writes one batch at the end. After an OSError the file may hold a part of it; the segment does
        not.
        """
        self.file.write(data)
        self.is_synced = False
        self.note(self.size, len(data), last_offset, max_timestamp_ms, index_interval_bytes)
        self.size += len(data)

    def note(
        self, position: int, length: int, last_offset: int, max_timestamp_ms: int, index_interval_bytes: int
    ) -> None:
        """Takes one batch, appended or found in a scan, into the indexes."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if position == 0:
            self.first_timestamp_ms = max_timestamp_ms
        if self._bytes_since_index_entry > index_interval_bytes:
            assert self._offset_index is not None
            assert self._time_index is not None
            self._offset_index.append(last_offset, position)
            self._time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += length

    def start_indexes(self) -> None:
        """Empty indexes, to be filled by `note`."""
        self._offset_index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self._bytes_since_index_entry = 0
        self.max_timestamp_ms = -1
        self.max_timestamp_offset = self.base_offset

    def write_indexes(self) -> None:
        """Completes the time index with the greatest timestamp and writes both index files."""
        assert self._offset_index is not None
        assert self._time_index is not None
        self._time_index.maybe_append(self.max_timestamp_ms, self.max_timestamp_offset)
        self._files.write(self._stem + INDEX_SUFFIX, self._offset_index.encode())
        self._files.write(self._stem + TIME_INDEX_SUFFIX, self._time_index.encode())

    def sync_indexes(self) -> None:
        """Makes the index files durable; blocks, safe in any thread. Raises OSError."""
        if not self.size:
            return  # nothing is lost with them
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            file = self._files.open_read(self._stem + suffix)
            try:
                file.fdatasync()
            finally:
                file.close()

    # Indexes of a segment found on disk

    def load_indexes(self, index_interval_bytes: int) -> bool:
        """Reads the indexes, or rebuilds both when one is missing or does not fit. True when they were read.

        Raises CorruptBatch when the rebuilding scan meets bytes that are no batch.
        """
        if self._offset_index is not None:
            return True
        if self._read_indexes():
            return True
        self.rebuild_indexes(index_interval_bytes)
        return False

    def _read_indexes(self) -> bool:
        index_path, time_index_path = self._stem + INDEX_SUFFIX, self._stem + TIME_INDEX_SUFFIX
        if not self._files.exists(index_path) or not self._files.exists(time_index_path):
            return False
        offset_index = OffsetIndex.decode(self.base_offset, self._files.read(index_path), self.size)
        time_index = TimeIndex.decode(self.base_offset, self._files.read(time_index_path))
        if offset_index is None or time_index is None:
            return False
        # An empty time index would make a segment of records ageless; one without any timestamp is rebuilt in
        # vain.
        if self.size and not len(time_index):
            return False
        self._offset_index, self._time_index = offset_index, time_index
        self.max_timestamp_ms, self.max_timestamp_offset = time_index.last()
        return True

    def rebuild_indexes(self, index_interval_bytes: int) -> None:
        """Scans the whole segment for its indexes. Raises CorruptBatch; the indexes then end where it
        stands.
        """
        self.start_indexes()
        for batch in self.walk():
            header = batch.header
            self.note(
                batch.position,
                len(batch.data),
                header.last_offset,
                header.max_timestamp_ms,
                index_interval_bytes,
            )

    # Reading

    def walk(self, position: int = 0, *, check: bool = False) -> Iterator[StoredBatch]:
        """The batches from `position` (the start of one) to the end of the file as it is now.

        `check` verifies checksums. Raises CorruptBatch with the position in the file; UnsupportedMagic for
        what a broker before Kafka 0.11 wrote.
        """
        end, path, file = self.size, self.path, self.file
        chunk, chunk_position = b"", position
        while position < end:
            local = position - chunk_position
            if len(chunk) - local < HEADER_BYTES:
                chunk, chunk_position, local = file.pread(_CHUNK_BYTES, position), position, 0
            try:
                header = read_header(chunk, local)
            except CorruptBatch as error:
                raise self._unreadable(error, position) from None
            size = header.batch_length + LENGTH_END
            if position + size > end:
                raise CorruptBatch(f"a batch of {size} bytes ends after {end - position} bytes", position)
            if local + size > len(chunk):
                chunk, chunk_position = file.pread(max(size, _CHUNK_BYTES), position), position
                local = 0
            data = chunk[local : local + size]
            if (check and crc32c(data[CRC_FROM:]) != header.crc) or len(data) < size:
                try:
                    check_crc(data, 0, header)
                except CorruptBatch as error:
                    raise CorruptBatch(error.reason, position) from None
            yield StoredBatch(path, position, header, data)
            position += size

    def _unreadable(self, error: CorruptBatch, position: int) -> CorruptBatch:
        """What to raise for bytes that are no batch: UnsupportedMagic only for whole old messages."""
        if isinstance(error, UnsupportedMagic) and is_old_message(self.file.pread(_CHUNK_BYTES, position)):
            return UnsupportedMagic(error.magic, position)
        return CorruptBatch(error.reason, position)

    def position_of(self, offset: int, index_interval_bytes: int) -> int:
        """Where the first batch begins that ends at or after `offset`; the segment's size when none does.

        Raises CorruptBatch when the way there is damaged.
        """
        next_offset, next_position = self._next_read
        if next_offset == offset and next_position <= self.size:
            return next_position
        self.load_indexes(index_interval_bytes)
        assert self._offset_index is not None
        position = self._offset_index.lookup(offset)
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
            position += length + LENGTH_END
        return self.size

    def read(
        self,
        offset: int,
        max_bytes: int,
        up_to: int,
        min_one_batch: bool,
        is_cut: bool,
        index_interval_bytes: int,
    ) -> bytes:
        """Batches from the one that holds `offset`, at most `max_bytes`, none that begins at `up_to` or later.

        They are whole, or with `is_cut` end at that many bytes, amid a batch or not. With `min_one_batch` a
        first batch larger than `max_bytes` comes whole. Raises CorruptBatch when the segment's structure is
        broken there; checksums are the reader's to verify.
        """
        start = self.position_of(offset, index_interval_bytes)
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
        while end + LENGTH_END <= limit:
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(data, end)
            if base_offset >= up_to:
                is_last = True
                break
            if length < MIN_BATCH_LENGTH:
                raise CorruptBatch(f"batch length {length} is less than a header", start + end)
            if end + LENGTH_END + length > limit:
                break
            last, end = end, end + LENGTH_END + length
        (base_offset, _) = _OFFSET_AND_LENGTH.unpack_from(data, last)
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, last + 23)
        next_offset = base_offset + delta + 1
        self._next_read = (next_offset, start + end)
        if is_cut and next_offset < up_to and not is_last:
            end = limit
        return data if end == len(data) else data[:end]

    def position_before(self, timestamp_ms: int, index_interval_bytes: int) -> int:
        """A position from which a walk meets the first record at or after `timestamp_ms`."""
        self.load_indexes(index_interval_bytes)
        assert self._offset_index is not None
        assert self._time_index is not None
        return self._offset_index.lookup(self._time_index.lookup(timestamp_ms))

    def resume(self) -> int:
        """Prepares for `note` of every batch from the position returned, that of the last indexed one."""
        assert self._offset_index is not None
        self._bytes_since_index_entry = 0
        return self._offset_index.last_position()

    def modified_ms(self) -> int:
        """When the file last changed, wall clock: the age of a segment whose records carry no time."""
        return self._files.modified_ms(self.path)

    # Shrinking and going

    def truncate(self, size: int) -> None:
        """Cuts the file to `size`, where a batch began. The indexes are the caller's to set right."""
        self.file.truncate(size)
        self.size = size
        self.is_synced = False
        self._next_read = (-1, 0)

    def cut_at(self, offset: int, index_interval_bytes: int) -> int:
        """Removes the batches that end at or after `offset`; returns the new end. Raises CorruptBatch."""
        end_offset = self.base_offset
        size = self.size
        for batch in self.walk():
            if batch.header.last_offset >= offset:
                size = batch.position
                break
            end_offset = batch.header.next_offset
        self.truncate(size)
        self.rebuild_indexes(index_interval_bytes)
        return end_offset

    def write_anew(self, position: int) -> None:
        """Has the next sync take every byte from `position` on to the disk. Raises OSError."""
        if position < self.size:
            self._files.rewrite(self.path, position)
        self.is_synced = False

    def close(self) -> None:
        """Closes the file. Reading opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def delete(self, *, keeps_log: bool = False) -> None:
        """Removes the three files, the log first: an index without its log means nothing.

        `keeps_log`: only the indexes; another file is about to take the log's name.
        """
        self.is_deleted = True
        self.close()
        if not keeps_log:
            self._files.unlink(self.path)
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self._files.exists(self._stem + suffix):
                self._files.unlink(self._stem + suffix)
