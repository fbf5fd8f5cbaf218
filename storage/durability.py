"""How far a log is on the disk, and whether anybody can still tell.

The *synced offset* follows the end of the log when an fdatasync of its segments that began after those bytes were
written has returned. Where a checkpoint on disk says that it was, recovery begins: that offset is the log's
*recovery point*. The *durable offset* is where that ends which an acknowledgement may promise: the synced offset,
or further on, where the journal has what follows. Of a log that an engine replicates the segments are a copy, which
need not last: both follow what the engine has.

Syncing takes three steps so that it can happen in another thread. `begin` (the owner's thread) collects the files
with unsynced bytes and notes the log end offset. `SyncPlan.run` (any thread) calls fdatasync on them. `complete`
(that thread) raises the synced offset to the noted one, or poisons the log. A plan leaves to those begun before it
what they have taken up, so that it counts only when they are complete too, whichever is run first.

A log is *poisoned* when what the disk holds is unknown: an fdatasync failed (the kernel forgets which pages were
lost, so asking again proves nothing), or a failed write could not be taken back; or when its own books disagree. It
then refuses appends and syncs until it is reopened.
"""

import threading
from typing import Final

from storage.errors import LogContradicted, StorageError
from storage.files import Files
from storage.journal.frame import Entry
from storage.journal.of_log import JournalOfLog
from storage.log_segments import LogSegments
from storage.outgoing import Outgoing
from storage.sync_plan import SyncPlan

WAIT_S: Final = 60
"""What takes longer was given up."""


class Durability:
    """Of one log. What completes a plan or poisons the log is safe in any thread, all else is the owner's."""

    __slots__ = (
        "_completed",
        "_directory",
        "_files",
        "_journal",
        "_lock",
        "_segments",
        "_under_way",
        "_unsynced_directories",
        "failure",
        "offset",
        "outgoing",
        "synced_offset",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: LogSegments,
        synced_offset: int,
        journal: JournalOfLog | None,
    ) -> None:
        self.offset = synced_offset
        """Everything before it is on the disk: in the segments, or in the journal."""
        self.synced_offset = synced_offset
        """Everything before it is on the disk, in the segments."""
        self.failure: StorageError | None = None
        """Why the log is poisoned, None while it is not."""
        self.outgoing: Outgoing | None = None
        """What an engine that replicates the log has still to get; None where there is no such engine."""
        self._files = files
        self._directory = directory
        self._segments = segments
        self._journal = journal
        self._unsynced_directories: list[str] = []
        self._under_way: list[SyncPlan] = []
        """Plans in the order in which they were begun, the first of them not complete."""
        # Taken once for each entry: a condition's own face of its lock would cost as much as what is done under it.
        self._lock = threading.Lock()
        self._completed = threading.Condition(self._lock)

    def leave_journal(self) -> None:
        """The journal has nothing of the log and gets nothing."""
        self._journal = None

    def names_changed(self, *directories: str) -> None:
        """Has the next sync make the names in directories durable; of none given, those of the log's own."""
        for directory in directories or (self._directory,):
            if directory not in self._unsynced_directories:
                self._unsynced_directories.append(directory)

    def sync_names(self) -> None:
        """Makes names durable that a sync would, or that one has begun to; blocks. Raises OSError."""
        with self._lock:
            begun = [directory for plan in self._under_way for directory in plan.directories]
        for directory in dict.fromkeys([*begun, *self._unsynced_directories]):
            self._files.fsync_directory(directory)
        self._unsynced_directories = []

    @property
    def has_new_names(self) -> bool:
        """Whether a segment was begun, or the log, and the disk does not know."""
        return bool(self._unsynced_directories)

    @property
    def is_dirty(self) -> bool:
        """Whether `begin` would have anything to do."""
        return bool(self._unsynced_directories or self._segments.unsynced())

    def begin(self, end_offset: int) -> SyncPlan | None:
        """What has to be synced for everything below `end_offset`, where the log ends; None when nothing has.

        A plan must be run and completed, or the synced offset never rises again. Raises LogContradicted, OSError.
        """
        try:
            assert self._segments.active.next_offset == end_offset, (self._segments.active.path, end_offset)
        except AssertionError as problem:
            raise self.contradicted(problem) from problem
        segments = [(segment, segment.file) for segment in self._segments.unsynced()]
        if not segments and not self._unsynced_directories:
            return None
        sealed = [segment for segment, _ in segments if segment is not self._segments.active]
        plan = SyncPlan(self._files, segments, sealed, self._unsynced_directories, end_offset)
        for segment, _ in segments:
            segment.is_synced = True
        self._unsynced_directories = []
        with self._lock:
            self._under_way.append(plan)
        return plan

    def complete(
        self, plan: SyncPlan, error: StorageError | None, log_end_offset: int
    ) -> StorageError | None:
        """Takes the outcome of a plan that was run.

        Out: None when that is well; otherwise the error, or the earlier one that had already poisoned the log.
        """
        try:
            with self._lock:
                self.failure = self.failure or error
                plan.is_complete = True
                while self._under_way and self._under_way[0].is_complete:
                    end_offset = self._under_way.pop(0).end_offset
                    assert self.synced_offset <= end_offset <= log_end_offset, (
                        self.synced_offset,
                        end_offset,
                    )
                    if self.failure is None:
                        self.synced_offset = end_offset
                        self.offset = max(self.offset, end_offset)
                failure, synced_offset = self.failure, self.synced_offset
                self._completed.notify_all()
        except AssertionError as problem:
            return self.contradicted(problem)
        if self._journal is not None:
            self._journal.settled(synced_offset)
        return failure

    def journaled(self, entry: Entry, log_end_offset: int) -> StorageError | None:
        """The journal has an entry of the log on the disk. Out: what has poisoned the log, or None."""
        try:
            with self._lock:
                if self.failure is None:
                    assert entry.base_offset <= self.offset, (entry.base_offset, self.offset)
                    assert entry.end_offset <= log_end_offset, (entry.end_offset, log_end_offset)
                    self.offset = max(self.offset, entry.end_offset)
                return self.failure
        except AssertionError as problem:
            return self.contradicted(problem)

    def replicated(self, offset: int, log_end_offset: int) -> None:
        """An engine that replicates the log has everything before `offset`."""
        with self._lock:
            assert self.offset <= offset <= log_end_offset, (self.offset, offset, log_end_offset)
            self.offset = self.synced_offset = offset

    def run(self, plan: SyncPlan, log_end_offset: int) -> None:
        """Runs a plan and completes it, blocking. Raises SyncFailed, or what has poisoned the log."""
        problem: StorageError | None = None
        try:
            plan.run(set())
        except StorageError as error:
            problem = error
        problem = self.complete(plan, problem, log_end_offset)
        if problem is not None:
            raise problem

    def wait(self) -> None:
        """Until what others have begun to sync is synced; blocks."""
        with self._completed:
            self._completed.wait_for(lambda: not self._under_way or self.failure is not None, WAIT_S)

    def poison(self, error: StorageError) -> StorageError:
        """Refuses appends and syncs from now on; the first cause stays, and is given back."""
        with self._lock:
            self.failure = self.failure or error
            return self.failure

    def contradicted(self, problem: AssertionError) -> StorageError:
        """Poisons the log because a rule of the engine's own did not hold; gives what to raise or report."""
        return self.poison(LogContradicted(self._directory, problem))

    def cut_at(self, offset: int) -> None:
        """The log ends there at the most; a sync begun before says nothing of what comes after."""
        with self._lock:
            self._under_way.clear()
            self.offset = min(self.offset, offset)
            self.synced_offset = min(self.synced_offset, offset)
