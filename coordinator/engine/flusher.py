"""Makes logs durable, many in one go, and says when they are.

One submission to the syncing thread is under way at a time. What is appended meanwhile goes with the next one, so
that a busy server syncs in larger bunches instead of more often.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Sequence
from functools import partial
from typing import Final

from coordinator import clock
from coordinator.engine.durability import Synced
from storage.errors import StorageError, SyncFailed
from storage.journal.journal import Journal
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.syncer import Syncer, SyncResult

_LOG: Final = logging.getLogger("Flusher")

Submit = Callable[[Iterable[PartitionLog], Callable[[SyncResult], None]], None]


class Flusher:
    """All methods belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, syncer: Syncer) -> None:
        self._loop = loop
        self._syncer = syncer
        self._wanted: dict[PartitionLog, Synced] = {}
        self._under_way: dict[PartitionLog, Synced] = {}
        self._submission = 0
        """The number of the submission under way. The thread keeps its last job until the next one: with a number
        in place of the logs, it keeps no server alive."""
        self._is_closed = False
        self._done_next = asyncio.Event()
        self.submit: Submit = syncer.submit
        """Has logs synced; another may stand in for it that does so late, or not."""
        self._started_ns = 0
        self.syncs = 0
        """Submissions completed, and how long they took together (nanoseconds)."""
        self.sync_ns = 0

    def need(self, log: PartitionLog, synced: Synced) -> None:
        """Asks for what is in `log` now to be synced; `kick` starts it. `synced` is called when that is done, with
        its error where it failed; a log has one owner, who is told once for all that was asked meanwhile."""
        self._wanted[log] = synced

    def forget(self, synced: Synced) -> None:
        """Whoever was to be told of logs that way is gone."""
        for logs in (self._wanted, self._under_way):
            for log in [log for log, owner in logs.items() if owner == synced]:
                logs[log] = _told_nobody

    def kick(self) -> None:
        """Starts syncing what is needed, unless that goes on already."""
        if self._under_way or not self._wanted or self._is_closed:
            return
        logs, self._wanted = self._wanted, {}
        self._under_way = logs
        self._submission += 1
        self._started_ns = clock.monotonic_ns()
        try:
            self.submit(logs, partial(self._done_in_thread, self._submission))
        except Exception as problem:  # noqa: BLE001 - the logs that come after these are synced all the same
            _LOG.error(
                "Cannot start to sync %d logs: their partitions are loaded again", len(logs), exc_info=problem
            )
            self._loop.call_soon(self._done, self._submission, _all_failed(logs, problem))

    def _done_in_thread(self, submission: int, result: SyncResult) -> None:
        self._loop.call_soon_threadsafe(self._done, submission, result)

    def _done(self, submission: int, result: SyncResult) -> None:
        if submission != self._submission:
            return  # a submission that failed half-way, and was completed all the same
        logs, self._under_way = self._under_way, {}
        self._submission += 1
        self._done_next.set()
        self.syncs += 1
        self.sync_ns += clock.monotonic_ns() - self._started_ns
        for log in result.refused:
            self._wanted.setdefault(log, logs[log])
            self._tell_why(log)
        # The next bunch goes to the disk while this one is being answered.
        self.kick()
        if result.full:
            self._settle_full(result.full)
        for log, synced in logs.items():
            if log in result.refused:
                continue
            try:
                synced(log, result.failed.get(log))
            except Exception as problem:  # noqa: BLE001 - the other logs' waiters get their answers all the same
                _LOG.error("After syncing %s", log.directory, exc_info=problem)

    def _settle_full(self, journals: Sequence[Journal]) -> None:
        try:
            self._syncer.settle_full(journals)
        except Exception as problem:  # noqa: BLE001 - the waiters get their answers all the same
            _LOG.error("Failed to settle the logs of a full journal", exc_info=problem)

    @staticmethod
    def _tell_why(log: PartitionLog) -> None:
        journal = None if log.journal is None else log.journal.journal
        error = None if journal is None else journal.take_failure()
        if error is not None:
            _LOG.warning("Segments are synced instead of the journal: %s", reason_of(error))

    def settle(self, logs: Iterable[PartitionLog]) -> None:
        """Has segments synced that only the journal stands for; from time to time."""
        if not self._is_closed:
            self._syncer.settle(logs)

    async def drain(self, logs: Container[PartitionLog]) -> None:
        """Waits until nothing of these logs is being synced, and nothing wanted."""
        while not self._is_closed and any(log in logs for log in (*self._under_way, *self._wanted)):
            self.kick()
            self._done_next.clear()
            await self._done_next.wait()

    def close(self) -> None:
        """Finishes what was submitted and ends the thread; nothing more is synced."""
        self._is_closed = True
        self._wanted.clear()
        self._syncer.close()


def _all_failed(logs: Iterable[PartitionLog], problem: Exception) -> SyncResult:
    """Return a result that fails every log. What the disk has of them is unknown: they must be opened again."""
    failed = {log: log.poison(SyncFailed(log.directory, f"cannot sync: {problem!r}")) for log in logs}
    return SyncResult(failed, refused=(), full=())


def _told_nobody(log: PartitionLog, error: StorageError | None) -> None:
    """Takes the place of an owner that is gone."""
