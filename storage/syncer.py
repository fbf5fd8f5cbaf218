"""The threads that make appends durable, many at a time (group commit).

The owner of the logs appends during one iteration of its loop and then submits the logs it appended to, with a
callback. A thread puts on the disk what they appended and calls back, in the order of submission. Whatever was
submitted while it was busy is taken up together.

What goes to a journal is one write and one sync for all logs of it, in a thread of its own. Where a log has no
journal, or that did not take all of it, the files of the log are synced; a file that several submissions name is
synced once for all of them, because that one sync begins after all of their writes. What a journal refuses comes
back to be submitted again, and is synced then.

The thread that syncs files also settles logs, so that the journal is not needed for them any more. Nobody waits for
that, but who asks for a log that is being settled is told after it: all files of a log are synced in one thread.

The callback runs in the thread; whoever has an event loop hops to it from there. No failed sync is ever
repeated and believed: it poisons its log, and every later submission of that log reports the failure.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

from storage.errors import JournalRefused, StorageError, SyncFailed
from storage.files import File
from storage.journal.frame import Entry, LogKey
from storage.journal.journal import Journal
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.sync_plan import SyncPlan


class SyncResult(NamedTuple):
    """The outcome of one submission. The logs that are not named are durable."""

    failed: Mapping[PartitionLog, StorageError]
    """What could not be synced, and why."""
    refused: Sequence[PartitionLog]
    """What a journal did not take: to be submitted again."""
    full: Sequence[Journal]
    """Journals with a file that is full: to be settled."""


class Job:
    """One submission. It is over when each thread has done its part."""

    __slots__ = ("_done", "_lock", "_parts", "being_settled", "entries", "failed", "full", "plans", "refused")

    def __init__(self, done: Callable[[SyncResult], None]) -> None:
        self.plans: list[tuple[PartitionLog, SyncPlan]] = []
        self.entries: list[tuple[PartitionLog, Entry]] = []
        self.being_settled: list[PartitionLog] = []
        """Logs with nothing to sync that is not being synced already."""
        self.failed: dict[PartitionLog, StorageError] = {}
        self.refused: list[PartitionLog] = []
        self.full: list[Journal] = []
        self._done = done
        self._parts = 0
        self._lock = threading.Lock()

    def begin(self, parts: int) -> None:
        """In: how many threads have to do with it."""
        self._parts = parts

    def fail(self, problem: Exception) -> None:
        """A part of it was not done, for a reason that nobody foresaw: what the disk has of its logs is unknown."""
        logs = [log for log, _ in self.plans] + [log for log, _ in self.entries] + self.being_settled
        for log in logs:
            self.fail_log(log, problem)

    def fail_log(self, log: PartitionLog, problem: Exception) -> None:
        """The same for one log."""
        error = SyncFailed(log.directory, f"cannot sync: {problem!r}")
        error.__cause__ = problem
        self.failed[log] = log.poison(error)

    def end(self) -> None:
        """A thread has done its part."""
        with self._lock:
            self._parts -= 1
            is_over = not self._parts
        if is_over:
            self._done(SyncResult(self.failed, self.refused, self.full))


Run = Callable[[Sequence[Job]], None]
"""A part of jobs, which are taken up together when there are several."""


class Syncer:
    """For any number of logs. All methods belong to the thread that owns the logs."""

    def __init__(self, new_worker: "Callable[[str, Run], Worker] | None" = None) -> None:
        """In: who runs its parts, by the name of what runs; threads, where nothing is said."""
        self._new_worker = new_worker or ThreadWorker
        self._files: Worker = self._new_worker("log-sync", _sync_files)
        self._journals: Worker | None = None
        self._in_journals: WeakValueDictionary[tuple[Journal, LogKey], PartitionLog] = WeakValueDictionary()

    def submit(self, logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
        """Makes everything appended to `logs` until now durable, then calls `done`, in a thread of its own.

        `done` is called exactly once, also for logs with nothing to sync and for poisoned ones.
        Raises RuntimeError after `close`.
        """
        job = Job(done)
        begun: list[PartitionLog] = []
        for log in logs:
            try:
                if self._begin(log, job):
                    begun.append(log)
            except Exception as problem:  # noqa: BLE001 - the other logs are synced all the same
                job.fail_log(log, problem)
        has_files = bool(job.plans or job.being_settled or not job.entries)
        job.begin(has_files + bool(job.entries))
        if job.entries:
            if self._journals is None:
                self._journals = self._new_worker("log-journal", _write_entries)
            self._journals.put(job)
        if has_files:
            self._files.put(job)
        if begun:
            self.settle(begun)

    def _begin(self, log: PartitionLog, job: Job) -> bool:
        """Adds what a log has appended to a job; whether the log is to be settled as well."""
        journal = log.journal
        entry = None if journal is None or not log.is_open else journal.take(log.log_end_offset)
        if journal is None or entry is None:
            _begin_files(log, job)
            return False
        job.entries.append((log, entry))
        if journal.settled_by is not self:
            journal.settled_by = self
            self._in_journals[journal.journal, journal.key] = log
        return log.durability.has_new_names

    def settle(self, logs: Iterable[PartitionLog]) -> None:
        """Has the segments of logs synced, some time. One that cannot be is poisoned."""
        job = Job(_nobody)
        for log in logs:
            if not log.is_closed and log.failure is None:
                plan = _begun(log, job)
                if plan is not None:
                    job.plans.append((log, plan))
        if job.plans:
            job.begin(1)
            self._files.put(job)

    def settle_full(self, journals: Iterable[Journal]) -> None:
        """The same for the logs that keep a journal's files from being used again."""
        for journal in journals:
            found = [self._in_journals.get((journal, key)) for key in journal.in_full_files()]
            self.settle(log for log in found if log is not None)

    def close(self) -> None:
        """Finishes what was submitted, every callback included, and ends the threads. Idempotent.

        Raises what a callback raised, if one did.
        """
        try:
            if self._journals is not None:
                self._journals.close()
        finally:
            self._files.close()


