"""Partitions whose log the disk has refused to write: only read until a trial append succeeds.

The machine has applied the records of an outcome before they are appended, so a refused append costs loading
the partition again. Until the log was tried, no request that writes reaches the machine. The first refusal in
a row is followed by a trial at once, further ones each second.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from coordinator.core.daemon_log import OngoingFailures
from coordinator.runtime.coordinator_partition import CoordinatorPartition, PartitionState
from storage.log import PartitionLog
from storage.storage_errors import StorageError

_LOG: Final = logging.getLogger("Engine")
RETRY_S: Final = 1.0
"""How long it takes until a disk that refused is asked again."""
TRIAL_BYTES: Final = 64 * 1024
"""More than most batches: where less fits, the next commits would be refused again."""


class RefusedPartitions:
    """The partitions of one internal topic that cannot be written. All methods belong to the event loop's
    thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        failures: OngoingFailures,
        refused: Callable[[CoordinatorPartition[Any], Exception], None],
        writable: Callable[[CoordinatorPartition[Any]], None],
        reload: Callable[[CoordinatorPartition[Any]], None],
    ) -> None:
        """In: who is told that a trial was refused, that a READ_ONLY partition can be written again, and that its
        log has to be opened anew."""
        self._loop = loop
        self._failures = failures
        self._refused = refused
        self._writable = writable
        self._reload = reload
        self._in_a_row: dict[CoordinatorPartition[Any], int] = {}
        """How often writes of a partition were refused since one went through."""
        self._waiting: list[CoordinatorPartition[Any]] = []
        self._trial: asyncio.TimerHandle | None = None

    def count(self, partition: CoordinatorPartition[Any]) -> None:
        """A write of a partition was refused."""
        self._in_a_row[partition] = self._in_a_row.get(partition, 0) + 1

    def doubt(self, partition: CoordinatorPartition[Any]) -> None:
        """A write of a partition may be refused: it is tried before the first."""
        self._in_a_row.setdefault(partition, 1)

    def is_over(self, partition: CoordinatorPartition[Any]) -> None:
        """A write of a partition went through."""
        if self._in_a_row and partition.state is PartitionState.OWNED:
            self._in_a_row.pop(partition, None)
            self._failures.record_recovery(str(partition.name))

    def is_writable(self, partition: CoordinatorPartition[Any], log: PartitionLog) -> bool:
        """Whether a partition that was just read may be written. Where not, it is tried again."""
        in_a_row = self._in_a_row.get(partition, 0)
        if not in_a_row or (in_a_row == 1 and self._takes(partition, log)):
            return True
        self._await(partition)
        return False

    def _takes(self, partition: CoordinatorPartition[Any], log: PartitionLog) -> bool:
        try:
            log.probe_append(TRIAL_BYTES)
        except (StorageError, OSError) as error:
            self._refused(partition, error)
            return False
        self._failures.record_recovery(str(partition.name))
        return True

    def _await(self, partition: CoordinatorPartition[Any]) -> None:
        if partition not in self._waiting:
            self._waiting.append(partition)
        if self._trial is None:
            self._trial = self._loop.call_later(RETRY_S, self._try_all)

    def _try_all(self) -> None:
        self._trial = None
        waiting, self._waiting = self._waiting, []
        for partition in waiting:
            try:
                self._try(partition)
            except Exception as problem:  # noqa: BLE001 - the other partitions are tried all the same
                _LOG.error("Failed to handle a trial write to %s", partition.name, exc_info=problem)
                self._await(partition)

    def _try(self, partition: CoordinatorPartition[Any]) -> None:
        log = partition.log
        if partition.state is not PartitionState.READ_ONLY or log is None:
            return  # released, or being read again
        if log.failure is not None:
            self._reload(partition)
        elif self._takes(partition, log):
            self._writable(partition)
        else:
            self._await(partition)

    def stop(self) -> None:
        """Nothing is tried any more."""
        if self._trial is not None:
            self._trial.cancel()
        self._waiting.clear()
