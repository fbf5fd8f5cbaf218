"""The logs of the partitions of one internal topic: opened and reread for a load, and closed after a release.

A log that compaction uses is poisoned first. Its compaction then ends soon, but may be about to replace
files. Until then the log is busy, and a load has to wait for it.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from coordinator.core.shared_types import LogFlush
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.machine import InternalTopic
from coordinator.runtime.partition_lifecycle import LifecycleStage
from coordinator.runtime.partition_loader import begin_leader_epoch
from storage.log import PartitionLog
from storage.storage_errors import LogPoisoned

BUSY_RETRY_S: Final = 0.01
"""Delay in seconds until the next check of a busy log."""


class LoadSource(NamedTuple):
    """The log of one load."""

    open_log: Callable[[], PartitionLog]
    """Returns the log. Blocks, so a thread calls it. Raises StorageError, OSError."""
    is_new: bool
    """Whether `open_log` opens a log, which an unwanted load has to close."""
    is_durable_only: bool = False
    """Whether a sync of the log has failed, so that only its durable part can be read."""


class PartitionLogs:
    """The logs of the partitions of one internal topic. All methods belong to the event loop's thread."""

    def __init__(self, topic: InternalTopic[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._topic = topic
        self._loop = loop
        self._is_stopped = False
        self._failed: dict[int, PartitionLog] = {}
        """The logs that must be reopened, by partition. `CoordinatorPartition.log` is None meanwhile."""
        self._closing: dict[int, PartitionLog] = {}
        """The logs of released partitions that compaction still uses."""

    def stop(self) -> None:
        """Close the logs that compaction uses without waiting for it."""
        self._is_stopped = True

    def find_load_source(self, partition: CoordinatorPartition[Any]) -> LoadSource | None:
        """Return the log for the next load of a partition, or None while it is busy.

        A load rereads the same log unless it has failed. After a failure the disk's content beyond the
        durable offset is unknown, and the log is reopened. If its durable part has all acknowledged records,
        that part is loaded first.
        """
        number = partition.number
        if number in self._closing:
            return None
        log = partition.log or self._failed.get(number)
        if log is None:
            return LoadSource(partial(self._open_for_writing, partial(self._topic.open_log, number)), True)
        if log.is_pinned:
            log.poison(LogPoisoned(log.directory, "is about to be loaded again"))
            return None
        if log.failure is None and not log.is_closed:
            return LoadSource(partial(self._keep_for_writing, log), False)
        partition.detach_log()
        self._failed[number] = log
        if partition.stage is LifecycleStage.WAITING and self._holds_all_acknowledged(log):
            return LoadSource(lambda: log, False, is_durable_only=True)
        return self.reopen(partition)

    def _holds_all_acknowledged(self, log: PartitionLog) -> bool:
        """Return whether a failed log has no acknowledged records beyond its durable offset. Before the first
        sync of a recovered log, an earlier process or owner may have acknowledged its records.
        """
        is_synced = log.durable_offset >= log.recovery_report.log_end_offset
        return is_synced and self._topic.flush is LogFlush.ALWAYS and not log.is_closed

    def reopen(self, partition: CoordinatorPartition[Any]) -> LoadSource:
        """Return the failed log of a partition, to be reopened."""
        return LoadSource(partial(self._open_for_writing, self._failed[partition.number].reopen), True)

    def _open_for_writing(self, open_log: Callable[[], PartitionLog]) -> PartitionLog:
        """Open a log that a machine will append to. Called in a thread. Raises StorageError, OSError."""
        log = open_log()
        try:
            return self._keep_for_writing(log)
        except BaseException:
            log.close(clean=False)
            raise

    def _keep_for_writing(self, log: PartitionLog) -> PartitionLog:
        """Begin a leader epoch if the topic has them. Called in a thread. Raises StorageError, OSError."""
        if self._topic.starts_leader_epochs:
            begin_leader_epoch(log)
        return log

    def on_opened(self, partition: CoordinatorPartition[Any], log: PartitionLog) -> None:
        """Make an opened log the log of its partition."""
        self._failed.pop(partition.number, None)
        partition.attach_log(log)

    def release(self, partition: CoordinatorPartition[Any]) -> None:
        """Close the log of a partition without a machine, if it has one, as soon as compaction does not use it."""
        number, log = partition.number, partition.detach_log()
        log = self._failed.pop(number, None) or log
        if log is None:
            return
        if log.is_pinned:
            log.poison(LogPoisoned(log.directory, "is being released"))
            self._closing[number] = log
            self._loop.call_later(BUSY_RETRY_S, self._close_unused, number, log)
        elif not log.is_closed:
            log.close(clean=False)

    def _close_unused(self, number: int, log: PartitionLog) -> None:
        if log.is_pinned and not self._is_stopped:
            self._loop.call_later(BUSY_RETRY_S, self._close_unused, number, log)
            return
        del self._closing[number]
        if not log.is_closed:
            log.close(clean=False)