def _begin_files(log: PartitionLog, job: Job) -> None:
    """Has the files of a log synced for what the journal does not get; unless that is durable already, or being
    synced."""
    if log.journal is not None and log.is_open and log.durable_offset == log.log_end_offset:
        return
    plan = _begun(log, job)
    if plan is not None:
        job.plans.append((log, plan))
    elif log.durable_offset < log.log_end_offset:
        job.being_settled.append(log)


def _begun(log: PartitionLog, job: Job) -> SyncPlan | None:
    try:
        return log.begin_sync()
    except StorageError as error:
        job.failed[log] = error
    except OSError as error:
        job.failed[log] = log.poison(SyncFailed(log.directory, f"cannot open: {reason_of(error)}"))
    except Exception as problem:  # noqa: BLE001 - the other logs are synced all the same
        job.fail_log(log, problem)
    return None


def _nobody(result: SyncResult) -> None:
    """Who settles is not waited for."""


class Worker(Protocol):
    """Does its part of jobs, in order."""

    def put(self, job: Job) -> None:
        """Has a job done, some time. Raises RuntimeError after `close`."""

    def close(self) -> None:
        """Does what is left. Raises what a callback raised, if one did."""


class ThreadWorker:
    """A `Worker` in a thread."""

    def __init__(self, name: str, run: Run) -> None:
        """In: what it does with jobs."""
        self._run = run
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._callback_error: BaseException | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
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

    def _work(self) -> None:
        while True:
            jobs = [self._jobs.get()]
            while True:
                try:
                    jobs.append(self._jobs.get_nowait())
                except Empty:
                    break
            given = [job for job in jobs if job is not None]
            try:
                self._run(given)
            except Exception as problem:  # noqa: BLE001 - who waits is told; a thread that ends would tell nobody
                for job in given:
                    job.fail(problem)
            for job in given:
                try:
                    job.end()
                except BaseException as error:  # noqa: BLE001 - `close` raises it
                    self._callback_error = self._callback_error or error
            if jobs[-1] is None:
                return


def _sync_files(jobs: Sequence[Job]) -> None:
    synced: set[File | str] = set()
    for job in jobs:
        for log, plan in job.plans:
            failure: StorageError | None = None
            # After a failure another fdatasync of that file might succeed without having written anything.
            if log.failure is None:
                try:
                    plan.run(synced)
                except StorageError as error:
                    failure = error
            failure = log.complete_sync(plan, failure)
            if failure is not None:
                job.failed[log] = failure
        for log in job.being_settled:
            if log.failure is not None:
                job.failed[log] = log.failure


def _write_entries(jobs: Sequence[Job]) -> None:
    """Writes what goes to journals, each of them once."""
    by_journal: dict[Journal, list[tuple[Job, PartitionLog, Entry]]] = {}
    for job in jobs:
        for log, entry in job.entries:
            assert log.journal is not None, log.directory
            journal = log.journal.journal
            if journal not in by_journal:
                by_journal[journal] = []
            by_journal[journal].append((job, log, entry))
    for journal, given in by_journal.items():
        try:
            is_full = journal.write([entry for _, _, entry in given])
        except JournalRefused:
            for job, log, _ in given:
                _leave_out(job, log)
            continue
        if is_full:
            given[0][0].full.append(journal)
        for job, log, entry in given:
            if log.is_deleted:
                # What was there when it was deleted is dropped already, and this was not.
                journal.drop(entry.key)
            if entry.base_offset > log.durable_offset and log.failure is None:
                _leave_out(job, log)  # what it follows was refused, or is still being synced
                continue
            failure = log.complete_entry(entry)
            if failure is not None:
                job.failed[log] = failure


def _leave_out(job: Job, log: PartitionLog) -> None:
    assert log.journal is not None, log.directory
    log.journal.leave_out()
    job.refused.append(log)
