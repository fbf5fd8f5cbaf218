"""Partitions whose log the disk has refused to write: only read until a trial says that it takes writes again.

The records of an outcome are in memory before they are in the log, and a refused append costs reading the partition
again. So after one, nothing that writes is put to the machine before the log was tried: at once where it was the
first refusal in a row, and each second where it was not, or where the trial was refused too.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from coordinator.engine.partition import Partition, PartitionState
from coordinator.ongoing_failures import OngoingFailures
from storage.errors import StorageError
from storage.log import PartitionLog

_LOG: Final = logging.getLogger("Engine")
RETRY_S: Final = 1.0
"""How long it takes until a disk that refused is asked again."""
TRIAL_BYTES: Final = 64 * 1024
"""More than most batches: where less fits, the next commits would be refused again."""


class RefusedPartitions:
    """Of one internal topic. All methods belong to the event loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        failures: OngoingFailures,
        refused: Callable[[Partition[Any], Exception], None],
        writable: Callable[[Partition[Any]], None],
        reload: Callable[[Partition[Any]], None],
    ) -> None:
        """In: who is told that a trial was refused, that a READ_ONLY partition can be written again, and that its
        log has to be opened anew."""
        self._loop = loop
        self._failures = failures
        self._refused = refused
        self._writable = writable
        self._reload = reload
        self._in_a_row: dict[Partition[Any], int] = {}
        """How often writes of a partition were refused since one went through."""
        self._waiting: list[Partition[Any]] = []
        self._trial: asyncio.TimerHandle | None = None

    def count(self, partition: Partition[Any]) -> None:
        """A write of a partition was refused."""
        self._in_a_row[partition] = self._in_a_row.get(partition, 0) + 1

    def doubt(self, partition: Partition[Any]) -> None:
        """A write of a partition may be refused: it is tried before the first."""
        self._in_a_row.setdefault(partition, 1)

    def is_over(self, partition: Partition[Any]) -> None:
        """A write of a partition went through."""
        if self._in_a_row and partition.state is PartitionState.OWNED:
            self._in_a_row.pop(partition, None)
            self._failures.is_over(str(partition.name))

    def is_writable(self, partition: Partition[Any], log: PartitionLog) -> bool:
        """Whether a partition that was just read may be written. Where not, it is tried again."""
        in_a_row = self._in_a_row.get(partition, 0)
        if not in_a_row or (in_a_row == 1 and self._takes(partition, log)):
            return True
        self._await(partition)
        return False

    def _takes(self, partition: Partition[Any], log: PartitionLog) -> bool:
        try:
            log.try_append(TRIAL_BYTES)
        except (StorageError, OSError) as error:
            self._refused(partition, error)
            return False
        self._failures.is_over(str(partition.name))
        return True

    def _await(self, partition: Partition[Any]) -> None:
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

    def _try(self, partition: Partition[Any]) -> None:
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
