"""The thread that makes appends durable, many at a time (group commit).

The owner of the logs appends during one turn of its loop and then submits the logs it appended to, with a
callback. The thread syncs their files and calls back, in the order of submission. Whatever was submitted
while it was busy is taken up together: a file that several submissions name is synced once for all of them,
because that one sync begins after all of their writes.

The callback runs in the thread; whoever has an event loop hops to it from there. No failed sync is ever
repeated and believed: it poisons its log, and every later submission of that log reports the failure.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from queue import Empty, SimpleQueue
from typing import NamedTuple

from storage.errors import StorageError, SyncFailed
from storage.files import File
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.sync_plan import SyncPlan


class SyncResult(NamedTuple):
    """The outcome of one submission: the logs that could not be synced, and why. The others are durable."""

    failed: Mapping[PartitionLog, StorageError]


class _Job(NamedTuple):
    plans: list[tuple[PartitionLog, SyncPlan]]
    failed: dict[PartitionLog, StorageError]
    done: Callable[[SyncResult], None]


class Syncer:
    """One thread, for any number of logs. All methods belong to the thread that owns the logs."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._callback_error: BaseException | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="log-sync", daemon=True)
        self._thread.start()

    def submit(self, logs: Iterable[PartitionLog], done: Callable[[SyncResult], None]) -> None:
        """Makes everything appended to `logs` until now durable, then calls `done`, in the syncing thread.

        `done` is called exactly once, also for logs with nothing to sync and for poisoned ones.
        Raises RuntimeError after `close`.
        """
        if self._is_closed:
            raise RuntimeError("the syncer is closed")
        plans: list[tuple[PartitionLog, SyncPlan]] = []
        failed: dict[PartitionLog, StorageError] = {}
        for log in logs:
            try:
                plan = log.begin_sync()
            except StorageError as error:
                failed[log] = error
            except OSError as error:
                failed[log] = log.poison(SyncFailed(log.directory, f"cannot open: {reason_of(error)}"))
            else:
                if plan is not None:
                    plans.append((log, plan))
        self._jobs.put(_Job(plans, failed, done))

    def close(self) -> None:
        """Finishes what was submitted, every callback included, and ends the thread. Idempotent.

        Raises what a callback raised, if one did.
        """
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
            self._run([job for job in jobs if job is not None])
            if jobs[-1] is None:
                return

    def _run(self, jobs: list[_Job]) -> None:
        synced: set[File | str] = set()
        for job in jobs:
            for log, plan in job.plans:
                failure: StorageError | None = None
                # After a failure another fdatasync of that file might succeed without having written
                # anything.
                if log.failure is None:
                    try:
                        plan.run(synced)
                    except StorageError as error:
                        failure = error
                failure = log.complete_sync(plan, failure)
                if failure is not None:
                    job.failed[log] = failure
            try:
                job.done(SyncResult(job.failed))
            except BaseException as error:  # noqa: BLE001 - `close` raises it
                self._callback_error = self._callback_error or error
