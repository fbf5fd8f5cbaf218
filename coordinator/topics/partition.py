"""A partition of a topic: its log, its producers, and its high watermark and last stable offset.

Consumers read up to the *high watermark*. A partition on one broker has one replica, so that is the end of the log.
With `log.flush=always` records must survive power loss, and it is the durable offset.

`read_committed` consumers (`isolation_level` of Fetch and ListOffsets, KIP-98) read up to the *last stable offset*:
the high watermark, or the start of the earliest transaction with a marker beyond the high watermark.

A partition is *offline* if its log failed or cannot be opened: `log` is None and its requests get
KAFKA_STORAGE_ERROR, while other partitions work. The next use reopens the log, at most once a second.
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
"""The isolation level that reads up to the last stable offset. Any other level reads up to the high watermark."""


class ReadablePartition(Protocol):
    """The interface of a partition for reads."""

    @property
    def name(self) -> TopicPartition:
        """The topic and the partition number."""

    @property
    def log(self) -> PartitionLog | None:
        """None while the partition is offline."""

    @property
    def high_watermark(self) -> int:
        """The end of reads; 0 while offline."""

    @property
    def last_stable_offset(self) -> int:
        """The end of `read_committed` reads; 0 while offline."""

    @property
    def producers(self) -> ProducerStateManager | None:
        """The producers of the log; None while unknown or offline."""

    def aborted_in_read(self, offset: int, size_bytes: int) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that may overlap a read, for `read_committed` consumers to skip.

        Raises:
            StorageError, OSError: the log cannot be read.
        """


class InternalPartition:
    """A partition of another component that owns its log. The data plane only reads it."""

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
        """The owner's present log."""
        return self._log(self.name.partition)

    @property
    def high_watermark(self) -> int:
        """The owner's present high watermark."""
        return self._high_watermark(self.name.partition)

    @property
    def producers(self) -> ProducerStateManager | None:
        """The owner's present producers."""
        return self._producers(self.name.partition)

    @property
    def last_stable_offset(self) -> int:
        """The end of `read_committed` reads; 0 while offline."""
        return _last_stable_offset(self)

    def aborted_in_read(self, offset: int, size_bytes: int) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that may overlap a read."""
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
        """Create a partition without opening its log.

        Args:
            name: topic and number.
            open_log: opens the log.
            expiration_ms: idle time in milliseconds after which a producer expires.
            is_flushed_always: whether appends are synced at once.
            open_files: counts open logs.
        """
        self.name = name
        self.open_log = open_log
        self.is_flushed_always = is_flushed_always
        self.producers: ProducerStateManager | None = None
        """Set while the log is open."""
        self.log: PartitionLog | None = None
        self.failure: Exception | None = None
        self._expiration_ms = expiration_ms
        self._open_files = open_files
        self._tried_ms: int | None = None

    @property
    def high_watermark(self) -> int:
        """The end of reads; 0 while offline."""
        if self.log is None:
            return 0
        return self.log.durable_offset if self.is_flushed_always else self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end of `read_committed` reads; 0 while offline."""
        return _last_stable_offset(self)

    def aborted_in_read(self, offset: int, size_bytes: int) -> Sequence[AbortedTransaction]:
        """Return the aborted transactions that may overlap a read."""
        return _aborted_in_read(self.producers, offset, size_bytes)

    def open(self) -> None:
        """Open the log and load its producers. A broken log does not raise; `failure` has the reason."""
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
        """Return the error that prevents an append of this size now; None if it is possible."""
        return None

    def store_log_start(self, log: PartitionLog) -> None:
        """Store the log start offset durably if the checkpoint is behind. Blocks; call it outside of the event
        loop's thread.

        Raises:
            OSError: the disk failed.
        """

    def close_for_deletion(self) -> None:
        """Close the log, if open, before its deletion, and prevent that it is reopened."""
        # Break reference cycles, since full garbage collections are rare: `open_log` refers to
        # the topic, and the topic to this partition.
        self.open_log = partial(_raise_deleted, self.name)
        if self.log is not None:
            self.log.close_deleted()
            self.log.segment_listener = None  # the listener refers to the log
            self._open_files.release_file()

    def usable_log(self, monotonic_ms: int) -> PartitionLog | None:
        """Return the log; reopen it from disk if it had failed. Return None while that does not succeed."""
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
    """Return the last stable offset: the start of the log while the producers are unknown."""
    log, producers, end = partition.log, partition.producers, partition.high_watermark
    if producers is not None:
        return producers.find_last_stable_offset(end)
    return 0 if log is None else min(log.log_start_offset, end)


def _aborted_in_read(
    producers: ProducerStateManager | None, offset: int, size_bytes: int
) -> Sequence[AbortedTransaction]:
    return () if producers is None else producers.find_aborted_in_read(offset, size_bytes)
