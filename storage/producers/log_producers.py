"""The producers of one log, kept in step with it: who appends a batch says so here.

When a log is opened, its producers are found again from the batch headers at its end, as far back as a bound. What
lies further back is forgotten: such a producer may begin anywhere, as one that expired.

Source: Kafka's `ProducerStateManager`, `UnifiedLog.lastStableOffset`.
"""

from typing import Final

from storage.append_result import AppendResult
from storage.batch import BatchHeader
from storage.errors import CorruptBatch, LogDamaged
from storage.log import PartitionLog
from storage.producers.marker import EndMarker, decode_marker
from storage.producers.producer_state import Ended, ProducerState
from storage.segment import Segment
from storage.stored_batch import StoredBatch
from storage.transaction_index import AbortedTransaction, AbortedTransactions

PRODUCER_SCAN_BYTES: Final = 64 * 1024 * 1024


class LogProducers:
    """Not thread-safe; belongs to who owns the log."""

    __slots__ = ("_log", "aborted", "state")

    def __init__(self, log: PartitionLog, expiration_ms: int) -> None:
        """In: after how long without a batch a producer is forgotten."""
        self._log = log
        self.state = ProducerState(expiration_ms)
        self.aborted = AbortedTransactions()

    @classmethod
    def load(cls, log: PartitionLog, expiration_ms: int) -> "LogProducers":
        """As the log says. Raises LogDamaged, DamagedFile, OSError."""
        producers = cls(log, expiration_ms)
        producers._load()
        return producers

    def appended(self, header: BatchHeader, result: AppendResult, timestamp_ms: int) -> None:
        """A batch of a producer, and no marker, is in the log; its greatest timestamp."""
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

        An aborted one goes to the index. Raises OSError, after which the log has to be opened anew.
        """
        ended = self.state.end(
            producer_id, producer_epoch, marker.coordinator_epoch, result.base_offset, timestamp_ms
        )
        if ended is not None and not marker.is_committed:
            self.aborted.add(AbortedTransaction(*ended))
        return ended

    def begin(self) -> int:
        """Takes up what is kept beside the log. Out: the offset from which it has to be fed every batch."""
        return self._log.log_start_offset

    def catch_up(self, offset: int) -> None:
        """Passes over what lies before an offset: such a producer may begin anywhere, as one that expired."""

    def finish(self) -> None:
        """All batches of the log were fed. Raises DamagedFile, OSError."""
        self.aborted = self._log.aborted_transactions({})

    def feed(self, batch: StoredBatch) -> None:
        """Takes the next batch of the log while that is being read. Raises CorruptBatch."""
        header = batch.header
        if header.producer_id < 0:
            return
        if not header.is_control:
            self.state.record(header, header.base_offset, header.max_timestamp_ms)
            return
        marker = decode_marker(header, batch.records())
        if marker is not None:
            self.state.end(
                header.producer_id,
                header.producer_epoch,
                marker.coordinator_epoch,
                header.base_offset,
                header.max_timestamp_ms,
            )

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where consumers of committed records may read."""
        return self.state.last_stable_offset(high_watermark)

    def aborted_within(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that have records or a marker in a range, its end excluded."""
        return self.aborted.within(first_offset, end_offset)

    def _load(self) -> None:
        log = self._log
        segments: list[Segment] = []
        scanned_bytes = 0
        for segment in reversed(log.segments):
            if segments and scanned_bytes + segment.size > PRODUCER_SCAN_BYTES:
                break
            segments.append(segment)
            scanned_bytes += segment.size
        for segment in reversed(segments):
            try:
                for batch in segment.walk():
                    if batch.header.last_offset >= log.log_start_offset:
                        self.feed(batch)
            except CorruptBatch as error:
                raise LogDamaged(segment.path, error.reason, error.position) from error
        self.aborted = log.aborted_transactions({})
