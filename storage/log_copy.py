"""Creates the directory of a log from pieces that another system stores.

The directory is a copy of durable data. Every byte is checked before it is written, and the indexes are
written too. So it opens like a log after a clean stop.
"""

from collections.abc import Iterable
from typing import Final

from storage.batch import CRC_START, LOG_OVERHEAD, check_crc, read_header
from storage.checksum import crc32c
from storage.files import Files, mark_directory_deleted, remove_directory
from storage.leader_epochs import EpochStart, LeaderEpochs
from storage.segment import LogSegment
from storage.storage_errors import CorruptBatch, LogDamaged

WRITE_BYTES: Final = 256 * 1024
"""The number of bytes that are written at a time."""


def write_log_copy(
    files: Files,
    directory: str,
    pieces: Iterable[tuple[int, bytes]],
    epoch: int,
    index_interval_bytes: int,
    min_end_offset: int = 0,
) -> int:
    """Write a log anew and return its end offset. Blocks, and syncs nothing.

    Args:
        files: The file system.
        directory: The directory, which is replaced if it exists.
        pieces: Complete record batches in the order of their offsets, each with the base offset of its segment.
        epoch: The leader epoch at the end. No batch has a later one.
        index_interval_bytes: The property of that name.
        min_end_offset: The end offset if the pieces end before it, because the last records were deleted.

    Raises:
        LogDamaged: a batch is damaged or out of order.
        OSError
    """
    if files.exists(directory):
        remove_directory(files, mark_directory_deleted(files, directory))
    files.mkdir(directory)
    copy = _LogCopyWriter(files, directory, index_interval_bytes)
    try:
        for base_offset, data in pieces:
            copy.append_piece(base_offset, data)
        if copy.end_offset < min_end_offset:
            copy.begin_segment(min_end_offset)
        copy.finish_segment()
    finally:
        copy.close()
    starts = copy.epoch_starts
    if starts and starts[-1].epoch > epoch:
        raise LogDamaged(directory, f"batches of leader epoch {starts[-1].epoch} are there before {epoch}")
    if not starts or starts[-1].epoch < epoch:
        starts.append(EpochStart(epoch, copy.end_offset))
    LeaderEpochs(starts).write(files, directory)
    return copy.end_offset


class _LogCopyWriter:
    """The writer of a copy, with its progress."""

    def __init__(self, files: Files, directory: str, index_interval_bytes: int) -> None:
        self.end_offset = 0
        self.epoch_starts: list[EpochStart] = []
        """The leader epochs with their start offsets."""
        self._files = files
        self._directory = directory
        self._interval_bytes = index_interval_bytes
        self._segment: LogSegment | None = None
        self._position = 0
        """The position of the next batch in the segment, in bytes."""
        self._unwritten: list[bytes] = []
        """Bytes that are written together, because most pieces are small."""

    def begin_segment(self, base_offset: int) -> LogSegment:
        """Begin the next segment. Raises OSError."""
        self.finish_segment()
        self.end_offset = base_offset
        self._segment = LogSegment.create(self._files, self._directory, base_offset)
        self._position = 0
        return self._segment

    def append_piece(self, base_offset: int, data: bytes) -> None:
        """Append complete batches to the segment that begins at `base_offset`, which is begun if necessary.
        Raises LogDamaged, OSError."""
        segment = self._segment
        if segment is None or segment.base_offset != base_offset:
            if base_offset < self.end_offset:
                raise LogDamaged(self._directory, f"a segment begins at {base_offset} within another one")
            segment = self.begin_segment(base_offset)
        try:
            self._index_batches(segment, data)
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, self._position + error.position) from error
        self._position += len(data)
        self._unwritten.append(data)
        if self._position - segment.size >= WRITE_BYTES:
            self._flush(segment)

    def _flush(self, segment: LogSegment) -> None:
        segment.write_indexed_batches(b"".join(self._unwritten))
        self._unwritten.clear()

    def _index_batches(self, segment: LogSegment, data: bytes) -> None:
        """Add batches to the indexes. Raises CorruptBatch, with the position in `data`."""
        position, size = 0, len(data)
        while position < size:
            header = read_header(data, position)
            length = header.batch_length + LOG_OVERHEAD
            if (
                position + length > size
                or crc32c(data[position + CRC_START : position + length]) != header.crc
            ):
                check_crc(data, position, header)
            segment.check_offsets(header, position)
            if not self.epoch_starts or header.partition_leader_epoch > self.epoch_starts[-1].epoch:
                self.epoch_starts.append(
                    EpochStart(max(0, header.partition_leader_epoch), header.base_offset)
                )
            last_offset = header.base_offset + header.last_offset_delta
            segment.index_batch(
                self._position + position, length, last_offset, header.max_timestamp_ms, self._interval_bytes
            )
            position += length
        self.end_offset = segment.next_offset

    def finish_segment(self) -> None:
        """Complete the last segment. Raises OSError."""
        if self._segment is not None:
            self._flush(self._segment)
            self._segment.write_indexes()
            self.close()

    def close(self) -> None:
        """Close the current segment, if any."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None
