"""One partition of a topic: its log, its producers, and how far consumers may read.

Reading ends at the *high watermark*. A partition here has one replica, so it is the end of the log. With
`log.flush=always` records must survive power loss, and it is the durable offset.

For consumers of committed records (`isolation_level` of Fetch and ListOffsets, KIP-98) reading ends at the
*last stable offset*: the high watermark, or the beginning of the earliest transaction whose end they cannot
see yet.

A partition whose log cannot be opened, or has failed, is *offline*: `log` is None, its requests get
KAFKA_STORAGE_ERROR, and all others are served. The log is opened again when it is next needed, at most once a
second.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from coordinator.topics.open_files import OpenFileLimit
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog
from storage.producers.producer_state_manager import ProducerStateManager
from storage.storage_errors import FileClosed, StorageError
from storage.topic_partition import TopicPartition
from storage.transaction_index import AbortedTransaction

RETRY_MS: Final = 1000

READ_COMMITTED: Final = 1
"""What is committed, up to the last stable offset; any other level is everything up to the high watermark."""


class ReadablePartition(Protocol):
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
    def last_stable_offset(self) -> int:
        """Where reading ends for consumers of committed records; 0 while offline."""

    @property
    def producers(self) -> ProducerStateManager | None:
        """Who has written to the log; None while that is not known, as while it is offline."""

    def aborted_in_read(self, offset: int, size_bytes: int) -> Sequence[AbortedTransaction]:
        """The aborted transactions that a read may have met: what consumers of committed records leave out.

        Raises StorageError, OSError."""


class InternalPartition:
    """A partition whose log belongs to another part of the server; it is only read here."""

    __slots__ = ("_high_watermark", "_log", "_producers", "name")

    def __init__(
        self,
        name: TopicPartition,
        log: Callable[[int], PartitionLog | None],
        high_watermark: Callable[[int], int],
        producers: Callable[[int], ProducerStateManager | None],
    ) -> None:
        self.name = name
        self._log = log
        self._high_watermark = high_watermark
        self._producers = producers

    @property
    def log(self) -> PartitionLog | None:
        """As its owner has it now."""
        return self._log(self.name.partition)

    @property
    def high_watermark(self) -> int:
        """As its owner has it now."""
        return self._high_watermark(self.name.partition)

    @property
    def producers(self) -> ProducerStateManager | None:
        """As its owner has them now."""
        return self._producers(self.name.partition)

    @property
    def last_stable_offset(self) -> int:
        """Where reading ends for consumers of committed records; 0 while offline."""
        return _last_stable_offset(self)

    def aborted_in_read(self, offset: int, size_bytes: int) -> Sequence[AbortedTransaction]:
        """What consumers of committed records leave out of a read."""
        return _aborted_in_read(self.producers, offset, size_bytes)


class HostedPartition:
    """A partition that clients produce to."""

    __slots__ = (
        "_expiration_ms",
        "_open_files",
        "_tried_ms",
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
        open_files: OpenFileLimit,
    ) -> None:
        """In: how to open the log for the first time; how long an idle producer is remembered; where an open log
        is counted."""
        self.name = name
        self.open_log = open_log
        self.is_flushed_always = is_flushed_always
        self.producers: ProducerStateManager | None = None
        """There while the log is."""
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

    @property
    def last_stable_offset(self) -> int:
        """Where reading ends for consumers of committed records; 0 while offline."""
        return _last_stable_offset(self)

    def aborted_in_read(self, offset: int, size_bytes: int) -> Sequence[AbortedTransaction]:
        """What consumers of committed records leave out of a read."""
        return _aborted_in_read(self.producers, offset, size_bytes)

    def open(self) -> None:
        """Opens the log and reads its producers. Never raises for a broken log: `failure` says why it is
        offline.
        """
        try:
            self._open_first()
        except (StorageError, OSError) as error:
            self.failure = error

    def _open_first(self) -> None:
        self._open_files.acquire_file()
        try:
            self._use_log(self.open_log())
        except BaseException:
            self._open_files.release_file()
            raise

    def _use_log(self, log: PartitionLog) -> None:
        try:
            if self.is_flushed_always:
                log.sync()
            producers = ProducerStateManager.load(log, self._expiration_ms)
        except BaseException:
            log.close(clean=False)
            raise
        self.log, self.producers, self.failure = log, producers, None

    def find_append_error(self, _: int) -> ErrorCode | None:
        """Why a batch of a size is not to be appended now; None where it may be."""
        return None

    def store_log_start(self, log: PartitionLog) -> None:
        """Has it last where its log begins now, as far as checkpoints do not. Blocks; in any thread but the loop's.
        Raises OSError."""

    def close_for_deletion(self) -> None:
        """It is about to be deleted: its log is closed, if it is open, and not opened again."""
        # Full collections of garbage are rare. What it opens its log with knows its topic, which knows this one,
        self.open_log = partial(_raise_deleted, self.name)
        if self.log is not None:
            self.log.close_deleted()
            self.log.segment_listener = None  # and who follows the log knows that.
            self._open_files.release_file()

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
                self._use_log(log.reopen())
        except (StorageError, OSError) as error:
            self.failure = error
            return None
        return self.log


def _raise_deleted(name: TopicPartition) -> PartitionLog:
    raise FileClosed(str(name), "is deleted")


def _last_stable_offset(partition: ReadablePartition) -> int:
    """The last stable offset. While the producers are not known it is the start of the log."""
    log, producers, end = partition.log, partition.producers, partition.high_watermark
    if producers is not None:
        return producers.find_last_stable_offset(end)
    return 0 if log is None else min(log.log_start_offset, end)


def _aborted_in_read(
    producers: ProducerStateManager | None, offset: int, size_bytes: int
) -> Sequence[AbortedTransaction]:
    return () if producers is None else producers.find_aborted_in_read(offset, size_bytes)
