"""Makes logs durable: the interface, the local disk in a thread, and routing between disk and replication."""

import asyncio
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import length_hint
from typing import Final, Protocol

from coordinator.core import clock
from coordinator.core.interceptors import InterceptorChain
from storage.journal.journal import Journal
from storage.log import PartitionLog
from storage.storage_errors import StorageError, SyncFailed, format_error_reason
from storage.syncer import Syncer, SyncResult

_LOG: Final = logging.getLogger("Flusher")

TURNS_BEFORE_NEXT_SYNC: Final = 4
"""Number of loop turns that the next sync waits for commits of the clients that have just got their answers. Fewer
turns make more and smaller syncs. Waiting until appends pause was slower. `benchmarks/commit.py` measures it.
"""

LOGS_PER_TURN: Final = 500
"""Number of owners notified in one turn of the event loop. On a slow disk one sync covers thousands of logs, and
each owner may have responses to send. The turns are outside the run queue, since clients wait for their commits.
The next sync starts after the last owner.
"""

LOGS_PER_SYNC: Final = 1000
"""Number of logs in one submission. Submitting prepares each log on the event loop, in 8 to 40 us. Further logs
wait for the next sync.
"""

OnSynced = Callable[[PartitionLog, StorageError | None], None]
"""Takes a log, and the error of its sync; None on success."""

Submit = Callable[[Iterable[PartitionLog], Callable[[SyncResult], None]], None]
"""Takes the logs of a sync, and the function that gets its result in the thread that syncs."""


class DurabilityBackend(Protocol):
    """Makes logs durable. All methods belong to the event loop's thread."""

    def request_sync(self, log: PartitionLog, on_synced: OnSynced) -> None:
        """Request that the current content of `log` becomes durable; `start_sync` starts that.

        For a durable log of a cluster this requests a proof of ownership. `on_synced` gets the result. A log has
        one owner.
        """

    def start_sync(self) -> None:
        """Start the requested syncs."""

    def remove_listener(self, on_synced: OnSynced) -> None:
        """Never call `on_synced` again."""


