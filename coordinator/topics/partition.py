"""One partition of a topic: its log, what it remembers of producers, and how far consumers may read.

The *high watermark* is where reading ends. A partition here has one replica, so it is the log's end, unless
records are promised to survive power loss (`log.flush=always`): then it is what the disk has.

A partition whose log cannot be opened, or has failed since, is *offline*: `log` is None, its requests get
KAFKA_STORAGE_ERROR, and everything else goes on. It is tried again when it is next needed, at most once a
second.
"""

from collections.abc import Callable
from typing import Final, Protocol

from coordinator.topics.open_files import OpenFiles
from coordinator.topics.producer_state import ProducerState
from storage.errors import CorruptBatch, LogDamaged, StorageError
from storage.log import PartitionLog
from storage.segment import Segment
from storage.topic_partition import TopicPartition
from storage.transaction_index import AbortedTransactions

RETRY_MS: Final = 1000
PRODUCER_SCAN_BYTES: Final = 64 * 1024 * 1024


class Partition(Protocol):
    """What reading needs of a partition."""

    @property
    def name(self) -> TopicPartition:
        """Topic and number."""

    @property
    def log(self) -> PartitionLog | None:
        """None while the partition is offline."""

    @property
    def high_watermark(self) -> int:
        """Where reading ends; 0 while offline."""

    @property
    def aborted(self) -> AbortedTransactions:
        """Transactions whose records a consumer of committed ones leaves out."""


class InternalPartition:
    """A partition whose log belongs to another part of the server; it is only read here."""

    __slots__ = ("_high_watermark", "_log", "aborted", "name")

    def __init__(
        self,
        name: TopicPartition,
        log: Callable[[int], PartitionLog | None],
        high_watermark: Callable[[int], int],
    ) -> None:
        self.name = name
        self.aborted = AbortedTransactions()
        self._log = log
        self._high_watermark = high_watermark

    @property
    def log(self) -> PartitionLog | None:
        """As its owner has it now."""
        return self._log(self.name.partition)

    @property
    def high_watermark(self) -> int:
        """As its owner has it now."""
        return self._high_watermark(self.name.partition)


class HostedPartition:
    """A partition that clients produce to."""

    __slots__ = (
        "_expiration_ms",
        "_open_files",
        "_tried_ms",
        "aborted",
        "failure",
        "is_flushed_always",
        "log",
        "name",
        "open_log",
        "producers",
    )

    def __init__(
        self,
        name: TopicPartition,
        open_log: Callable[[], PartitionLog],
        expiration_ms: int,
        is_flushed_always: bool,
        open_files: OpenFiles,
    ) -> None:
        """In: how to open the log for the first time; how long an idle producer is remembered; where an open log
        is counted."""
        self.name = name
        self.open_log = open_log
        self.is_flushed_always = is_flushed_always
        self.producers = ProducerState(expiration_ms)
        self.aborted = AbortedTransactions()
        self.log: PartitionLog | None = None
        self.failure: Exception | None = None
        self._expiration_ms = expiration_ms
        self._open_files = open_files
        self._tried_ms: int | None = None

    @property
    def high_watermark(self) -> int:
        """Where reading ends; 0 while offline."""
        if self.log is None:
            return 0
        return self.log.durable_offset if self.is_flushed_always else self.log.log_end_offset

    def open(self) -> None:
        """Opens the log and reads its producers. Never raises for a broken log: `failure` says why it is
        offline.
        """
        try:
            self._open_first()
        except (StorageError, OSError) as error:
            self.failure = error

    def _open_first(self) -> None:
        self._open_files.take()
        try:
            self._use(self.open_log())
        except BaseException:
            self._open_files.give_back()
            raise

    def _use(self, log: PartitionLog) -> None:
        producers = ProducerState(self._expiration_ms)
        try:
            if self.is_flushed_always:
                log.sync()
            aborted = log.aborted_transactions(_load_producers(log, producers))
        except BaseException:
            log.close(clean=False)
            raise
        self.log, self.producers, self.aborted, self.failure = log, producers, aborted, None

    def usable_log(self, monotonic_ms: int) -> PartitionLog | None:
        """The log, reopened from what the disk holds if it had failed; None while that does not work."""
        log = self.log
        if log is not None and log.failure is None:
            return log
        if self._tried_ms is not None and monotonic_ms - self._tried_ms < RETRY_MS:
            return None
        self._tried_ms = monotonic_ms
        try:
            if log is None:
                self._open_first()
            else:
                self._use(log.reopen())
        except (StorageError, OSError) as error:
            self.failure = error
            return None
        return self.log


def _load_producers(log: PartitionLog, producers: ProducerState) -> dict[int, int]:
    """Reads the batch headers at the end of a log, oldest first, as far back as a bound.

    What lies further back is forgotten: such a producer may begin anywhere, as one that expired. Out: the
    transactions without an end, first offset by producer id.
    """
    still_open: dict[int, int] = {}
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
                header = batch.header
                if header.producer_id < 0 or header.last_offset < log.log_start_offset:
                    continue
                producers.record(header, header.base_offset, header.max_timestamp_ms)
                if header.is_control:
                    still_open.pop(header.producer_id, None)
                elif header.is_transactional and header.records_count:
                    still_open.setdefault(header.producer_id, header.base_offset)
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error
    return still_open
