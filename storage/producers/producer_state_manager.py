"""The producers of one log, kept in step with it: who appends a batch says so here.

    from_offset = producers.begin()           the latest snapshot is read
    producers.feed(batch) ...                 every batch from there on, in order
    producers.finish()                        from now on it follows the log

`load` does all three. Whoever walks a log for other reasons feeds the batches that it meets, so that they are read
once. Between the walk and the end of the log nothing may be appended.

While it follows a log, a snapshot is written where each segment ends and at a clean stop; so that opening the log
walks the last segment at the most. After anything but a clean stop the walk begins with the segment that holds the
recovery point, or before it: the indexes of aborted transactions from there on may not have come to the disk, and
are made anew. Without a usable snapshot all of the log is walked: an open transaction may begin anywhere.

Source: Kafka's `ProducerStateManager`, `UnifiedLog.rebuildProducerState`, `UnifiedLog.lastStableOffset`.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from storage.append_result import AppendResult
from storage.batch import BatchHeader
from storage.errors import CorruptBatch, LogDamaged
from storage.log import PartitionLog
from storage.producers.marker import EndMarker, decode_marker
from storage.producers.producer_batches import producer_batches
from storage.producers.producer_files import ProducerFiles
from storage.producers.producer_state import Ended, ProducerState
from storage.segment import Segment
from storage.stored_batch import StoredBatch
from storage.transaction_index import AbortedTransaction, AbortedTransactions

_SEGMENTS_WITH_SNAPSHOT: Final = 2
"""How many, at the end of a log, get one when a walk comes by that misses it: as many as Kafka writes then."""

RECENT_BYTES: Final = 64 * 1024 * 1024
"""Of a last segment that a start walks, though a snapshot tells what it comes to."""


class LogProducers:
    """Not thread-safe; belongs to who owns the log."""

    __slots__ = (
        "_files",
        "_log",
        "_missing",
        "_next_offset",
        "_sealed_to",
        "_walked_from",
        "aborted",
        "state",
    )

    def __init__(self, log: PartitionLog, expiration_ms: int) -> None:
        """In: after how long without a batch a producer is forgotten."""
        self._log = log
        self._files = ProducerFiles(log.files, log.directory)
        self._walked_from = self._next_offset = 0
        self._sealed_to = -1
        """Where the log ended when its last segment was sealed, -1 before that."""
        self._missing: list[int] = []
        """Where segments begin that a walk gives a snapshot, from the last to the first."""
        self.state = ProducerState(expiration_ms)
        self.aborted = AbortedTransactions()

    @classmethod
    def load(cls, log: PartitionLog, expiration_ms: int) -> "LogProducers":
        """As the log says. Raises LogDamaged, OSError."""
        producers = cls(log, expiration_ms)
        producers.begin()
        producers.catch_up(log.log_end_offset)
        producers.finish()
        return producers

    # Loading

    def begin(self) -> int:
        """Takes up what is kept beside the log. Out: the offset from which it has to be fed every batch.

        Raises OSError.
        """
        log = self._log
        bases = [segment.base_offset for segment in log.segments]
        aborted = self._files.tidy(bases, log.log_start_offset, log.log_end_offset)
        offset, entries = self._files.latest_snapshot(self._trusted_to())
        self.state.restore(entries)
        self._walked_from = self._next_offset = max(offset, log.log_start_offset)
        if log.recovery_report.was_clean and log.log_end_offset in self._files.snapshots:
            self._sealed_to = log.log_end_offset
        self.aborted = AbortedTransactions(
            each for each in aborted if log.log_start_offset <= each.last_offset < self._walked_from
        )
        known = self._files.snapshots
        self._missing = [
            base
            for base in reversed(bases[-_SEGMENTS_WITH_SNAPSHOT:])
            if base > self._walked_from and base not in known
        ]
        return self._walked_from

    def _trusted_to(self) -> int:
        """Before it the files beside the segments are as they were left."""
        report, segments = self._log.recovery_report, self._log.segments
        if report.was_clean:
            # A snapshot has one batch of each producer. Its last five are found where that costs little.
            is_short = segments[-1].size <= RECENT_BYTES
            return segments[-1].base_offset if is_short else self._log.log_end_offset
        below = [each.base_offset for each in segments if each.base_offset <= report.recovery_point]
        return below[-1] if below else segments[0].base_offset

    def catch_up(self, offset: int) -> None:
        """Feeds itself with what lies before an offset. Raises LogDamaged."""
        log = self._log
        following = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
        for segment, end_offset in zip(log.segments, following, strict=True):
            if self._next_offset < end_offset and segment.base_offset < offset:
                self._walk(segment, offset)
        self._next_offset = max(self._next_offset, offset)

    def _walk(self, segment: Segment, end_offset: int) -> None:
        from_offset = self._next_offset
        try:
            position = 0
            if from_offset > segment.base_offset:
                position = segment.position_of(from_offset, self._log.config.index_interval_bytes)
            for batch in producer_batches(segment, position, from_offset):
                if batch.header.base_offset >= end_offset:
                    return
                self._take(batch)
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error

    def feed(self, batch: StoredBatch) -> None:
        """Takes the next batch of the log, marker or not; one that is known already changes nothing.

        Raises LogDamaged.
        """
        try:
            self._take(batch)
        except CorruptBatch as error:
            raise LogDamaged(batch.path, error.reason, batch.position) from error

    def _take(self, batch: StoredBatch) -> None:
        header = batch.header
        if header.last_offset < self._next_offset:
            return
        self._snapshots_before(header.base_offset)
        self._next_offset = header.next_offset
        if header.producer_id < 0:
            return
        if not header.is_control:
            self.state.record(header, header.base_offset, header.max_timestamp_ms)
            return
        marker = decode_marker(header, batch.records())
        if marker is not None:
            self._end(
                marker,
                header.producer_id,
                header.producer_epoch,
                header.base_offset,
                header.max_timestamp_ms,
            )

    def _snapshots_before(self, offset: int) -> None:
        while self._missing and self._missing[-1] <= offset:
            with suppress(OSError):  # another walk will come by
                self._files.write_snapshot(self._missing.pop(), self.state)

    def finish(self) -> None:
        """All batches of the log were fed; from now on it is followed. Raises OSError."""
        log = self._log
        self._snapshots_before(log.log_end_offset)
        self._next_offset = log.log_end_offset
        sealed = log.segments[:-1]
        for segment, following in zip(sealed, log.segments[1:], strict=True):
            if following.base_offset > self._walked_from:
                ended = self.aborted.ended_within(segment.base_offset, following.base_offset)
                self._files.correct_index(segment.base_offset, ended)
        self.state.last_stable_offset(log.durable_offset)  # what ended before that need not be kept
        log.follower = self

    # Following

    def appended(self, header: BatchHeader, result: AppendResult, timestamp_ms: int) -> None:
        """A batch that is no marker is in the log; its greatest timestamp. Nothing follows of one without a
        producer."""
        self.state.record(header, result.base_offset, timestamp_ms)

    def ended(
        self,
        marker: EndMarker,
        producer_id: int,
        producer_epoch: int,
        result: AppendResult,
        timestamp_ms: int,
    ) -> Ended | None:
        """A marker is in the log. Out: the transaction that it has ended here, if there was one.

        An aborted one is in the index of its segment when that is sealed.
        """
        return self._end(marker, producer_id, producer_epoch, result.base_offset, timestamp_ms)

    def _end(
        self, marker: EndMarker, producer_id: int, producer_epoch: int, offset: int, timestamp_ms: int
    ) -> Ended | None:
        ended = self.state.end(producer_id, producer_epoch, marker.coordinator_epoch, offset, timestamp_ms)
        if ended is not None and not marker.is_committed:
            self.aborted.add(AbortedTransaction(*ended, self.state.stable_after(ended)))
        return ended

    def seal(self, segment: Segment, end_offset: int) -> None:
        """As `LogFollower.seal`: the index of the segment's aborted transactions, and a snapshot."""
        if end_offset == self._sealed_to:
            return
        segment.write_transaction_index(self.aborted.ended_within(segment.base_offset, end_offset))
        if end_offset > self._log.log_start_offset:
            self._files.write_snapshot(end_offset, self.state)
        self._sealed_to = end_offset

    def was_compacted(self, first_offset: int, end_offset: int, kept: Sequence[AbortedTransaction]) -> None:
        """As `LogFollower.was_compacted`."""
        self.aborted.replace(first_offset, end_offset, kept)

    # Reading

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where consumers of committed records may read."""
        stable = self.state.last_stable_offset(high_watermark)
        return max(stable, min(self._log.log_start_offset, high_watermark))

    def aborted_within(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that have records or a marker in a range, its end excluded, by marker."""
        self.aborted.forget_before(self._log.log_start_offset)
        return self.aborted.within(first_offset, end_offset)

    def aborted_in_read(self, offset: int, size_bytes: int) -> list[AbortedTransaction]:
        """Those that a read of `size_bytes` from `offset` may have met, by marker: up to where the index can tell.

        Raises LogDamaged, OSError.
        """
        if not self.aborted.has_marker_from(offset):
            return []
        return self.aborted_within(offset, self._log.bound_of_read(offset, size_bytes))
