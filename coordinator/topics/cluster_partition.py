"""A partition with its records in a cluster's engine. Its leader also has a local log.

The log is a copy: the broker fills it from the engine when it becomes the leader, and closes it when it loses the
leadership. A record is acknowledged and readable once the engine has stored it, for every value of acks. That is
the meaning of *durable* here.
"""

from functools import partial
from typing import Final, Protocol

from coordinator.topics.open_files import OpenFileLimit
from coordinator.topics.partition import HostedPartition
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog
from storage.producers.producer_state_manager import ProducerStateManager
from storage.storage_errors import FileClosed
from storage.topic_partition import TopicPartition

MAX_BATCH_BYTES: Final = 1_400_000
"""The maximum size of a batch in bytes. The engine accepts requests of 1.5 MiB, including keys."""
MAX_WAITING_BYTES: Final = 32 << 20
"""The maximum number of a partition's bytes that the engine has not acknowledged. Further batches are rejected
until there is room."""


class ClusterRecords(Protocol):
    """The component of a cluster that stores records. All methods belong to the event loop's thread."""

    def reserve_room(self, size_bytes: int) -> bool:
        """Reserve bytes on the way to the engine; return False if the limit is reached."""

    def on_failed(self, partition: TopicPartition, log: PartitionLog) -> None:
        """Handle a failed log: the partition must be loaded anew."""

    def store_log_start(self, partition: TopicPartition, log: PartitionLog) -> None:
        """Store the log start offset in the engine. Blocks; call it outside of the event loop's thread.

        Raises:
            OSError: the engine failed.
        """


class ClusterPartition(HostedPartition):
    """A replicated partition with its records in the cluster's engine."""

    __slots__ = ("_records",)

    def __init__(
        self, name: TopicPartition, expiration_ms: int, open_files: OpenFileLimit, records: ClusterRecords
    ) -> None:
        super().__init__(name, partial(_raise_led_elsewhere, name), expiration_ms, True, open_files)
        self._records = records

    @property
    def expiration_ms(self) -> int:
        """The time in milliseconds after which an idle producer expires."""
        return self._expiration_ms

    def open(self) -> None:
        """Do nothing: the log is opened when this broker becomes the leader."""

    def begin_leading(self, log: PartitionLog, producers: ProducerStateManager) -> None:
        """Handle the start of this broker's leadership."""
        assert self.log is None, self.name
        self._open_files.count_open_file()
        self.log, self.producers, self.failure = log, producers, None

    def record_open_failure(self, error: Exception) -> None:
        """Record why this broker, which was elected, cannot lead yet."""
        self.failure = error

    def end_leading(self) -> PartitionLog | None:
        """Handle the end of this broker's leadership. Return the log, if any; the caller must close it."""
        log, self.log, self.producers = self.log, None, None
        if log is not None:
            log.segment_listener = None
            if not log.is_closed:
                self._open_files.release_file()
        return log

    def usable_log(self, monotonic_ms: int) -> PartitionLog | None:
        """Return the log, or None without a local one. A failed log is loaded anew from the engine."""
        log = self.log
        if log is not None and log.failure is not None:
            self._records.on_failed(self.name, log)
            return None
        return log

    def find_append_error(self, size_bytes: int) -> ErrorCode | None:
        """Return the error that prevents an append of this size now; None if it is possible."""
        if size_bytes > MAX_BATCH_BYTES:
            return ErrorCode.MESSAGE_TOO_LARGE
        queue = None if self.log is None else self.log.durability.replication_queue
        if queue is not None and queue.unconfirmed_bytes + size_bytes > MAX_WAITING_BYTES:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return None if self._records.reserve_room(size_bytes) else ErrorCode.KAFKA_STORAGE_ERROR

    def store_log_start(self, log: PartitionLog) -> None:
        """Store the log start offset in the engine.

        Raises:
            OSError: the engine failed.
        """
        self._records.store_log_start(self.name, log)


def _raise_led_elsewhere(name: TopicPartition) -> PartitionLog:
    raise FileClosed(str(name), "is led by another broker")
