"""Writes state files next to the logs of machines, so that a start need not read whole logs.

At a stop, a partition gets a state file if reading the new records would take longer than syncing the file.
While the daemon runs, a partition gets one when the records that a start would have to read cost several times
as much as the state file. That bounds a start after a crash too, and costs a small part of the commits. Both are
written batch by batch, never whole in memory, and the event loop does other work in between.

A log with open transactions gets no state file, because their outcome is unknown. Records of types without a
machine are not part of a state file and stay in the log. If a later groupd supports them, its codec has another
content type, and the load reads the log.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from coordinator.core.async_files import AsyncFiles
from coordinator.core.daemon_log import OngoingFailures, format_repeats
from coordinator.core.outcome import EncodedFact
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.machine import DurableSnapshot, Machine, RecordCodec
from coordinator.runtime.partition_lifecycle import PartitionState
from storage.batch import NO_TIMESTAMP, encode_key_value_batch, read_header
from storage.files import Files
from storage.log import PartitionLog
from storage.state_file import StatePoint, encode_state_header, format_state_path, has_state, is_state_file
from storage.storage_errors import StorageError, format_error_reason

MIN_RECORDS_AT_STOP: Final = 500
"""The number of records below which reading them is faster than syncing a file."""
MIN_RECORDS_WHILE_RUNNING: Final = 50_000
MIN_RECORDS_PER_KEY: Final = 4
PAUSE_S: Final = 0.005
"""The pause in seconds after each batch; encoding a batch takes about a fifth of it. A time budget would let a
state file use every free slice of the loop. The pause leaves most of the CPU and of the disk to commits.
"""

RECORDS_PER_BATCH: Final = 200
_BATCH_BYTES: Final = 1024 * 1024


class _CapturedState(NamedTuple):
    """A state in memory, to be written to a file."""

    partition: CoordinatorPartition[Any]
    log: PartitionLog
    machine: Machine
    point: StatePoint
    state: DurableSnapshot


class StateKeeper:
    """Writes the state files of one internal topic. All methods belong to the event loop's thread."""

    def __init__(
        self,
        files: Files,
        codec: RecordCodec,
        partitions: Sequence[CoordinatorPartition[Any]],
        logger: str,
        failures: OngoingFailures,
    ) -> None:
        """Create a keeper. `failures` counts the failures of the disk."""
        self._failures = failures
        self._files = files
        self._async_files = AsyncFiles(files)
        self._codec = codec
        self._log = logging.getLogger(logger)
        self._partitions = partitions
        self._end_offsets: dict[int, int] = {}
        """End offset of the newest state file by partition number; missing until the partition is loaded."""
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self.written_count = 0

    def on_loaded(self, partition: CoordinatorPartition[Any], state_end_offset: int) -> None:
        """Register a loaded partition and the end offset of the state file that it used (0: none)."""
        self._end_offsets[partition.number] = state_end_offset

    def write_due(self) -> None:
        """Start to write the due state files, unless a write is in progress."""
        if self._task is None and not self._is_stopping:
            due = [part for part in self._partitions if self._is_due(part)]
            if due:
                self._task = asyncio.get_running_loop().create_task(self._write_due(due))
                self._task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._log.error("Writing states", exc_info=problem)

    async def stop(self) -> None:
        """Wait for the current write, and start no other."""
        self._is_stopping = True
        if self._task is not None:
            await asyncio.wait([self._task])

    def capture_final_states(self) -> list[_CapturedState]:
        """Return the states to write at a stop. Call it while the machines are in service and their logs are
        durable.
        """
        captured = [
            self._capture_state(part)
            for part in self._partitions
            if self._records_since(part) >= MIN_RECORDS_AT_STOP
        ]
        return [one for one in captured if one is not None and one.log.durable_offset >= one.point.end_offset]

    async def write_final_states(self, captured: list[_CapturedState]) -> None:
        """Write the states of `capture_final_states`. A failed write is logged; it only makes the next start
        slower.
        """
        for one in captured:
            await self._write_state(one, _always_continue)

    def abandon(self) -> None:
        """Stop at once, as in a crash."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()

    def _records_since(self, partition: CoordinatorPartition[Any]) -> int:
        """Return the number of records that a start would read after the newest state file; 0 if none should be
        written.
        """
        end_offset = self._end_offsets.get(partition.number)
        log, machine = partition.log, partition.machine
        if end_offset is None or log is None or log.failure is not None or log.is_closed:
            return 0
        if machine is None or partition.has_open_transactions:
            return 0
        if end_offset and not has_state(self._files, log, end_offset):
            # Compaction has removed the state file.
            end_offset = self._end_offsets[partition.number] = 0
        return log.log_end_offset - max(end_offset, log.log_start_offset)

    def _is_due(self, partition: CoordinatorPartition[Any]) -> bool:
        records = self._records_since(partition)
        if records < MIN_RECORDS_WHILE_RUNNING or partition.machine is None:
            return False
        return records >= MIN_RECORDS_PER_KEY * int(partition.machine.durable_keys)

    def _capture_state(self, partition: CoordinatorPartition[Any]) -> _CapturedState | None:
        """Return the machine's state and its offset in the log; None while the machine is ahead of the log."""
        log, machine = partition.log, partition.machine
        if log is None or machine is None or partition.state is not PartitionState.OWNED:
            return None
        if partition.pending_records or partition.has_open_transactions:
            return None
        try:
            point = StatePoint.at_offset(log, log.log_end_offset)
        except (StorageError, OSError) as error:
            self._log.warning(
                "Failed to capture the state of %s: %s", partition.name, format_error_reason(error)
            )
            return None
        return (
            None if point is None else _CapturedState(partition, log, machine, point, machine.copy_durable())
        )

    async def _write_due(self, due: list[CoordinatorPartition[Any]]) -> None:
        for partition in due:
            # Appends happen at the end of a loop iteration: at its start no records are pending.
            await asyncio.sleep(0)
            if self._is_stopping:
                return
            captured = self._capture_state(partition)
            if captured is None or not await self._write_state(captured, partial(self._pause, captured)):
                continue
            if partition.log is captured.log and partition.number in self._end_offsets:
                self._end_offsets[partition.number] = captured.point.end_offset
                self.written_count += 1

    async def _pause(self, captured: _CapturedState) -> bool:
        """Let other work run. Return whether the partition is still in service with the captured state."""
        await asyncio.sleep(PAUSE_S)
        return not self._is_stopping and captured.partition.machine is captured.machine

    async def _write_state(
        self, captured: _CapturedState, should_continue: Callable[[], Awaitable[bool]]
    ) -> bool:
        """Write a state file and return whether it is in place. A failure is logged."""
        batches = encode_state_batches(captured.state, self._codec)
        contents, count = self._codec.contents, len(captured.state)
        try:
            return await write_state(
                self._async_files, captured.log, captured.point, contents, count, batches, should_continue
            )
        except OSError as error:
            count = self._failures.count_failure(error)
            if count:
                self._log.warning(
                    "Failed to write a state file of %s: %s%s",
                    captured.partition.name,
                    format_error_reason(error),
                    format_repeats(count),
                )
            return False


