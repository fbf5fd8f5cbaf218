"""The threads that make appends durable, many at a time (group commit).

The owner of the logs appends during one iteration of its event loop, and then submits the changed logs with a
callback. A thread makes them durable and calls back, in the order of submission. It processes all submissions
that arrived while it was busy together.

A separate thread writes the entries for a journal, with one write and one sync for all logs of it. For other
logs, and for logs that the journal did not take completely, the files are synced. A file of several
submissions is synced once, after all of their writes. Entries that a journal refuses are submitted again and
synced.

The thread that syncs files also settles logs, so that they do not need the journal any more. No caller waits
for that. A submission of a log that is being settled completes afterwards: one thread syncs all files of a
log.

The callback runs in the thread, and must switch to the event loop itself. A failed sync is never repeated and
trusted: it poisons its log, and every later submission of that log reports the failure.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

from storage.durability import SyncPlan
from storage.files import File
from storage.journal.journal import Journal
from storage.journal.journal_frame import JournalEntry, LogKey
from storage.log import PartitionLog
from storage.storage_errors import JournalRefused, StorageError, SyncFailed, format_error_reason


class SyncResult(NamedTuple):
    """The outcome of one submission. The logs that are not named are durable."""

    failed: Mapping[PartitionLog, StorageError]
    """The logs that could not be synced, with their errors."""
    refused: Sequence[PartitionLog]
    """Logs with entries that a journal refused. They must be submitted again."""
    full: Sequence[Journal]
    """Journals with a full file. Their logs must be settled."""


class SyncJob:
    """One submission. It is complete when each thread has done its part."""

    __slots__ = (
        "_lock",
        "_on_done",
        "_parts",
        "entries",
        "failed",
        "full",
        "logs_being_settled",
        "plans",
        "refused",
    )

    def __init__(self, on_done: Callable[[SyncResult], None]) -> None:
        self.plans: list[tuple[PartitionLog, SyncPlan]] = []
        self.entries: list[tuple[PartitionLog, JournalEntry]] = []
        self.logs_being_settled: list[PartitionLog] = []
        """Logs with all unsynced bytes in running syncs."""
        self.failed: dict[PartitionLog, StorageError] = {}
        self.refused: list[PartitionLog] = []
        self.full: list[Journal] = []
        self._on_done = on_done
        self._parts = 0
        self._lock = threading.Lock()

    def start(self, parts: int) -> None:
        """Start the job. `parts` threads must complete it."""
        self._parts = parts

    def fail(self, problem: Exception) -> None:
        """Record an unexpected failure: the disk state of the logs of the job is unknown."""
        logs = [log for log, _ in self.plans] + [log for log, _ in self.entries] + self.logs_being_settled
        for log in logs:
            self.fail_log(log, problem)

    def fail_log(self, log: PartitionLog, problem: Exception) -> None:
        """Poison one log, because its state on the disk is unknown."""
        error = SyncFailed(log.directory, f"cannot sync: {problem!r}")
        error.__cause__ = problem
        self.failed[log] = log.poison(error)

    def finish_part(self) -> None:
        """Record that a thread has done its part. The last one calls the callback."""
        with self._lock:
            self._parts -= 1
            is_over = not self._parts
        if is_over:
            self._on_done(SyncResult(self.failed, self.refused, self.full))


JobRunner = Callable[[Sequence[SyncJob]], None]
"""Does its part of several jobs together."""


class Syncer:
    """Makes the appends of any number of logs durable. All methods belong to the thread that owns the logs."""

    def __init__(self, new_worker: "Callable[[str, JobRunner], SyncWorker] | None" = None) -> None:
        """Create the syncer. `new_worker` creates a worker from a name and a function; by default a thread."""
        self._new_worker = new_worker or SyncThread
        self._file_worker: SyncWorker = self._new_worker("log-sync", _sync_files)
        self._journal_worker: SyncWorker | None = None
        self._journaled_logs: WeakValueDictionary[tuple[Journal, LogKey], PartitionLog] = (
            WeakValueDictionary()
        )

    def submit(self, logs: Iterable[PartitionLog], on_done: Callable[[SyncResult], None]) -> None:
        """Make all bytes that were appended to `logs` so far durable, then call `on_done` in another thread.

        `on_done` is called exactly once, also for logs with nothing to sync and for poisoned ones. Raises
        RuntimeError after `close`.
        """
        job = SyncJob(on_done)
        begun: list[PartitionLog] = []
        for log in logs:
            try:
                if self._begin_log(log, job):
                    begun.append(log)
            except Exception as problem:  # noqa: BLE001 - the other logs are still synced
                job.fail_log(log, problem)
        has_files = bool(job.plans or job.logs_being_settled or not job.entries)
        job.start(has_files + bool(job.entries))
        if job.entries:
            if self._journal_worker is None:
                self._journal_worker = self._new_worker("log-journal", _write_entries)
            self._journal_worker.enqueue(job)
        if has_files:
            self._file_worker.enqueue(job)
        if begun:
            self.settle_logs(begun)

    def _begin_log(self, log: PartitionLog, job: SyncJob) -> bool:
        """Add the unsynced bytes of a log to a job. Return whether the log must be settled as well."""
        journal = log.journal
        entry = None if journal is None or not log.is_open else journal.take_entry(log.log_end_offset)
        if journal is None or entry is None:
            _begin_files(log, job)
            return False
        job.entries.append((log, entry))
        if journal.settled_by is not self:
            journal.settled_by = self
            self._journaled_logs[journal.journal, journal.key] = log
        return log.durability.has_unsynced_names

    def settle_logs(self, logs: Iterable[PartitionLog]) -> None:
        """Sync the segments of logs later. A failed sync poisons the log."""
        job = SyncJob(_ignore_result)
        for log in logs:
            if not log.is_closed and log.failure is None:
                plan = _begin_plan(log, job)
                if plan is not None:
                    job.plans.append((log, plan))
        if job.plans:
            job.start(1)
            self._file_worker.enqueue(job)

    def settle_full_journals(self, journals: Iterable[Journal]) -> None:
        """Sync the segments of logs that keep full files of a journal from being used again."""
        for journal in journals:
            found = [self._journaled_logs.get((journal, key)) for key in journal.find_logs_in_full_files()]
            self.settle_logs(log for log in found if log is not None)

    def close(self) -> None:
        """Complete all submissions with their callbacks, and end the threads. Idempotent.

        Raises the exception of a callback, if one failed.
        """
        try:
            if self._journal_worker is not None:
                self._journal_worker.close()
        finally:
            self._file_worker.close()


def _begin_files(log: PartitionLog, job: SyncJob) -> None:
    """Start the sync of a log's files for records that are not in the journal, unless these are durable or a sync
    is in progress."""
    if log.journal is not None and log.is_open and log.durable_offset == log.log_end_offset:
        return
    plan = _begin_plan(log, job)
    if plan is not None:
        job.plans.append((log, plan))
    elif log.durable_offset < log.log_end_offset:
        job.logs_being_settled.append(log)


def _begin_plan(log: PartitionLog, job: SyncJob) -> SyncPlan | None:
    try:
        return log.begin_sync()
    except StorageError as error:
        job.failed[log] = error
    except OSError as error:
        job.failed[log] = log.poison(SyncFailed(log.directory, f"cannot open: {format_error_reason(error)}"))
    except Exception as problem:  # noqa: BLE001 - the other logs are still synced
        job.fail_log(log, problem)
    return None


def _ignore_result(result: SyncResult) -> None:
    """Ignore the result, because no response waits for it."""


class SyncWorker(Protocol):
    """Processes its part of jobs, in order."""

    def enqueue(self, job: SyncJob) -> None:
        """Add a job to the queue. Raises RuntimeError after `close`."""

    def close(self) -> None:
        """Complete the remaining jobs. Raises the exception of a callback, if one failed."""


class SyncThread:
    """A `SyncWorker` in a thread."""

    def __init__(self, name: str, run: JobRunner) -> None:
        """Create a worker thread. `run` processes jobs."""
        self._job_runner = run
        self._jobs: SimpleQueue[SyncJob | None] = SimpleQueue()
        self._callback_error: BaseException | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run_jobs, name=name, daemon=True)
        self._thread.start()

    def enqueue(self, job: SyncJob) -> None:
        if self._is_closed:
            raise RuntimeError("the syncer is closed")
        self._jobs.put(job)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._jobs.put(None)
            self._thread.join()
        if self._callback_error is not None:
            error, self._callback_error = self._callback_error, None
            raise error

    def _run_jobs(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            while True:
                try:
                    jobs.append(self._jobs.get_nowait())
                except Empty:
                    break
            pending = [job for job in jobs if job is not None]
            try:
                self._job_runner(pending)
            except Exception as problem:  # noqa: BLE001 - the callbacks report it; a dead thread could not
                for job in pending:
                    job.fail(problem)
            for job in pending:
                try:
                    job.finish_part()
                except BaseException as error:  # noqa: BLE001 - `close` raises it
                    self._callback_error = self._callback_error or error
            if jobs[-1] is None:
                return


def _sync_files(jobs: Sequence[SyncJob]) -> None:
    synced: set[File | str] = set()
    for job in jobs:
        for log, plan in job.plans:
            failure: StorageError | None = None
            # After a failure, another fdatasync of the file might succeed although it has written nothing.
            if log.failure is None:
                try:
                    plan.run(synced)
                except StorageError as error:
                    failure = error
            failure = log.complete_sync(plan, failure)
            if failure is not None:
                job.failed[log] = failure
        for log in job.logs_being_settled:
            if log.failure is not None:
                job.failed[log] = log.failure


def _write_entries(jobs: Sequence[SyncJob]) -> None:
    """Write the entries of jobs to their journals, each once."""
    by_journal: defaultdict[Journal, list[tuple[SyncJob, PartitionLog, JournalEntry]]] = defaultdict(list)
    for job in jobs:
        for log, entry in job.entries:
            assert log.journal is not None, log.directory
            by_journal[log.journal.journal].append((job, log, entry))
    for journal, items in by_journal.items():
        try:
            is_full = journal.write([entry for _, _, entry in items])
        except JournalRefused:
            for job, log, _ in items:
                _refuse_entry(job, log)
            continue
        if is_full:
            items[0][0].full.append(journal)
        for job, log, entry in items:
            if log.is_deleted:
                # The deletion has dropped the earlier entries, but not this one.
                journal.drop_log(entry.key)
            durability = log.durability
            if entry.base_offset > durability.durable_offset and durability.failure is None:
                _refuse_entry(job, log)  # the entry before it was refused, or is still being synced
                continue
            failure = durability.on_journaled(entry, log.log_end_offset)
            if failure is not None:
                job.failed[log] = failure


def _refuse_entry(job: SyncJob, log: PartitionLog) -> None:
    assert log.journal is not None, log.directory
    log.journal.skip_pending()
    job.refused.append(log)
