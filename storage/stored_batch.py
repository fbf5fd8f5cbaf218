"""Reads consecutive batches of a file.

Any invalid bytes raise CorruptBatch with their position in the file. The log knows its synced offset, and
decides between a torn tail and damage.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from storage.batch import (
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    check_crc,
    decode_records,
    decompress_records,
    is_old_message,
    read_header,
)
from storage.checksum import crc32c
from storage.files import File
from storage.record import Record
from storage.record_scan import scan_records
from storage.storage_errors import CorruptBatch, UnsupportedMagic

_CHUNK_BYTES: Final = 1024 * 1024


class StoredBatch(NamedTuple):
    """One batch as it lies in a segment."""

    path: str
    position: int
    """The position of the batch's first byte in the file."""
    header: BatchHeader
    data: bytes

    def times(self) -> Iterator[tuple[int, int]]:
        """Yield timestamp and offset of each record, without creating records. Raises CorruptBatch."""
        header = self.header
        append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
        section = decompress_records(self.data, header)
        for offset_delta, timestamp_delta, _ in scan_records(section, header.records_count):
            time_ms = header.base_timestamp_ms + timestamp_delta if append_time_ms is None else append_time_ms
            yield time_ms, header.base_offset + offset_delta

    def records(self) -> list[Record]:
        """Return the decompressed and decoded records. Raises CorruptBatch."""
        return decode_records(self.data, self.header)


def walk_file(file: File, path: str, position: int, end: int, check: bool) -> Iterator[StoredBatch]:
    """Yield the batches from one position (the begin of a batch) to another.

    `path` names the file in errors. `check` verifies checksums. Raises CorruptBatch with the position in the
    file, and UnsupportedMagic for batches from before Kafka 0.11.
    """
    assert 0 <= position <= end, (path, position, end)
    chunk, chunk_position = b"", position
    while position < end:
        local = position - chunk_position
        if len(chunk) - local < HEADER_BYTES:
            chunk, chunk_position, local = file.pread(_CHUNK_BYTES, position), position, 0
        try:
            header = read_header(chunk, local)
        except CorruptBatch as error:
            raise _unreadable(file, error, position) from None
        size = header.batch_length + LOG_OVERHEAD
        if position + size > end:
            raise CorruptBatch(f"a batch of {size} bytes ends after {end - position} bytes", position)
        if local + size > len(chunk):
            chunk, chunk_position = file.pread(max(size, _CHUNK_BYTES), position), position
            local = 0
        data = chunk[local : local + size]
        if (check and crc32c(data[CRC_START:]) != header.crc) or len(data) < size:
            try:
                check_crc(data, 0, header)
            except CorruptBatch as error:
                raise CorruptBatch(error.reason, position) from None
        yield StoredBatch(path, position, header, data)
        position += size


def _unreadable(file: File, error: CorruptBatch, position: int) -> CorruptBatch:
    """Return the error for bytes that are not a batch: UnsupportedMagic only for complete old messages."""
    if isinstance(error, UnsupportedMagic) and is_old_message(file.pread(_CHUNK_BYTES, position)):
        return UnsupportedMagic(error.magic, position)
    return CorruptBatch(error.reason, position)
