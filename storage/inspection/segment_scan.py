"""Reads a segment as far as possible: every valid batch, and the bytes between them.

The log engine stops at the first bad byte, because only the owner of a log may interpret it. Tools that
inspect or repair a log must continue. A *sound* batch is complete, has a valid checksum, and has larger
offsets than the batches before it. All other bytes up to the next sound batch are bad.

Three questions need care:

- The begin of the next batch. It is the stated end of the bad batch, if a batch begins there. Bytes within a
  record may look like a batch, because a client stored one. Only if the stated length leads nowhere, the scan
  tries every byte. If a batch has a valid checksum up to an earlier batch, its length is wrong.
- The wrong offset. The checksum does not cover the base offset. If the offset of one batch jumps ahead and
  the next ones continue before it, that batch is the bad one.
- The memory. A bad length may cover the rest of the file. The scan computes a checksum in pieces, so the
  largest sound batch bounds its memory.

The scan writes nothing. It ends at the size of the file at its begin, even if the file grows.

Source: Kafka's `DefaultRecordBatch`, `FileLogInputStream`.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from storage.batch import (
    CODEC_MASK,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    is_old_message,
    read_header,
)
from storage.checksum import crc32c
from storage.compression import CODEC_NAMES
from storage.files import File
from storage.segment_index import MAX_RELATIVE_OFFSET
from storage.storage_errors import CorruptBatch, UnsupportedMagic
from storage.stored_batch import StoredBatch

CHUNK_BYTES: Final = 1024 * 1024

_UNDEFINED_ATTRIBUTES: Final = 0xFF80
_MAX_OLD_MESSAGE_BYTES: Final = 64 * 1024 * 1024
_MAGIC_AT: Final = 16
_VOTING_BATCHES: Final = 3
_LENGTH: Final = struct.Struct(">i")
_CHECKSUM: Final = struct.Struct(">I")


class BadBytes(NamedTuple):
    """A range of bytes of a segment without a sound batch."""

    path: str
    position: int
    length: int
    reason: str
    is_incomplete: bool
    """Whether the file ends within a batch that may be sound. It may be torn, or still being written."""
    is_old_format: bool
    """Whether the bytes are complete messages of magic 0 or 1, which groupd does not serve."""


Piece: TypeAlias = StoredBatch | BadBytes


class SegmentScan:
    """One pass over a segment. Another pass may continue at `position` and `next_offset`."""

    def __init__(
        self,
        file: File,
        base_offset: int,
        *,
        end_offset: int | None = None,
        position: int = 0,
        next_offset: int | None = None,
        size: int | None = None,
    ) -> None:
        """Create a scan of an open file.

        `base_offset` and `end_offset` are the offsets in the names of this segment and the next one. `position` and
        `next_offset` are the first byte and the lowest offset of the scan. `size` limits the bytes (default: all).
        """
        self.base_offset = base_offset
        self.position = position
        self.next_offset = base_offset if next_offset is None else next_offset
        self.size = file.size() if size is None else size
        self._file = file
        highest = base_offset + MAX_RELATIVE_OFFSET + 1
        self._limit_offset = highest if end_offset is None else min(highest, end_offset)
        self._chunk = b""
        self._chunk_position = 0

    def scan_pieces(self) -> Iterator[Piece]:
        """Yield sound batches and bad bytes in the order of the file, without a gap. Raises OSError."""
        while self.position < self.size:
            position = self.position
            header, reason = self._check_batch(position, self.next_offset)
            if header is not None and self._is_ahead(header, position):
                reason = f"offset {header.base_offset} is larger than the offsets after it"
                header = None
            if header is not None:
                data = self._read_window(position, header.size_bytes)
                self.position = position + header.size_bytes
                self.next_offset = header.next_offset
                yield StoredBatch(self._file.path, position, header, data)
            else:
                bad = self._measure_bad_bytes(position, reason)
                self.position = position + bad.length
                assert position < self.position <= self.size, (bad, self.size)
                yield bad

    # Checking one position

    def _read_window(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position`, none beyond the scanned size."""
        local = position - self._chunk_position
        if not 0 <= local <= local + length <= len(self._chunk):
            self._chunk = self._file.pread(max(length, CHUNK_BYTES), position)
            self._chunk_position, local = position, 0
        return self._chunk[local : local + max(0, min(length, self.size - position))]

    def _check_batch(self, position: int, least_offset: int) -> tuple[BatchHeader | None, str]:
        """Return the header of a valid batch at `position`, or the reason why it is invalid."""
        header, reason = self._check_whole(position)
        if header is None:
            return None, reason
        if header.base_offset < least_offset:
            return None, f"batch at offset {header.base_offset} where {least_offset} or more is due"
        if header.next_offset > self._limit_offset:
            return (
                None,
                f"batch at offset {header.base_offset} in a segment that ends before {self._limit_offset}",
            )
        return header, ""

    def _check_whole(self, position: int) -> tuple[BatchHeader | None, str]:
        """Return the header of a complete batch with a valid checksum, or the reason why it is invalid."""
        header, reason = self._read_header(position)
        if header is None:
            return None, reason
        if position + header.size_bytes > self.size:
            return None, f"a batch of {header.size_bytes} bytes ends after {self.size - position} bytes"
        computed = self._compute_checksum(position, header.size_bytes)
        if computed != header.crc:
            return None, f"checksum {computed:#010x} is not the stored {header.crc:#010x}"
        return header, ""

    def _read_header(self, position: int) -> tuple[BatchHeader | None, str]:
        try:
            return read_header(self._read_window(position, HEADER_BYTES)), ""
        except CorruptBatch as error:
            return None, error.reason

    def _compute_checksum(self, position: int, size_bytes: int) -> int:
        """Return the checksum of the bytes that a batch's checksum covers."""
        return self._compute_checksum_of_range(position + CRC_START, position + size_bytes, 0)

    def _compute_checksum_of_range(self, at: int, end: int, checksum: int) -> int:
        """Return the checksum of a range, in pieces. `checksum` is that of the bytes before."""
        while at < end:
            part = self._read_window(at, min(end - at, CHUNK_BYTES))
            if not part:
                return -1  # the file was truncated
            checksum = crc32c(part, checksum)
            at += len(part)
        return checksum

    def _is_ahead(self, header: BatchHeader, position: int) -> bool:
        """Return whether the following batches show that the offset of this batch is too high."""
        if header.base_offset == self.next_offset:
            return False
        where_it_should_end = self.next_offset + header.last_offset_delta + 1
        votes = 0
        position += header.size_bytes
        for _ in range(_VOTING_BATCHES):
            following, _ = self._read_header(position)
            if following is None:
                break
            if self._check_batch(position, self.next_offset)[0] is not None:
                if (
                    following.base_offset < header.next_offset
                    and following.base_offset == where_it_should_end
                ):
                    return True
                votes += 1 if following.base_offset < header.next_offset else -1
            position += following.size_bytes
        return votes > 0

    # Finding the next batch

    def _measure_bad_bytes(self, position: int, reason: str) -> BadBytes:
        old_end = self._find_end_of_old_messages(position)
        if old_end is not None:
            return BadBytes(self._file.path, position, old_end - position, reason, False, True)
        end = self._find_next_sound(position)
        is_incomplete = end == self.size and self._may_be_incomplete(position)
        return BadBytes(self._file.path, position, end - position, reason, is_incomplete, False)

    def _find_end_of_old_messages(self, position: int) -> int | None:
        """Return the end of a sequence of complete messages of magic 0 and 1, or None without one."""
        end = position
        while end < self.size:
            size_bytes = self._read_stated_length(end) + LOG_OVERHEAD
            if (
                not 0 < size_bytes <= min(self.size - end, _MAX_OLD_MESSAGE_BYTES)
                or self._read_window(end + _MAGIC_AT, 1) > b"\1"
            ):
                break
            if not is_old_message(self._read_window(end, size_bytes)):
                break
            end += size_bytes
        return end if end > position else None

    def _read_stated_length(self, position: int) -> int:
        """Return the value at the place of a batch's length; 0 at the end of the file."""
        length: int = _LENGTH.unpack(self._read_window(position + 8, 4).ljust(4, b"\0"))[0]
        return length

    def _may_be_incomplete(self, position: int) -> bool:
        header, _ = self._read_header(position)
        if header is not None:
            is_due = self.next_offset <= header.base_offset and header.next_offset <= self._limit_offset
            return is_due and position + header.size_bytes > self.size
        start = self._read_window(position, HEADER_BYTES)
        return len(start) < HEADER_BYTES and (len(start) <= _MAGIC_AT or start[_MAGIC_AT] == MAGIC)

    def _find_next_sound(self, position: int) -> int:
        """Return the position of the next sound batch after a bad one, or the end."""
        stated = self._find_stated_end(position)
        if stated is not None:
            proven = self._find_end_by_checksum(position, stated)
            return stated if proven is None else proven
        for candidate in self._find_candidates(position + 1):
            if self._check_batch(candidate, self.next_offset)[0] is not None:
                return candidate
        return self.size

    def _find_stated_end(self, position: int) -> int | None:
        """Return the end of a bad batch by its length field, if this is plausible."""
        length = self._read_stated_length(position)
        end = position + LOG_OVERHEAD + length
        if length < MIN_BATCH_LENGTH or end > self.size:
            return None
        if end == self.size or self._check_batch(end, self.next_offset)[0] is not None:
            return end
        if self._check_whole(position)[0] is not None:
            return end  # only the offset of the batch is wrong
        # Two bad batches in a row: both headers must fit together.
        (bad, _), (after, _) = self._read_header(position), self._read_header(end)
        if bad is None or after is None or end + after.size_bytes > self.size:
            return None
        return end if after.base_offset == bad.next_offset >= self.next_offset else None

    def _find_end_by_checksum(self, position: int, stated_end: int) -> int | None:
        """Return the end of a batch whose length is too large and otherwise valid. The checksum does not cover the
        length."""
        stored: int = _CHECKSUM.unpack(
            self._read_window(position + CRC_START - _CHECKSUM.size, _CHECKSUM.size)
        )[0]
        at, checksum = position + CRC_START, 0
        for candidate in self._find_candidates(position + HEADER_BYTES):
            if candidate >= stated_end:
                break
            at, checksum = candidate, self._compute_checksum_of_range(at, candidate, checksum)
            if checksum == stored:
                return candidate
        return None

    def _find_candidates(self, position: int) -> Iterator[int]:
        """Yield the positions from `position` on that look like a header. Checksums are not computed."""
        while position + HEADER_BYTES <= self.size:
            window = self._file.pread(min(CHUNK_BYTES, self.size - position), position)
            found = window.find(MAGIC, _MAGIC_AT)
            while 0 <= found <= len(window) - (HEADER_BYTES - _MAGIC_AT):
                if self._looks_like_header(window, found - _MAGIC_AT, position):
                    yield position + found - _MAGIC_AT
                found = window.find(MAGIC, found + 1)
            if len(window) < HEADER_BYTES:
                return
            position += len(window) - HEADER_BYTES + 1

    def _looks_like_header(self, window: bytes, local: int, position: int) -> bool:
        try:
            header = read_header(window, local)
        except UnsupportedMagic:
            return False
        except CorruptBatch:
            return False
        return (
            position + local + header.size_bytes <= self.size
            and self.next_offset <= header.base_offset
            and header.next_offset <= self._limit_offset
            and header.records_count <= header.last_offset_delta + 1
            and not header.attributes & _UNDEFINED_ATTRIBUTES
            and header.attributes & CODEC_MASK in CODEC_NAMES
        )
