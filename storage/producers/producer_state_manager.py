"""The producers of one log, kept in step with it: each append reports its batch here.

    from_offset = producers.begin_load()      the latest snapshot is read
    producers.feed_batch(batch) ...           every batch from there on, in order
    producers.finish_load()                   from now on it follows the log

`load` does all three. A caller that walks the log for other reasons feeds its batches, so that they are read
once. Nothing may be appended between the walk and `finish_load`.

While the manager follows a log, it writes a snapshot at the end of each segment and at a clean stop, so
opening the log walks at most the last segment. After any other stop the walk begins with the segment of the
recovery point, or before it: the indexes of aborted transactions from there on may not have reached the disk,
and are rebuilt. Without a usable snapshot the whole log is walked, because an open transaction may begin
anywhere. The walk looks only at batches with a producer.

Source: Kafka's `ProducerStateManager`, `UnifiedLog.rebuildProducerState`, `UnifiedLog.lastStableOffset`.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from storage.batch import HEADER_BYTES, LOG_OVERHEAD, MAGIC, MIN_BATCH_LENGTH, BatchHeader, read_header
from storage.log import PartitionLog
from storage.producers.end_transaction_marker import EndMarker, decode_marker
from storage.producers.producer_snapshots import ProducerFiles
from storage.producers.producer_state import CompletedTransaction, ProducerState
from storage.segment import LogSegment
from storage.storage_errors import CorruptBatch, LogDamaged
from storage.stored_batch import StoredBatch
from storage.transaction_index import AbortedTransaction, AbortedTransactions

_CHUNK_BYTES: Final = 1024 * 1024
_STEP: Final = struct.Struct(">qi4xb6xi16xq")
"""The layout of the fields that a walk reads: base offset, batch length, magic, last offset delta, producer
id."""

_SEGMENTS_WITH_SNAPSHOT: Final = 2
"""The number of segments at the end of a log that a walk gives a missing snapshot. Kafka writes as many."""
RECENT_BYTES: Final = 64 * 1024 * 1024
"""The size of the last segment that a start reads although a snapshot covers it."""


class ProducerStateManager:
    """The producers of one log. It is not thread-safe: it belongs to the owner of the log."""

    __slots__ = (
        "_files",
        "_log",
        "_missing_snapshots",
        "_next_offset",
        "_sealed_offset",
        "_walked_from",
        "aborted",
        "state",
    )

    def __init__(self, log: PartitionLog, expiration_ms: int) -> None:
        """Create the state. A producer without a batch for `expiration_ms` is removed."""
        self._log = log
        self._files = ProducerFiles(log.files, log.directory)
        self._walked_from = self._next_offset = 0
        self._sealed_offset = -1
        """The log end offset when the last segment was sealed, or -1."""
        self._missing_snapshots: list[int] = []
        """The base offsets of segments for which a walk writes a snapshot, in descending order."""
        self.state = ProducerState(expiration_ms)
        self.aborted = AbortedTransactions()

    @classmethod
    def load(cls, log: PartitionLog, expiration_ms: int) -> "ProducerStateManager":
        """Load the producers of a log. Raises LogDamaged, OSError."""
        producers = cls(log, expiration_ms)
        producers.begin_load()
        producers.catch_up(log.log_end_offset)
        producers.finish_load()
        return producers

    # Loading

    def begin_load(self) -> int:
        """Load the files beside the log. Return the offset from which the caller must pass every batch.

        Raises OSError.
        """
        log = self._log
        bases = [segment.base_offset for segment in log.segments]
        aborted = self._files.remove_stray_files(bases, log.log_start_offset, log.log_end_offset)
        offset, entries = self._files.read_latest_snapshot(self._find_trusted_offset())
        self.state.restore(entries)
        self._walked_from = self._next_offset = max(offset, log.log_start_offset)
        if log.recovery_report.was_clean and log.log_end_offset in self._files.snapshots:
            self._sealed_offset = log.log_end_offset
        self.aborted = AbortedTransactions(
            each for each in aborted if log.log_start_offset <= each.last_offset < self._walked_from
        )
        known = self._files.snapshots
        self._missing_snapshots = [
            base
            for base in reversed(bases[-_SEGMENTS_WITH_SNAPSHOT:])
            if base > self._walked_from and base not in known
        ]
        return self._walked_from

    def _find_trusted_offset(self) -> int:
        """Return the offset before which the files beside the segments are known to be complete."""
        report, segments = self._log.recovery_report, self._log.segments
        if report.was_clean:
            # A snapshot has one batch of each producer. The last five are read from the segment if it is
            # short.
            is_short = segments[-1].size <= RECENT_BYTES
            return segments[-1].base_offset if is_short else self._log.log_end_offset
        below = [each.base_offset for each in segments if each.base_offset <= report.recovery_point]
        return below[-1] if below else segments[0].base_offset

    def catch_up(self, offset: int) -> None:
        """Read the batches before an offset. Raises LogDamaged."""
        log = self._log
        following = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
        for segment, end_offset in zip(log.segments, following, strict=True):
            if self._next_offset < end_offset and segment.base_offset < offset:
                self._walk_segment(segment, offset)
        self._next_offset = max(self._next_offset, offset)

    def _walk_segment(self, segment: LogSegment, end_offset: int) -> None:
        from_offset = self._next_offset
        try:
            position = 0
            if from_offset > segment.base_offset:
                position = segment.find_position(from_offset, self._log.config.index_interval_bytes)
            for batch in iterate_producer_batches(segment, position, from_offset):
                if batch.header.base_offset >= end_offset:
                    return
                self._record_batch(batch)
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error

    def feed_batch(self, batch: StoredBatch) -> None:
        """Add the next batch of the log, or a marker. A known one changes nothing.

        Raises LogDamaged.
        """
        try:
            self._record_batch(batch)
        except CorruptBatch as error:
            raise LogDamaged(batch.path, error.reason, batch.position) from error

    def _record_batch(self, batch: StoredBatch) -> None:
        header = batch.header
        if header.last_offset < self._next_offset:
            return
        self._write_snapshots_before(header.base_offset)
        self._next_offset = header.next_offset
        if header.producer_id < 0:
            return
        if not header.is_control:
            self.state.record_batch(header, header.base_offset, header.max_timestamp_ms)
            return
        marker = decode_marker(header, batch.records())
        if marker is not None:
            self._record_marker(
                marker,
                header.producer_id,
                header.producer_epoch,
                header.base_offset,
                header.max_timestamp_ms,
            )

    def _write_snapshots_before(self, offset: int) -> None:
        while self._missing_snapshots and self._missing_snapshots[-1] <= offset:
            with suppress(OSError):  # another walk will write it
                self._files.write_snapshot(self._missing_snapshots.pop(), self.state)

    def finish_load(self) -> None:
        """Finish the load after all batches of the log were added, and follow the log from now on. Raises
        OSError."""
        log = self._log
        self._write_snapshots_before(log.log_end_offset)
        self._next_offset = log.log_end_offset
        sealed = log.segments[:-1]
        for segment, following in zip(sealed, log.segments[1:], strict=True):
            if following.base_offset > self._walked_from:
                ended = self.aborted.find_ended_within(segment.base_offset, following.base_offset)
                self._files.correct_index(segment.base_offset, ended)
        self.state.find_last_stable_offset(log.durable_offset)  # drops ended transactions before that offset
        log.segment_listener = self

    # Following

    def on_batch_appended(self, header: BatchHeader, base_offset: int, timestamp_ms: int) -> None:
        """Record a batch of data at `base_offset`, with its greatest timestamp. A batch without a producer changes
        nothing."""
        self.state.record_batch(header, base_offset, timestamp_ms)

    def on_marker_appended(
        self,
        marker: EndMarker,
        producer_id: int,
        producer_epoch: int,
        base_offset: int,
        timestamp_ms: int,
    ) -> CompletedTransaction | None:
        """Record that a marker was written at `base_offset`; return the transaction that it ended here, if
        any.

        An aborted transaction is written to the index of its segment when the segment is sealed.
        """
        return self._record_marker(marker, producer_id, producer_epoch, base_offset, timestamp_ms)

    def _record_marker(
        self, marker: EndMarker, producer_id: int, producer_epoch: int, offset: int, timestamp_ms: int
    ) -> CompletedTransaction | None:
        ended = self.state.record_marker(
            producer_id, producer_epoch, marker.coordinator_epoch, offset, timestamp_ms
        )
        if ended is not None and not marker.is_committed:
            self.aborted.add(AbortedTransaction(*ended, self.state.find_stable_offset_after(ended)))
        return ended

    def on_segment_sealed(self, segment: LogSegment, end_offset: int) -> None:
        """Write the index of the segment's aborted transactions, and a snapshot."""
        if end_offset == self._sealed_offset:
            return
        segment.write_transaction_index(self.aborted.find_ended_within(segment.base_offset, end_offset))
        if end_offset > self._log.log_start_offset:
            self._files.write_snapshot(end_offset, self.state)
        self._sealed_offset = end_offset

    def on_compacted(self, first_offset: int, end_offset: int, kept: Sequence[AbortedTransaction]) -> None:
        self.aborted.replace_range(first_offset, end_offset, kept)

    # Reading

    def find_last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset up to which consumers of committed records may read."""
        stable = self.state.find_last_stable_offset(high_watermark)
        return max(stable, min(self._log.log_start_offset, high_watermark))

    def find_aborted_within(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records or a marker in a range, excluding its end, by marker."""
        self.aborted.remove_before(self._log.log_start_offset)
        return self.aborted.find_overlapping(first_offset, end_offset)

    def find_aborted_in_read(self, offset: int, size_bytes: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a read of `size_bytes` from `offset` may include, by marker.

        Raises LogDamaged, OSError.
        """
        if not self.aborted.has_marker_from(offset):
            return []
        return self.find_aborted_within(offset, self._log.find_upper_bound_offset(offset, size_bytes))


def iterate_producer_batches(segment: LogSegment, position: int, from_offset: int) -> Iterator[StoredBatch]:
    """Yield the batches that end at or after an offset, in order, without verified checksums.

    `position` is the begin of a batch. Raises CorruptBatch with the position in the file.
    """
    chunk, chunk_position, size = b"", position, segment.size
    while position < size:
        local = position - chunk_position
        if local + HEADER_BYTES > len(chunk):
            chunk, chunk_position, local = segment.file.pread(_CHUNK_BYTES, position), position, 0
            if len(chunk) < HEADER_BYTES:
                raise CorruptBatch(f"{len(chunk)} bytes are less than a batch header", position)
        base_offset, length, magic, last_offset_delta, producer_id = _STEP.unpack_from(chunk, local)
        end = position + length + LOG_OVERHEAD
        if magic != MAGIC or length < MIN_BATCH_LENGTH:
            try:
                read_header(chunk, local)
            except CorruptBatch as error:
                raise CorruptBatch(error.reason, position) from None
        if end > size:
            raise CorruptBatch(
                f"a batch of {end - position} bytes ends after {size - position} bytes", position
            )
        if producer_id >= 0 and base_offset + last_offset_delta >= from_offset:
            if end - chunk_position > len(chunk):
                chunk = segment.file.pread(max(end - position, _CHUNK_BYTES), position)
                chunk_position, local = position, 0
            data = chunk[local : local + end - position]
            yield StoredBatch(segment.path, position, read_header(data), data)
        position = end
