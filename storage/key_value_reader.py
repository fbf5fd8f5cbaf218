"""Reads the keys and values of a whole log, as fast as Python can, for a load of groups.

Most batches of `__consumer_offsets` have one or a few plain records, so the work for each batch decides the
time of a load. This reader takes a run of plain batches (uncompressed, without a transaction) from one piece
of the file and creates no object for a batch. At the first other or invalid batch the ordinary reader takes
over for the rest of the segment. It is the reference, and reports the error.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from storage.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL,
)
from storage.checksum import crc32c
from storage.log import PartitionLog
from storage.log_segments import check_batch_offsets
from storage.record import append_keys_and_values
from storage.segment import LogSegment
from storage.storage_errors import CorruptBatch, LogDamaged, OffsetOutOfRange
from storage.stored_batch import StoredBatch

KeyValuePair = tuple[bytes | None, bytes | None]
"""Key and value of a record; a value of None is a tombstone."""

MAX_RUN_PAIRS: Final = 500
_CHUNK_BYTES: Final = 1024 * 1024
_TRANSACTION_BITS: Final = CONTROL | TRANSACTIONAL
_NOT_PLAIN_BITS: Final = CODEC_MASK | _TRANSACTION_BITS
# Base offset, batch length, magic, checksum, attributes, last offset delta, number of records.
_HEADER: Final = Struct(">qi4xbIhi30xi")


class KeyValueRun(NamedTuple):
    """Adjacent plain records, and the position of the first of their batches."""

    path: str
    position: int
    pairs: list[KeyValuePair]


def read_key_values(
    log: PartitionLog, from_offset: int, end_offset: int | None = None
) -> Iterator[KeyValueRun | StoredBatch]:
    """Yield the batches of `log.iterate_batches(from_offset)`, plain ones as runs.

    `end_offset` must be the end of a batch. Runs end at the first batch of a transaction, because the
    offsets of records matter from there on. Raises LogDamaged, OffsetOutOfRange.
    """
    if end_offset is None:
        end_offset = log.log_end_offset
    if not log.log_start_offset <= from_offset <= end_offset <= log.log_end_offset:
        raise OffsetOutOfRange(log.directory, from_offset, log.log_start_offset, end_offset)
    segments = [each for each in log.segments if each.base_offset < end_offset] or log.segments[:1]
    end_position = segments[-1].size
    if end_offset < log.log_end_offset:
        try:
            end_position = segments[-1].find_position(end_offset, log.config.index_interval_bytes)
        except CorruptBatch as error:
            raise LogDamaged(segments[-1].path, error.reason, error.position) from error
    return _read_segments(log, from_offset, end_offset, segments, end_position)


def _read_segments(
    log: PartitionLog, from_offset: int, end_offset: int, segments: Sequence[LogSegment], end_position: int
) -> Iterator[KeyValueRun | StoredBatch]:
    next_offset = 0
    has_transactions = False
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is not None and following.base_offset <= from_offset:
            continue
        try:
            position = 0
            if segment.base_offset < from_offset:
                position = segment.find_position(from_offset, log.config.index_interval_bytes)
            until = end_position if following is None else segment.size
            first_offset = max(next_offset, segment.base_offset)
            reading = _SegmentReader(segment, position, until, first_offset, end_offset)
            if not has_transactions:
                yield from reading.read_runs()
            for batch in reading.read_other_batches():
                has_transactions = has_transactions or bool(batch.header.attributes & _TRANSACTION_BITS)
                yield batch
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error
        next_offset = reading.next_offset


class _SegmentReader:
    """Reads one segment."""

    def __init__(
        self, segment: LogSegment, position: int, until: int, next_offset: int, end_offset: int
    ) -> None:
        self.next_offset = next_offset
        """The minimum base offset of the next batch."""
        self._segment = segment
        self._position = position
        self._until = until
        self._end_offset = end_offset

    def read_runs(self) -> Iterator[KeyValueRun]:
        """Yield runs of plain batches, up to the first other batch."""
        segment = self._segment
        while self._position < self._until:
            chunk = segment.file.pread(_CHUNK_BYTES, self._position)
            start, local = self._position, 0
            while True:
                pairs: list[KeyValuePair] = []
                first = local
                local = self._read_run(chunk, local, min(len(chunk), self._until - start), pairs)
                self._position = start + local
                if pairs:
                    yield KeyValueRun(segment.path, start + first, pairs)
                if len(pairs) < MAX_RUN_PAIRS:
                    break
            if not local:
                return

    def _read_run(self, chunk: bytes, position: int, limit: int, pairs: list[KeyValuePair]) -> int:
        """Add the pairs of plain batches from `position` on; return the position of the first batch that is left
        out."""
        next_offset, end_offset = self.next_offset, self._end_offset
        while limit - position >= HEADER_BYTES and len(pairs) < MAX_RUN_PAIRS:
            base_offset, length, magic, crc, attributes, delta, count = _HEADER.unpack_from(chunk, position)
            end = position + length + LOG_OVERHEAD
            following_offset = base_offset + delta + 1
            if (
                magic != MAGIC
                or length < MIN_BATCH_LENGTH
                or end > limit
                or attributes & _NOT_PLAIN_BITS
                or not next_offset <= base_offset < following_offset <= end_offset
                or count < 0
                or crc32c(chunk[position + CRC_START : end]) != crc
            ):
                break
            known = len(pairs)
            try:
                append_keys_and_values(pairs, chunk, position + HEADER_BYTES, end, count)
            except CorruptBatch:
                del pairs[known:]
                break
            next_offset = following_offset
            position = end
        self.next_offset = next_offset
        return position

    def read_other_batches(self) -> Iterator[StoredBatch]:
        """Yield all batches from the current position on."""
        for batch in self._segment.walk(self._position, check=True):
            if batch.position >= self._until:
                return
            header = batch.header
            check_batch_offsets(
                header.base_offset, header.next_offset, self.next_offset, self._end_offset, batch.position
            )
            self.next_offset = header.next_offset
            yield batch
