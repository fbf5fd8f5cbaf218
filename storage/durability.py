"""Durability of a log: its synced and its durable offset, the plan of a sync, poisoned logs, and the undo of
a refused append.

The *synced offset* is the log end offset at the start of the last fdatasync of the segments that has
returned. Recovery begins where a checkpoint on disk has it: that is the log's *recovery point*. The *durable
offset* is the offset that an acknowledgement may promise: the synced offset, or a later one if the journal
has the batches in between. The segments of a log that an engine replicates are a copy and need not last: both
offsets follow the engine.

A sync takes three steps so that it can run in another thread. `begin_sync` (owner's thread) collects the
files with unsynced bytes and notes the log end offset. `SyncPlan.run` (any thread) calls fdatasync on them.
`complete_sync` (the same thread) raises the synced offset to the noted one, or poisons the log. A plan leaves
out the files of earlier plans under way, so it counts only when those are complete too, in any order.

A log is *poisoned* when the content of the disk is unknown: an fdatasync failed (the kernel forgets which
pages were lost, so a second call proves nothing), or a failed write could not be undone. A contradiction in
the log's own bookkeeping poisons it too. A poisoned log refuses appends and syncs until it is reopened.
"""

import threading
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from storage.files import File, Files
from storage.journal.journal import LogJournal
from storage.journal.journal_frame import JournalEntry
from storage.log_segments import LogSegments
from storage.replication_queue import ReplicationQueue
from storage.segment import LogSegment
from storage.storage_errors import (
    AppendFailed,
    FileClosed,
    LogContradicted,
    StorageError,
    SyncFailed,
    format_error_reason,
)

SYNC_TIMEOUT_S: Final = 60
"""The time that `wait_for_syncs` waits for running syncs, in seconds."""


class SyncPlan(Struct, eq=False):
    """The files of one log with unsynced bytes, and the offset that is synced after them."""

    files: Files
    segments: Sequence[tuple[LogSegment, File]]
    sealed: Sequence[LogSegment]
    """Sealed segments. Their indexes are complete and must be durable too, because nothing rebuilds them."""
    directories: Sequence[str]
    end_offset: int
    is_complete: bool = False
    """Whether `complete_sync` has recorded its result."""

    def run(self, synced: set[File | str]) -> None:
        """Sync the files of the plan. It blocks and is safe in any thread. Raises SyncFailed, which names the file.

        Files in `synced` were synced since the plan was made and are skipped. Newly synced files are added to it.
        """
        for segment, file in self.segments:
            if file not in synced:
                _sync_file(segment, file)
                synced.add(file)
        for segment in self.sealed:
            _sync_indexes(segment)
        for directory in self.directories:
            if directory in synced:
                continue
            try:
                self.files.fsync_directory(directory)
            except FileNotFoundError:
                continue  # the topic was deleted, so its files need not be durable
            except OSError as error:
                raise SyncFailed(
                    directory, f"cannot sync the directory: {format_error_reason(error, directory)}"
                ) from error
            synced.add(directory)


def _sync_file(segment: LogSegment, file: File) -> None:
    try:
        file.fdatasync()
    except FileClosed as error:
        # Retention or a topic deletion may have removed the file meanwhile.
        if not segment.is_deleted:
            raise SyncFailed(file.path, "was closed before it was synced") from error
    except OSError as error:
        raise SyncFailed(file.path, f"cannot sync: {format_error_reason(error, file.path)}") from error


def _sync_indexes(segment: LogSegment) -> None:
    try:
        segment.sync_indexes()
    except FileNotFoundError:
        return  # the files were removed meanwhile, or will be rebuilt when they are needed
    except OSError as error:
        raise SyncFailed(segment.path, f"cannot sync its indexes: {format_error_reason(error)}") from error


