"""Compacts logs while the daemon serves, one at a time, the dirtiest first.

A pass works in slices on the event loop's thread, a few milliseconds each, with pauses that are several times as
long; what waits for the disk is done in another thread. So serving does not notice, and a pass takes its time.

Source: Kafka's `LogCleaner`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from coordinator import clock
from coordinator.ongoing_failures import OngoingFailures, times
from coordinator.server.checkpoints import Checkpoints
from storage.compaction.cleanable import Cleanable, cleanable
from storage.compaction.compaction import Compacted, Compaction, Steps
from storage.compaction.survivors import IsLastOfProducer, Terms
from storage.data_directory import DataDirectory
from storage.errors import LogClosed, LogDamaged, LogPoisoned, StorageError
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("LogCleaner")

SLICE_NS: Final = 2_000_000
PAUSE_S: Final = 0.008


class Compactable(NamedTuple):
    """A log that is to be compacted, and what is known of it outside."""

    partition: TopicPartition
    log: PartitionLog
    readable_offset: int
    """Where consumers may read up to."""
    is_last_of_producer: IsLastOfProducer


class _Stopping(Exception):
    """The daemon stops."""


class Cleaner:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        directory: DataDirectory,
        checkpoints: Checkpoints,
        logs: Callable[[], Iterable[Compactable]],
        backoff_ms: int,
        failures: OngoingFailures,
    ) -> None:
        """In: where the progress is recorded, and who writes it down; the logs that are to be compacted, asked for
        anew each time; how long to rest when there is nothing to do; who counts what the disk refuses."""
        self.passes = 0
        self.bytes_removed = 0
        self._directory = directory
        self._checkpoints = checkpoints
        self._logs = logs
        self._failures = failures
        self._backoff_s = backoff_ms / 1000
        self._uncleanable: set[PartitionLog] = set()
        self._stuck: dict[PartitionLog, int] = {}
        """Where the dirty part ended that a pass made nothing of, since a transaction in it has no end."""
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, with a rest."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends the pass that is under way, at its next pause, and waits for that."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])

    def abandon(self) -> None:
        """Ends at once, as in a crash."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while True:
                await self._pause(self._backoff_s)
                self._forget_closed()
                skipped = set(self._uncleanable)
                while not self._stop.is_set() and (due := self._dirtiest(skipped)) is not None:
                    target, todo = due
                    if not await self._clean(target, todo):
                        skipped.add(target.log)
        except _Stopping:
            return

    def _forget_closed(self) -> None:
        self._uncleanable = {log for log in self._uncleanable if not log.is_closed}
        self._stuck = {log: offset for log, offset in self._stuck.items() if not log.is_closed}

    async def _pause(self, seconds: float) -> None:
        """Raises _Stopping when the daemon does."""
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return
        raise _Stopping

    def _dirtiest(self, skipped: set[PartitionLog]) -> tuple[Compactable, Cleanable] | None:
        now_ms = clock.wall_ms()
        due: list[tuple[Compactable, Cleanable]] = []
        for target in self._logs():
            log = target.log
            if log in skipped or log.failure is not None or log.is_closed:
                continue
            try:
                cleaned_to = self._directory.cleaned_to(target.partition)
                todo = cleanable(log, cleaned_to, target.readable_offset, now_ms)
            except (LogDamaged, OSError) as error:
                self._give_up(target, error)
                continue
            is_stuck = self._stuck.get(log) == todo.end_offset
            if todo.is_due(log.config.min_cleanable_dirty_ratio) and not is_stuck:
                due.append((target, todo))
        return max(due, key=lambda each: each[1].dirty_ratio, default=None)

    def _give_up(self, target: Compactable, error: Exception) -> None:
        """Until the log is opened again: what is damaged stays so."""
        self._uncleanable.add(target.log)
        is_known = isinstance(error, LogDamaged | OSError)
        _LOG.error(
            "%s is not compacted any more: %s",
            target.partition,
            reason_of(error),
            exc_info=None if is_known else error,
        )

    async def _clean(self, target: Compactable, todo: Cleanable) -> bool:
        """One pass; whether the log is cleaner than before."""
        terms = Terms(clock.wall_ms(), target.log.config.delete_retention_ms, target.is_last_of_producer)
        started_ns = clock.monotonic_ns()
        try:
            if target.log.compactable_offset < todo.end_offset:
                for draft in self._directory.draft_checkpoints({target.partition: target.log}):
                    await self._checkpoints.write(draft)
            if target.log.compactable_offset < todo.end_offset:
                return False  # a later one was begun meanwhile, and says so when it is written
            if target.log.is_pinned:
                return False  # it is being copied
            compaction = Compaction(target.log, todo, terms)
            await self._do(compaction.steps())
        except LogDamaged as error:
            self._give_up(target, error)
            return False
        except (LogClosed, LogPoisoned) as error:
            _LOG.info("Compaction of %s ended: %s", target.partition, error)
            return False
        except (StorageError, OSError) as error:
            count = self._failures.counted(error)
            if count:
                _LOG.error(
                    "Compaction of %s failed, and is tried again later: %s%s",
                    target.partition,
                    reason_of(error),
                    times(count),
                )
            return False
        except _Stopping:
            raise
        except Exception as problem:  # noqa: BLE001 - the other logs are compacted all the same
            self._give_up(target, problem)
            return False
        result = compaction.result
        assert result is not None
        if result.end_offset <= todo.first_dirty_offset:
            self._stuck[target.log] = todo.end_offset
            return False
        return await self._record(target, result, clock.monotonic_ns() - started_ns)

    async def _record(self, target: Compactable, result: Compacted, duration_ns: int) -> bool:
        self.passes += 1
        self.bytes_removed += result.bytes_before - result.bytes_after
        _LOG.info("Cleaned log %s in %dms (%s)", target.partition, duration_ns // 1_000_000, result)
        if result.keyless:
            _LOG.warning("%s: %d records without a key were removed", target.partition, result.keyless)
        if target.log.is_closed:
            return False  # deleted meanwhile: a topic of that name would be another one
        target.log.cleaned_to = result.end_offset
        try:
            draft = self._directory.draft_cleaned_to(target.partition, result.end_offset)
            await self._checkpoints.write(draft)
        except OSError as error:
            count = self._failures.counted(error)
            if count:
                _LOG.error(
                    "How far %s is compacted could not be recorded: %s%s",
                    target.partition,
                    reason_of(error),
                    times(count),
                )
            return False
        return True

    async def _do(self, steps: Steps) -> None:
        """Runs a pass to its end, in slices. Raises what it raises, and _Stopping."""
        loop = asyncio.get_running_loop()
        began_ns = clock.monotonic_ns()
        try:
            step = next(steps)
            while True:
                if step is not None:
                    try:
                        await loop.run_in_executor(None, step)
                    except OSError as error:
                        step = steps.throw(error)
                        continue
                elif clock.monotonic_ns() - began_ns > SLICE_NS:
                    await self._pause(PAUSE_S)
                    began_ns = clock.monotonic_ns()
                step = next(steps)
        except StopIteration:
            return
        finally:
            steps.close()