class Flusher:
    """Syncs logs on the local disk, in a thread. All methods belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, syncer: Syncer) -> None:
        self._loop = loop
        self._syncer = syncer
        self._requested: dict[PartitionLog, OnSynced] = {}
        self._syncing: dict[PartitionLog, OnSynced] = {}
        """The logs of the current submission, until all of their owners are notified."""
        self._submission = 0
        """The number of the current submission. The thread keeps a reference to its last job until the next one.
        With a number instead of the logs, that reference keeps no server alive."""
        self._is_closed = False
        self._done_next = asyncio.Event()
        self.sync_interceptors: InterceptorChain[Submit] = InterceptorChain(self._compose_submit)
        """Interceptors of the syncs of all logs, also of other servers with the same flusher."""
        self._submit: Submit = syncer.submit
        self._started_ns = 0
        self.syncs = 0
        """Number of completed submissions, and their total duration in nanoseconds."""
        self.sync_ns = 0

    def _compose_submit(self) -> None:
        self._submit = self.sync_interceptors.compose(self._syncer.submit)

    def request_sync(self, log: PartitionLog, on_synced: OnSynced) -> None:
        """Request a sync of the current content of `log`; `start_sync` starts it.

        `on_synced` gets the result, with the error of a failed sync. A log has one owner, which gets one call for
        all of its requests until then.
        """
        self._requested[log] = on_synced

    def remove_listener(self, on_synced: OnSynced) -> None:
        """Never call `on_synced` again."""
        for logs in (self._requested, self._syncing):
            for log in [log for log, owner in logs.items() if owner == on_synced]:
                logs[log] = _ignore_result

    def start_sync(self) -> None:
        """Start the requested syncs, unless a submission is in progress."""
        if self._syncing or not self._requested or self._is_closed:
            return
        logs, self._requested = self._requested, {}
        if len(logs) > LOGS_PER_SYNC:
            items = iter(logs.items())
            logs = dict(islice(items, LOGS_PER_SYNC))
            self._requested.update(items)
        self._syncing = logs
        self._submission += 1
        self._started_ns = clock.monotonic_ns()
        try:
            self._submit(logs, partial(self._on_done_in_thread, self._submission))
        except Exception as problem:  # noqa: BLE001 - later logs are still synced
            _LOG.error(
                "Cannot start to sync %d logs: their partitions are loaded again", len(logs), exc_info=problem
            )
            self._loop.call_soon(self._on_done, self._submission, _fail_all(logs, problem))

    def _start_sync_after(self, turns: int) -> None:
        """Start the next sync after some turns of the loop. `start_sync` starts it earlier."""
        if self._syncing or not self._requested:
            return
        if turns:
            self._loop.call_soon(self._start_sync_after, turns - 1)
        else:
            self.start_sync()

    def _on_done_in_thread(self, submission: int, result: SyncResult) -> None:
        self._loop.call_soon_threadsafe(self._on_done, submission, result)

    def _on_done(self, submission: int, result: SyncResult) -> None:
        if submission != self._submission:
            return  # the start of this submission raised an error after the thread had accepted the job
        self._submission += 1
        self.syncs += 1
        self.sync_ns += clock.monotonic_ns() - self._started_ns
        failed, refused, full = result
        for log in refused:
            self._requested.setdefault(log, self._syncing.pop(log))
            self._log_journal_failure(log)
        if full:
            self._settle_full_journals(full)
        self._notify_owners(iter(self._syncing.items()), failed)

    def _notify_owners(
        self, remaining: Iterator[tuple[PartitionLog, OnSynced]], failed: Mapping[PartitionLog, StorageError]
    ) -> None:
        """Notify the owners of up to `LOGS_PER_TURN` logs, and those of the remaining logs in the next turns."""
        for log, on_synced in islice(remaining, LOGS_PER_TURN):
            try:
                on_synced(log, failed.get(log))
            except Exception as problem:  # noqa: BLE001 - the owners of the other logs are still notified
                _LOG.error("After syncing %s", log.directory, exc_info=problem)
        if length_hint(remaining):
            self._loop.call_soon(self._notify_owners, remaining, failed)
            return
        self._syncing = {}
        self._done_next.set()
        if self._requested:
            self._start_sync_after(TURNS_BEFORE_NEXT_SYNC)

    def _settle_full_journals(self, journals: Sequence[Journal]) -> None:
        try:
            self._syncer.settle_full_journals(journals)
        except Exception as problem:  # noqa: BLE001 - the waiters still get their answers
            _LOG.error("Failed to settle the logs of a full journal", exc_info=problem)

    @staticmethod
    def _log_journal_failure(log: PartitionLog) -> None:
        journal = None if log.journal is None else log.journal.journal
        error = None if journal is None else journal.take_failure()
        if error is not None:
            _LOG.warning("Syncing segments instead of the journal: %s", format_error_reason(error))

    def settle_logs(self, logs: Iterable[PartitionLog]) -> None:
        """Sync segments with records that are durable only in the journal. Call it periodically."""
        if not self._is_closed:
            self._syncer.settle_logs(logs)

    async def drain(self, logs: Container[PartitionLog]) -> None:
        """Wait until these logs have no requested or running syncs."""
        while not self._is_closed and any(log in logs for log in (*self._syncing, *self._requested)):
            self.start_sync()
            self._done_next.clear()
            await self._done_next.wait()

    def close(self) -> None:
        """Finish the current submission and end the thread. Requested syncs are dropped."""
        self._is_closed = True
        self._requested.clear()
        self._syncer.close()


class RoutedDurability:
    """A `DurabilityBackend` that passes replicated logs to the cluster's store and other logs to the disk."""

    def __init__(self, disk: DurabilityBackend, engine: DurabilityBackend) -> None:
        self._disk = disk
        self._engine = engine

    def request_sync(self, log: PartitionLog, on_synced: OnSynced) -> None:
        is_copy = log.durability.replication_queue is not None
        (self._engine if is_copy else self._disk).request_sync(log, on_synced)

    def start_sync(self) -> None:
        self._disk.start_sync()
        self._engine.start_sync()

    def remove_listener(self, on_synced: OnSynced) -> None:
        self._disk.remove_listener(on_synced)
        self._engine.remove_listener(on_synced)


def _fail_all(logs: Iterable[PartitionLog], problem: Exception) -> SyncResult:
    """Return a result that fails every log. Their state on disk is unknown: they must be reopened."""
    failed = {log: log.poison(SyncFailed(log.directory, f"cannot sync: {problem!r}")) for log in logs}
    return SyncResult(failed, refused=(), full=())


def _ignore_result(log: PartitionLog, error: StorageError | None) -> None:
    """Replace the callback of a removed owner."""