class LogDurability:
    """The durability of one log. Methods that complete a plan or poison the log are safe in any thread. All
    others belong to the owner's thread."""

    __slots__ = (
        "_completed",
        "_directory",
        "_files",
        "_journal",
        "_lock",
        "_plans_under_way",
        "_segments",
        "_unsynced_directories",
        "durable_offset",
        "failure",
        "replication_queue",
        "synced_offset",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        segments: LogSegments,
        synced_offset: int,
        journal: LogJournal | None,
    ) -> None:
        self.durable_offset = synced_offset
        """All records before this offset are on the disk, in the segments or in the journal."""
        self.synced_offset = synced_offset
        """All records before this offset are on the disk, in the segments."""
        self.failure: StorageError | None = None
        """The error that poisoned the log, or None."""
        self.replication_queue: ReplicationQueue | None = None
        """The appended bytes that a replication engine has not confirmed; None without such an engine."""
        self._files = files
        self._directory = directory
        self._segments = segments
        self._journal = journal
        self._unsynced_directories: list[str] = []
        self._plans_under_way: list[SyncPlan] = []
        """The running plans in the order of their begin. The first one is not complete."""
        # A plain lock: the wrapper of the condition would double the cost for each journal entry.
        self._lock = threading.Lock()
        self._completed = threading.Condition(self._lock)

    def detach_journal(self) -> None:
        """Stop using the journal, which has no entry of the log."""
        self._journal = None

    def mark_names_unsynced(self, *directories: str) -> None:
        """Let the next sync make the names in directories durable, by default in the log's own directory."""
        for directory in directories or (self._directory,):
            if directory not in self._unsynced_directories:
                self._unsynced_directories.append(directory)

    def sync_names(self) -> None:
        """Sync directories with new names that no completed sync covers. It blocks. Raises OSError."""
        with self._lock:
            begun = [directory for plan in self._plans_under_way for directory in plan.directories]
        for directory in dict.fromkeys([*begun, *self._unsynced_directories]):
            self._files.fsync_directory(directory)
        self._unsynced_directories = []

    @property
    def has_unsynced_names(self) -> bool:
        """Whether the log has new segments, or is new itself, and their directory entries are not synced."""
        return bool(self._unsynced_directories)

    @property
    def is_dirty(self) -> bool:
        """Whether `begin_sync` has anything to sync."""
        return bool(self._unsynced_directories or self._segments.find_unsynced())

    def begin_sync(self, end_offset: int) -> SyncPlan | None:
        """Return the plan to sync everything below `end_offset`, the end of the log; None if nothing is unsynced.

        A plan must be run and completed, or the synced offset never rises again. Raises LogContradicted, OSError.
        """
        try:
            assert self._segments.active.next_offset == end_offset, (self._segments.active.path, end_offset)
        except AssertionError as problem:
            raise self.poison_contradicted(problem) from problem
        segments = [(segment, segment.file) for segment in self._segments.find_unsynced()]
        if not segments and not self._unsynced_directories:
            return None
        sealed = [segment for segment, _ in segments if segment is not self._segments.active]
        plan = SyncPlan(self._files, segments, sealed, self._unsynced_directories, end_offset)
        for segment, _ in segments:
            segment.is_synced = True
        self._unsynced_directories = []
        with self._lock:
            self._plans_under_way.append(plan)
        return plan

    def complete_sync(
        self, plan: SyncPlan, error: StorageError | None, log_end_offset: int
    ) -> StorageError | None:
        """Record the result of a plan.

        Return None on success. Otherwise return the error, or the earlier one that had already poisoned the log.
        """
        try:
            with self._lock:
                self.failure = self.failure or error
                plan.is_complete = True
                while self._plans_under_way and self._plans_under_way[0].is_complete:
                    end_offset = self._plans_under_way.pop(0).end_offset
                    assert self.synced_offset <= end_offset <= log_end_offset, (
                        self.synced_offset,
                        end_offset,
                    )
                    if self.failure is None:
                        self.synced_offset = end_offset
                        self.durable_offset = max(self.durable_offset, end_offset)
                failure, synced_offset = self.failure, self.synced_offset
                self._completed.notify_all()
        except AssertionError as problem:
            return self.poison_contradicted(problem)
        if self._journal is not None:
            self._journal.on_settled(synced_offset)
        return failure

    def on_journaled(self, entry: JournalEntry, log_end_offset: int) -> StorageError | None:
        """Record that the journal has an entry of the log on the disk. Return the error that poisoned the log."""
        try:
            with self._lock:
                if self.failure is None:
                    assert entry.base_offset <= self.durable_offset, (entry.base_offset, self.durable_offset)
                    assert entry.end_offset <= log_end_offset, (entry.end_offset, log_end_offset)
                    if entry.end_offset > self.durable_offset:
                        self.durable_offset = entry.end_offset
                return self.failure
        except AssertionError as problem:
            return self.poison_contradicted(problem)

    def on_replicated(self, offset: int, log_end_offset: int) -> None:
        """Raise the durable and the synced offset to `offset`, because the replication engine has all records
        before it."""
        with self._lock:
            assert self.durable_offset <= offset <= log_end_offset, (
                self.durable_offset,
                offset,
                log_end_offset,
            )
            self.durable_offset = self.synced_offset = offset

    def run_plan(self, plan: SyncPlan, log_end_offset: int) -> None:
        """Run a plan and complete it, blocking. Raises SyncFailed, or the error that poisoned the log."""
        problem: StorageError | None = None
        try:
            plan.run(set())
        except StorageError as error:
            problem = error
        problem = self.complete_sync(plan, problem, log_end_offset)
        if problem is not None:
            raise problem

    def wait_for_syncs(self) -> None:
        """Block until the running syncs of other threads are complete, the log is poisoned, or
        `SYNC_TIMEOUT_S` has passed."""
        with self._completed:
            self._completed.wait_for(
                lambda: not self._plans_under_way or self.failure is not None, SYNC_TIMEOUT_S
            )

    def poison(self, error: StorageError) -> StorageError:
        """Refuse appends and syncs from now on. Return the first error that poisoned the log."""
        with self._lock:
            self.failure = self.failure or error
            return self.failure

    def poison_contradicted(self, problem: AssertionError) -> StorageError:
        """Poison the log after a failed check of its own bookkeeping; return the error to raise or report."""
        return self.poison(LogContradicted(self._directory, problem))

    def on_truncated(self, offset: int) -> None:
        """Record that the log ends at this offset or before. Syncs that began earlier do not cover later bytes."""
        with self._lock:
            self._plans_under_way.clear()
            self.durable_offset = min(self.durable_offset, offset)
            self.synced_offset = min(self.synced_offset, offset)


def undo_append(active: LogSegment, durability: LogDurability, error: OSError) -> AppendFailed:
    """Remove the remains of a failed write from a segment, or poison its log. Return the error to raise."""
    failure = AppendFailed(
        active.path, f"cannot append: {format_error_reason(error, active.path)}", active.size
    )
    try:
        active.file.truncate(active.size)
        is_taken_back = active.file.size() == active.size
    except OSError:
        is_taken_back = False
    if not is_taken_back:
        durability.poison(failure)
    return failure


def probe_append(active: LogSegment, durability: LogDurability, size: int) -> None:
    """Append `size` meaningless bytes and remove them again, to test the disk. Raises AppendFailed."""
    try:
        active.file.write(bytes(size))
        active.file.truncate(active.size)
    except OSError as error:
        raise undo_append(active, durability, error) from error
