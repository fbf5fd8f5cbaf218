"""Selects the logs to compact, and compacts them while the broker serves, one at a time, the dirtiest first.

A pass has a background budget: slices of two milliseconds on the event loop, with a pause of four times as long and
a turn in the run queue after each. Disk operations run in a thread. So a pass takes at most a fifth of the loop.
Source: Kafka's `LogCleaner`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from coordinator.broker.checkpoint_writer import CheckpointWriter
from coordinator.core import clock
from coordinator.core.daemon_log import OngoingFailures, format_repeats
from coordinator.core.time_budget import SLICE_NS, RunQueue, TimeBudget
from coordinator.runtime.runtime import Runtime
from coordinator.topics.partition import HostedPartition
from storage.compaction.compaction import (
    Compaction,
    CompactionResult,
    LogToClean,
    find_log_to_clean,
)
from storage.compaction.compaction_filter import CompactionTerms, IsLastOfProducer
from storage.compaction.compaction_steps import CompactionSteps
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.storage_errors import LogClosed, LogDamaged, LogPoisoned, StorageError, format_error_reason
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("LogCleaner")

BACKGROUND_SLICE_NS: Final = SLICE_NS * 2 // 5
PAUSE_S: Final = 4 * BACKGROUND_SLICE_NS / 1e9


class CompactableLog(NamedTuple):
    """A log to compact, with its limits."""

    partition: TopicPartition
    log: PartitionLog
    readable_offset: int
    """The offset up to which consumers may read."""
    is_last_of_producer: IsLastOfProducer


class BackgroundBudget(TimeBudget):
    """The budget of work that leaves most of the event loop to requests."""

    __slots__ = ("_pause",)

    def __init__(self, run_queue: RunQueue, pause: Callable[[float], Awaitable[None]]) -> None:
        """Create the budget. `pause` waits for a number of seconds; it raises an error to end the work."""
        super().__init__(run_queue)
        self._pause = pause

    async def checkpoint(self) -> None:
        """Pause and wait for a turn if this work has used its slice."""
        if clock.monotonic_ns() - self._started_ns > BACKGROUND_SLICE_NS:
            await self._pause(PAUSE_S)
            await self._run_queue.wait_turn()
            self.begin_slice()


class _Stopping(Exception):
    """Ends a pass because the daemon is stopping."""


class LogCleaner:
    """Compacts the logs of a server. All methods belong to the event loop's thread."""

    def __init__(
        self,
        directory: DataDirectory,
        checkpoints: CheckpointWriter,
        logs: Callable[[], Iterable[CompactableLog]],
        backoff_ms: int,
        failures: OngoingFailures,
        run_queue: RunQueue,
    ) -> None:
        """Create a cleaner.

        Args:
            directory: Drafts the checkpoints of the progress.
            checkpoints: Writes the checkpoints.
            logs: Lists the current logs to compact.
            backoff_ms: Pause before the next check for logs to compact.
            failures: Counts the failures of the disk.
            run_queue: Gives turns on the event loop.
        """
        self.passes = 0
        self.bytes_removed = 0
        self._directory = directory
        self._checkpoints = checkpoints
        self._logs = logs
        self._failures = failures
        self._run_queue = run_queue
        self._backoff_s = backoff_ms / 1000
        self._uncleanable: set[PartitionLog] = set()
        self._unclosed_transactions: dict[PartitionLog, int] = {}
        """The end of the dirty part of logs in which an open transaction prevented any progress of the last
        pass."""
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, with a pause first."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the current pass at its next pause, and wait for that."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    def abandon(self) -> None:
        """Stop at once, as in a crash."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while True:
                await self._pause(self._backoff_s)
                self._forget_closed()
                skipped = set(self._uncleanable)
                while not self._stop.is_set() and (due := self._find_dirtiest(skipped)) is not None:
                    target, todo = due
                    if not await self._clean_log(target, todo):
                        skipped.add(target.log)
        except _Stopping:
            return

    def _forget_closed(self) -> None:
        self._uncleanable = {log for log in self._uncleanable if not log.is_closed}
        self._unclosed_transactions = {
            log: offset for log, offset in self._unclosed_transactions.items() if not log.is_closed
        }

    async def _pause(self, seconds: float) -> None:
        """Wait. Raises _Stopping when the daemon stops."""
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return
        raise _Stopping

    def _find_dirtiest(self, skipped: set[PartitionLog]) -> tuple[CompactableLog, LogToClean] | None:
        now_ms = clock.wall_ms()
        due: list[tuple[CompactableLog, LogToClean]] = []
        for target in self._logs():
            log = target.log
            if log in skipped or log.failure is not None or log.is_closed:
                continue
            try:
                cleaned_to = self._directory.find_cleaned_offset(target.partition)
                todo = find_log_to_clean(log, cleaned_to, target.readable_offset, now_ms)
            except (LogDamaged, OSError) as error:
                self._mark_uncleanable(target, error)
                continue
            is_stuck = self._unclosed_transactions.get(log) == todo.end_offset
            if todo.is_due(log.config.min_cleanable_dirty_ratio) and not is_stuck:
                due.append((target, todo))
        return max(due, key=lambda each: each[1].dirty_ratio, default=None)

    def _mark_uncleanable(self, target: CompactableLog, error: Exception) -> None:
        """Exclude a log until it is opened again, because damage is permanent."""
        self._uncleanable.add(target.log)
        is_known = isinstance(error, LogDamaged | OSError)
        _LOG.error(
            "Compaction of %s is disabled until its log is opened again: %s",
            target.partition,
            format_error_reason(error),
            exc_info=None if is_known else error,
        )

    async def _clean_log(self, target: CompactableLog, todo: LogToClean) -> bool:
        """Run one pass. Return whether it cleaned the log."""
        terms = CompactionTerms(
            clock.wall_ms(), target.log.config.delete_retention_ms, target.is_last_of_producer
        )
        started_ns = clock.monotonic_ns()
        try:
            if target.log.compactable_offset < todo.end_offset:
                for draft in self._directory.draft_checkpoints({target.partition: target.log}):
                    await self._checkpoints.write_checkpoint(draft)
            if target.log.compactable_offset < todo.end_offset:
                return False  # a later write of the checkpoint has begun, and records the offset
            if target.log.is_pinned:
                return False  # the log is being copied
            compaction = Compaction(target.log, todo, terms)
            await self._run_steps(compaction.iterate_steps())
        except LogDamaged as error:
            self._mark_uncleanable(target, error)
            return False
        except (LogClosed, LogPoisoned) as error:
            _LOG.info("Compaction of %s ended: %s", target.partition, error)
            return False
        except (StorageError, OSError) as error:
            count = self._failures.count_failure(error)
            if count:
                _LOG.error(
                    "Compaction of %s failed, will retry: %s%s",
                    target.partition,
                    format_error_reason(error),
                    format_repeats(count),
                )
            return False
        except _Stopping:
            raise
        except Exception as problem:  # noqa: BLE001 - the cleaner continues with the other logs
            self._mark_uncleanable(target, problem)
            return False
        result = compaction.result
        assert result is not None
        if result.end_offset <= todo.first_dirty_offset:
            self._unclosed_transactions[target.log] = todo.end_offset
            return False
        return await self._record_result(target, result, clock.monotonic_ns() - started_ns)

    async def _record_result(
        self, target: CompactableLog, result: CompactionResult, duration_ns: int
    ) -> bool:
        self.passes += 1
        self.bytes_removed += result.bytes_before - result.bytes_after
        _LOG.info("Cleaned log %s in %dms (%s)", target.partition, duration_ns // 1_000_000, result)
        if result.records_without_key:
            _LOG.warning(
                "%s: %d records without a key were removed", target.partition, result.records_without_key
            )
        if target.log.is_closed:
            return False  # deleted meanwhile: a new topic may have the same name
        target.log.record_cleaning(result.end_offset)
        try:
            draft = self._directory.draft_cleaned_offset(target.partition, result.end_offset)
            await self._checkpoints.write_checkpoint(draft)
        except OSError as error:
            count = self._failures.count_failure(error)
            if count:
                _LOG.error(
                    "Failed to record the compaction position of %s: %s%s",
                    target.partition,
                    format_error_reason(error),
                    format_repeats(count),
                )
            return False
        return True

    async def _run_steps(self, steps: CompactionSteps) -> None:
        """Run a pass to its end. Raises its errors, and _Stopping."""
        loop = asyncio.get_running_loop()
        budget = BackgroundBudget(self._run_queue, self._pause)
        try:
            step = next(steps)
            while True:
                if step is not None:
                    try:
                        await loop.run_in_executor(None, step)
                    except OSError as error:
                        step = steps.throw(error)
                        continue
                else:
                    await budget.checkpoint()
                step = next(steps)
        except StopIteration:
            return
        finally:
            steps.close()


def list_compactable_logs(
    hosted: Callable[[], Iterable[HostedPartition]],
    internal: Mapping[str, Runtime[Any]],
    kept: Runtime[Any] | None,
) -> Iterator[CompactableLog]:
    """Yield the logs to compact.

    Args:
        hosted: Returns the current partitions of topics.
        internal: Runtimes of internal topics by name; later ones are included.
        kept: The runtime with logs that are never compacted; None for no exception.
    """
    for each in hosted():
        if each.log is not None and each.producers is not None and each.log.config.compacts:
            stable_offset = each.producers.find_last_stable_offset(each.high_watermark)
            yield CompactableLog(each.name, each.log, stable_offset, each.producers.state.is_last_batch)
    for partition in chain.from_iterable(each.partitions for each in internal.values() if each is not kept):
        if partition.log is not None and partition.producers is not None:
            is_last = partition.producers.state.is_last_batch
            yield CompactableLog(partition.name, partition.log, partition.last_stable_offset, is_last)