async def _always_continue() -> bool:
    return True


async def write_state(
    files: AsyncFiles,
    log: PartitionLog,
    point: StatePoint,
    contents: str,
    records_count: int,
    batches: Iterable[bytes],
    should_continue: Callable[[], Awaitable[bool]],
) -> bool:
    """Write the state of `log` at `point`, and remove the states that it replaces. Return whether it is in place.

    This uses only the directory name of the log.

    Args:
        files: File system.
        log: The log.
        point: Offset of the state.
        contents: Content type of the records.
        records_count: Number of records.
        batches: Encoded batches of the records.
        should_continue: Awaited after each batch; returns whether the state is still needed.

    Raises:
        OSError: The write failed. The log then has its earlier state file, or both.
    """
    path = format_state_path(log, point.end_offset)
    head = encode_state_header(point, contents, records_count)
    written = 0
    async with files.new_file(path) as file:
        await file.write(head)
        for batch in batches:
            await file.write(batch)
            written += read_header(batch).records_count
            if not await should_continue():
                return False
        assert written == records_count, (path, written, records_count)
        await file.sync()
        if not await should_continue():
            return False
        try:
            await file.put_in_place()
        except FileNotFoundError:
            # Compaction has removed the temporary file.
            return False
    for name in await files.listdir(log.directory):
        other = f"{log.directory}/{name}"
        if is_state_file(name) and other != path:
            with suppress(FileNotFoundError):
                await files.unlink(other)
    return True


def encode_state_batches(state: DurableSnapshot, codec: RecordCodec) -> Iterator[bytes]:
    """Yield the records of a state in encoded batches, each of which takes little time."""
    batch: list[EncodedFact] = []
    size = 0
    for fact in state.facts():
        encoded = codec.encode(fact)
        assert encoded.value is not None, f"{fact.key} is a tombstone"
        batch.append(encoded)
        size += len(encoded.value)
        if len(batch) == RECORDS_PER_BATCH or size > _BATCH_BYTES:
            yield encode_key_value_batch(batch, NO_TIMESTAMP, 0, 0)
            batch, size = [], 0
    if batch:
        yield encode_key_value_batch(batch, NO_TIMESTAMP, 0, 0)
