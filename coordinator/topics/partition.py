"""One partition of a topic: its log, what it remembers of producers, and how far consumers may read.

The *high watermark* is where reading ends. A partition here has one replica, so it is the log's end, unless
records are promised to survive power loss (`log.flush=always`): then it is what the disk has.

The *last stable offset* is where reading ends for consumers of committed records: the high watermark, or where the
earliest transaction begins whose end they cannot see yet.

A partition whose log cannot be opened, or has failed since, is *offline*: `log` is None, its requests get
KAFKA_STORAGE_ERROR, and everything else goes on. It is tried again when it is next needed, at most once a
second.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from coordinator.topics.open_files import OpenFiles
from protocol.errors import ErrorCode
from storage.errors import FileClosed, StorageError
from storage.log import PartitionLog
from storage.producers.log_producers import LogProducers
from storage.topic_partition import TopicPartition
from storage.transaction_index import AbortedTransaction

RETRY_MS: Final = 1000


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
    def last_stable_offset(self) -> int:
        """Where reading ends for consumers of committed records; 0 while offline."""

    @property
    def producers(self) -> LogProducers | None:
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
        producers: Callable[[int], LogProducers | None],
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
    def producers(self) -> LogProducers | None:
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
        open_files: OpenFiles,
    ) -> None:
        """In: how to open the log for the first time; how long an idle producer is remembered; where an open log
        is counted."""
        self.name = name
        self.open_log = open_log
        self.is_flushed_always = is_flushed_always
        self.producers: LogProducers | None = None
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
        self._open_files.take()
        try:
            self._use(self.open_log())
        except BaseException:
            self._open_files.give_back()
            raise

    def _use(self, log: PartitionLog) -> None:
        try:
            if self.is_flushed_always:
                log.sync()
            producers = LogProducers.load(log, self._expiration_ms)
        except BaseException:
            log.close(clean=False)
            raise
        self.log, self.producers, self.failure = log, producers, None

    def why_not(self, _: int) -> ErrorCode | None:
        """Why a batch of a size is not to be appended now; None where it may be."""
        return None

    def keep_start(self, log: PartitionLog) -> None:
        """Has it last where its log begins now, as far as checkpoints do not. Blocks; in any thread but the loop's.
        Raises OSError."""

    def let_go(self) -> None:
        """It is about to be deleted: its log is closed, if it is open, and not opened again."""
        # Full collections of garbage are rare. What it opens its log with knows its topic, which knows this one,
        self.open_log = partial(_deleted, self.name)
        if self.log is not None:
            self.log.let_go()
            self.log.follower = None  # and who follows the log knows that.
            self._open_files.give_back()

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


def _deleted(name: TopicPartition) -> PartitionLog:
    raise FileClosed(str(name), "is deleted")


def _last_stable_offset(partition: Partition) -> int:
    """As long as nobody knows of transactions nothing is stable."""
    log, producers, end = partition.log, partition.producers, partition.high_watermark
    if producers is not None:
        return producers.last_stable_offset(end)
    return 0 if log is None else min(log.log_start_offset, end)


def _aborted_in_read(
    producers: LogProducers | None, offset: int, size_bytes: int
) -> Sequence[AbortedTransaction]:
    return () if producers is None else producers.aborted_in_read(offset, size_bytes)
