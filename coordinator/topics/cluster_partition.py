"""A partition whose records the engine of a cluster has: its log is here while this broker leads it.

The log is a copy, made from the engine when the broker becomes the leader, and closed when it is the leader no
longer. What is appended is acknowledged, and read, when the engine has it: *durable* means that, at every level of
acks.
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
"""The engine takes 1.5 MiB in a request, keys and all."""
MAX_WAITING_BYTES: Final = 32 << 20
"""That a partition may have on its way to the engine: what comes faster is refused until there is room."""


class ClusterRecords(Protocol):
    """The part of a cluster that has the records. All in the event loop's thread."""

    def reserve_room(self, size_bytes: int) -> bool:
        """Counts so many bytes more, if the engine may have them; whether it may."""

    def on_failed(self, partition: TopicPartition, log: PartitionLog) -> None:
        """The log can no longer be written: the partition is to be read anew."""

    def store_log_start(self, partition: TopicPartition, log: PartitionLog) -> None:
        """Has the engine know where a log begins now; blocks, in any other thread. Raises OSError."""


class ClusterPartition(HostedPartition):
    """A partition with replicas: the engine of a cluster has its records."""

    __slots__ = ("_records",)

    def __init__(
        self, name: TopicPartition, expiration_ms: int, open_files: OpenFileLimit, records: ClusterRecords
    ) -> None:
        super().__init__(name, partial(_raise_led_elsewhere, name), expiration_ms, True, open_files)
        self._records = records

    @property
    def expiration_ms(self) -> int:
        """How long an idle producer is remembered."""
        return self._expiration_ms

    def open(self) -> None:
        """It is opened when this broker leads it."""

    def begin_leading(self, log: PartitionLog, producers: ProducerStateManager) -> None:
        """This broker leads it from now on."""
        assert self.log is None, self.name
        self._open_files.count_open_file()
        self.log, self.producers, self.failure = log, producers, None

    def end_leading(self) -> PartitionLog | None:
        """This broker leads it no longer; the log that it had, if any, which is the caller's to close."""
        log, self.log, self.producers = self.log, None, None
        if log is not None:
            log.segment_listener = None
            if not log.is_closed:
                self._open_files.release_file()
        return log

    def usable_log(self, monotonic_ms: int) -> PartitionLog | None:
        """The log; None while it is not here. One that has failed is read anew from the engine."""
        log = self.log
        if log is not None and log.failure is not None:
            self._records.on_failed(self.name, log)
            return None
        return log

    def find_append_error(self, size_bytes: int) -> ErrorCode | None:
        """Why a batch of a size is not to be appended now."""
        if size_bytes > MAX_BATCH_BYTES:
            return ErrorCode.MESSAGE_TOO_LARGE
        queue = None if self.log is None else self.log.durability.replication_queue
        if queue is not None and queue.unconfirmed_bytes + size_bytes > MAX_WAITING_BYTES:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return None if self._records.reserve_room(size_bytes) else ErrorCode.KAFKA_STORAGE_ERROR

    def store_log_start(self, log: PartitionLog) -> None:
        """The engine has to know it. Raises OSError."""
        self._records.store_log_start(self.name, log)


def _raise_led_elsewhere(name: TopicPartition) -> PartitionLog:
    raise FileClosed(str(name), "is led by another broker")
