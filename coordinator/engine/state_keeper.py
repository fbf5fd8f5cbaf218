"""Keeps state files beside the logs of machines, so that a start need not read whole histories.

At a stop every partition gets one whose log has gone on by more records than are read in no time. While the
daemon runs, a partition gets one when what a start would have to read has grown to several times what writing
the state costs: that bounds a start after a crash too, and costs a small part of what the commits did. Both are
written in small pieces between which the loop does other work.

A partition whose log has transactions without an end gets none: what they would come to is no state yet.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from coordinator.async_files import AsyncFiles
from coordinator.engine.machine import Codec, Durable, Machine
from coordinator.engine.partition import Partition, PartitionState
from coordinator.engine.state_records import batches_of
from coordinator.engine.state_writer import write_state
from coordinator.ongoing_failures import OngoingFailures, times
from storage.errors import StorageError
from storage.files import Files
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.state_file import StatePoint, has_state

RECORDS_AT_A_STOP: Final = 500
"""Fewer than this are read faster than a file is synced."""
RECORDS_MEANWHILE: Final = 50_000
RECORDS_FOR_EACH_KEY: Final = 4
PAUSE_S: Final = 0.005
"""After each piece, which takes about a fifth of it."""


class _Taken(NamedTuple):
    """A state in memory, on its way to a file."""

    partition: Partition[Any]
    log: PartitionLog
    machine: Machine
    point: StatePoint
    state: Durable


class StateKeeper:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        files: Files,
        codec: Codec,
        partitions: Sequence[Partition[Any]],
        logger: str,
        failures: OngoingFailures,
    ) -> None:
        """In: who counts what the disk refuses."""
        self._failures = failures
        self._files = files
        self._async_files = AsyncFiles(files)
        self._codec = codec
        self._log = logging.getLogger(logger)
        self._partitions = partitions
        self._end_offsets: dict[int, int] = {}
        """Where the newest state of a partition ends, by number; missing until it is read."""
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self.written = 0

    def loaded(self, partition: Partition[Any], state_end_offset: int) -> None:
        """A partition was read, from a state that ended at `state_end_offset` (0: from the start)."""
        self._end_offsets[partition.number] = state_end_offset

    def write_due(self) -> None:
        """Begins to write the states that are due by now, unless that goes on already."""
        if self._task is None and not self._is_stopping:
            due = [part for part in self._partitions if self._is_due(part)]
            if due:
                self._task = asyncio.get_running_loop().create_task(self._write_due(due))
                self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._log.error("Writing states", exc_info=problem)

    async def stop(self) -> None:
        """Waits for what is being written; nothing more is begun."""
        self._is_stopping = True
        if self._task is not None:
            await asyncio.wait([self._task])

    def take_last(self) -> list[_Taken]:
        """The states to write at a stop, taken while the groups are still in service and their logs durable."""
        taken = [
            self._take(part) for part in self._partitions if self._records_since(part) >= RECORDS_AT_A_STOP
        ]
        return [one for one in taken if one is not None and one.log.durable_offset >= one.point.end_offset]

    async def write_last(self, taken: list[_Taken]) -> None:
        """Writes what `take_last` gave. What cannot be written is told, and costs the next start time."""
        for one in taken:
            await self._write(one, _to_its_end)

    def abandon(self) -> None:
        """Ends at once, as in a crash."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()

    def _records_since(self, partition: Partition[Any]) -> int:
        """What a start would have to read besides the newest state; 0 where there is to be none."""
        end_offset = self._end_offsets.get(partition.number)
        log, machine = partition.log, partition.machine
        if end_offset is None or log is None or log.failure is not None or log.is_closed:
            return 0
        if machine is None or partition.has_open_transactions:
            return 0
        if end_offset and not has_state(self._files, log, end_offset):
            # Compaction has gone past it.
            end_offset = self._end_offsets[partition.number] = 0
        return log.log_end_offset - max(end_offset, log.log_start_offset)

    def _is_due(self, partition: Partition[Any]) -> bool:
        records = self._records_since(partition)
        if records < RECORDS_MEANWHILE or partition.machine is None:
            return False
        return records >= RECORDS_FOR_EACH_KEY * int(partition.machine.durable_keys)

    def _take(self, partition: Partition[Any]) -> _Taken | None:
        """The machine's state as it is, and where its log is; None when the two are not the same just now."""
        log, machine = partition.log, partition.machine
        if log is None or machine is None or partition.state is not PartitionState.OWNED:
            return None
        if partition.pending_records or partition.has_open_transactions:
            return None
        try:
            point = StatePoint.of(log, log.log_end_offset)
        except (StorageError, OSError) as error:
            self._log.warning("No state of %s is taken: %s", partition.name, reason_of(error))
            return None
        return None if point is None else _Taken(partition, log, machine, point, machine.copy_durable())

    async def _write_due(self, due: list[Partition[Any]]) -> None:
        for partition in due:
            # The turn's records are appended at its end.
            await asyncio.sleep(0)
            if self._is_stopping:
                return
            taken = self._take(partition)
            if taken is None or not await self._write(taken, partial(self._pause, taken)):
                continue
            if partition.log is taken.log and partition.number in self._end_offsets:
                self._end_offsets[partition.number] = taken.point.end_offset
                self.written += 1

    async def _pause(self, taken: _Taken) -> bool:
        """Leaves the loop to others; whether the state is still that of a partition in service."""
        await asyncio.sleep(PAUSE_S)
        return not self._is_stopping and taken.partition.machine is taken.machine

    async def _write(self, taken: _Taken, goes_on: Callable[[], Awaitable[bool]]) -> bool:
        """Whether a state is written; why it cannot be, is told."""
        batches = batches_of(taken.state, self._codec)
        contents, count = self._codec.contents, len(taken.state)
        try:
            return await write_state(
                self._async_files, taken.log, taken.point, contents, count, batches, goes_on
            )
        except OSError as error:
            count = self._failures.counted(error)
            if count:
                self._log.warning(
                    "No state of %s could be written: %s%s",
                    taken.partition.name,
                    reason_of(error),
                    times(count),
                )
            return False


async def _to_its_end() -> bool:
    return True
