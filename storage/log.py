"""The log of one partition: appended at the end, synced in the background, read anywhere, cut only by
recovery.

Three offsets say what can be relied on, always in this order:

    log_start_offset  <=  durable_offset  <=  log_end_offset

*log_end_offset* is where the next batch goes. `append` moves it as soon as the operating system has taken the
bytes: they then survive the death of this process, not that of the machine. *durable_offset* follows when an
fdatasync that began after those bytes were written has returned; what an acknowledgement may promise ends
there. Where a checkpoint on disk says the durable offset was, recovery begins: that offset is its *recovery
point*. *log_start_offset* rises with retention and with DeleteRecords.

Syncing takes three steps so that it can happen in another thread. `begin_sync` (the owner's thread) collects
the files with unsynced bytes and notes the log end offset. `SyncPlan.run` (any thread) calls fdatasync on
them. `complete_sync` (that thread) raises the durable offset to the noted one, or poisons the log. All other
methods belong to the owner's thread. Plans of one log must run in the order in which they were begun.

A log is *poisoned* when what the disk holds is unknown: an fdatasync failed (the kernel forgets which pages
were lost, so asking again proves nothing), or a failed write could not be taken back. A poisoned log refuses
appends and syncs until `reopen`, which trusts only what was durable, checks what follows, and writes it anew.
A failed write that could be taken back (a full disk) raises and leaves the log as it was.

Segments are immutable once sealed, and the list of them is the only thing that names them: deletion,
truncation and compaction change files first and the list after, or the other way round, whichever order a
crash in between leaves harmless. While compaction works the log is *pinned*: no segment goes by itself.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from struct import Struct
from typing import Final

from storage.append_result import AppendResult
from storage.batch import LENGTH_END, MAGIC, assign_offsets, encode_batch
from storage.compaction.swap import finish_swaps
from storage.errors import (
    AppendFailed,
    CorruptBatch,
    LogClosed,
    LogDamaged,
    LogPoisoned,
    OffsetOutOfRange,
    StorageError,
    SyncFailed,
)
from storage.files import Files, delete_directory
from storage.leader_epochs import LeaderEpochs
from storage.log_config import LogConfig
from storage.lookup import TimestampOffset, first_at_or_after, latest
from storage.os_error import reason_of
from storage.record import Record
from storage.recovery import RecoveryReport, recover
from storage.retention import count_below, count_deletable
from storage.segment import Segment, StoredBatch
from storage.sync_plan import SyncPlan, unsynced
from storage.transaction_index import AbortedTransactions, read_aborted
from storage.walk import walk_segments

_APPENDED: Final = Struct(">i4xb6xi8xq")  # batch length, magic, last offset delta, max timestamp: from byte 8
_base_offset = attrgetter("base_offset")


class PartitionLog:
    """One partition's log. See the top of this file for its offsets, its threads and its failures."""

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        segments: list[Segment],
        report: RecoveryReport,
        leader_epochs: LeaderEpochs,
    ) -> None:
        self.files = files
        self._segments = segments
        self._active = segments[-1]
        self._unsynced_directories: list[str] = []
        self._durable_lock = threading.Lock()
        self.directory = directory
        self.config = config
        """May be replaced at any time; the next append, read or retention obeys it."""
        self.leader_epochs = leader_epochs
        self.recovery_report = report
        self.log_start_offset = report.log_start_offset
        self.log_end_offset = report.log_end_offset
        self.durable_offset = report.log_end_offset
        self.failure: StorageError | None = None
        """Why the log is poisoned, None while it is not."""
        self.is_closed = False
        self.cleaned_to = 0
        """Below it compaction has met every record: what is missing there may have been a tombstone."""
        self._is_pinned = False
        self.cuts = 0
        """How often the end was moved back, so that a sync begun before does not count."""

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        was_clean: bool = False,
    ) -> "PartitionLog":
        """Opens the log in `directory`, which is created where it is missing.

        In: the offset up to which it was synced and the log start offset, both from the data directory's
        checkpoints; whether the last stop was clean. What was found is in `recovery_report`.
        Raises LogDamaged for damage before the recovery point, OSError.
        """
        if not files.is_directory(directory):
            files.mkdir(directory)
        was_clean = not finish_swaps(files, directory) and was_clean
        epochs = LeaderEpochs.read(files, directory)
        segments, report = recover(files, directory, config, recovery_point, log_start_offset, was_clean)
        epochs = epochs or LeaderEpochs.create(files, directory, report.log_start_offset)
        log = cls(files, directory, config, segments, report, epochs)
        if not report.was_clean or log.log_end_offset == report.log_start_offset:
            # Nobody has synced the names of a log without records, not even a clean stop.
            log._unsynced_directories = [directory, os.path.dirname(directory)]
        if not report.was_clean:
            log.durable_offset = min(max(recovery_point, report.log_start_offset), report.log_end_offset)
        return log

    def reopen(self) -> "PartitionLog":
        """This log again, from what the disk holds; for a log that is poisoned. This object is closed.

        Bytes past the durable offset are checked, written anew and synced. Raises LogDamaged, SyncFailed,
        OSError; the partition then stays unusable, and `reopen` may be called again.
        """
        self._close_files()
        self.is_closed = True
        log = PartitionLog.open(
            self.files,
            self.directory,
            self.config,
            recovery_point=self.durable_offset,
            log_start_offset=self.log_start_offset,
        )
        log.cleaned_to = self.cleaned_to
        try:
            log.sync()
        except BaseException:
            log._close_files()
            raise
        return log

    # Appending

    def append(
        self, batch: bytes, *, log_append_time_ms: int | None = None, max_timestamp_ms: int | None = None
    ) -> AppendResult:
        """Gives one whole, valid batch its offsets and writes it: one call on the operating system.

        In: a batch whose base offset is not read; the times as for `assign_offsets`.
        Raises LogPoisoned, LogClosed; AppendFailed, after which nothing of the batch is in the log.
        """
        self.require_open()
        length, magic, last_offset_delta, latest_ms = _APPENDED.unpack_from(batch, 8)
        assert (magic, length + LENGTH_END) == (MAGIC, len(batch)), "not one whole batch"
        assert last_offset_delta >= 0
        if log_append_time_ms is not None:
            latest_ms = log_append_time_ms
        elif max_timestamp_ms is not None:
            latest_ms = max_timestamp_ms
        base_offset = self.log_end_offset
        last_offset = base_offset + last_offset_delta
        data = assign_offsets(
            batch, base_offset, self.leader_epochs.current, log_append_time_ms, max_timestamp_ms
        )
        config = self.config
        is_rolled = self._active.is_full(len(data), last_offset, latest_ms, config)
        if is_rolled:
            self._roll()
        try:
            self._active.append(data, last_offset, latest_ms, config.index_interval_bytes)
        except OSError as error:
            raise self._take_back(error) from error
        self.log_end_offset = last_offset + 1
        return AppendResult(base_offset, last_offset, len(data), is_rolled)

    def append_records(self, records: Sequence[Record], now_ms: int | None = None) -> AppendResult:
        """Appends records as one batch, with `now_ms` for their times if it is given. Raises as `append`."""
        if now_ms is not None:
            records = [record._replace(timestamp_ms=now_ms) for record in records]
        return self.append(encode_batch(records))

    def _take_back(self, error: OSError) -> AppendFailed:
        """Removes what a failed write may have left, or poisons the log."""
        active = self._active
        failure = AppendFailed(active.path, f"cannot append: {reason_of(error, active.path)}", active.size)
        try:
            active.file.truncate(active.size)
        except OSError:
            self.failure = failure
        return failure

    def _roll(self) -> None:
        """Seals the active segment and begins the next one at the log end offset."""
        sealed = self._active
        assert sealed.base_offset < self.log_end_offset
        try:
            if self.config.sync_on_roll:
                self.sync()
            sealed.write_indexes()
            if self.config.sync_on_roll:
                sealed.sync_indexes()
            self._active = Segment.create(self.files, self.directory, self.log_end_offset)
        except (OSError, SyncFailed) as error:
            raise AppendFailed(self.directory, f"cannot begin a segment: {reason_of(error)}") from error
        self._segments.append(self._active)
        if self.directory not in self._unsynced_directories:
            self._unsynced_directories.append(self.directory)

    # Syncing

    @property
    def is_dirty(self) -> bool:
        """Whether `begin_sync` would have anything to do."""
        return self.log_end_offset > 0 and bool(self._unsynced_directories or unsynced(self._segments))

    def begin_sync(self) -> SyncPlan | None:
        """What has to be synced for everything appended so far to be durable; None when nothing does.

        A plan must be run and completed, or the log's durable offset says nothing any more.
        Raises LogPoisoned, LogClosed, OSError.
        """
        self.require_open()
        if self.log_end_offset == 0:
            return None  # nothing was ever written: a crash may as well forget the files
        segments = [(segment, segment.file) for segment in unsynced(self._segments)]
        if not segments and not self._unsynced_directories:
            return None
        sealed = [segment for segment, _ in segments if segment is not self._active]
        plan = SyncPlan(
            self.files, segments, sealed, self._unsynced_directories, self.log_end_offset, self.cuts
        )
        for segment, _ in segments:
            segment.is_synced = True
        self._unsynced_directories = []
        return plan

    def complete_sync(self, plan: SyncPlan, error: StorageError | None) -> StorageError | None:
        """Takes the outcome of a plan that was run; safe in the thread that ran it.

        Out: None when the plan's end offset is durable now; otherwise the error, or the earlier one that had
        already poisoned the log.
        """
        with self._durable_lock:
            if self.failure is None:
                self.failure = error
            if self.failure is None and plan.cuts == self.cuts:
                self.durable_offset = max(self.durable_offset, plan.end_offset)
            return self.failure

    def poison(self, error: StorageError) -> StorageError:
        """Refuses appends from now on, because of `error`; the first cause stays. Safe in any thread."""
        with self._durable_lock:
            self.failure = self.failure or error
            return self.failure

    def sync(self) -> None:
        """All three steps at once, blocking. Raises SyncFailed, LogPoisoned, LogClosed."""
        plan = self.begin_sync()
        if plan is None:
            return
        try:
            plan.run(set())
        except StorageError as error:
            self.complete_sync(plan, error)
            raise
        self.complete_sync(plan, None)

    # Reading

    @property
    def size_bytes(self) -> int:
        """Of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """From oldest to active, for reading only."""
        return tuple(self._segments)

    def read(
        self, offset: int, max_bytes: int, *, up_to: int, min_one_batch: bool = True, is_cut: bool = False
    ) -> bytes:
        """Batches of one segment, from the one that holds `offset`; none that begins at `up_to` or later.

        In: whether a first batch larger than `max_bytes` comes whole; whether the last may be cut there.
        Out: b"" if there is nothing below `up_to`. Raises OffsetOutOfRange, LogDamaged."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)
        if offset >= up_to or offset == self.log_end_offset:
            return b""
        interval_bytes = self.config.index_interval_bytes
        for segment in self._segments[self._segment_number(offset) :]:
            try:
                data = segment.read(offset, max_bytes, up_to, min_one_batch, is_cut, interval_bytes)
            except CorruptBatch as error:
                raise LogDamaged(segment.path, error.reason, error.position) from error
            # Compaction may have left nothing from this offset to the end of its segment.
            if data or not self._ends_before(segment, offset):
                return data
        return b""

    def aborted_transactions(self, still_open: Mapping[int, int]) -> AbortedTransactions:
        """Those of its indexes, and `still_open` (first offset by producer id). Raises DamagedFile, OSError."""
        return read_aborted(self.files, self.directory, still_open)

    def _segment_number(self, offset: int) -> int:
        if offset >= self._active.base_offset:
            return len(self._segments) - 1
        return max(0, bisect_right(self._segments, offset, key=_base_offset) - 1)

    def _ends_before(self, segment: Segment, offset: int) -> bool:
        return segment.position_of(offset, self.config.index_interval_bytes) >= segment.size

    def batches(self, from_offset: int | None = None) -> Iterator[StoredBatch]:
        """Every batch that ends at or after `from_offset` (default: the log start offset), checksums
        verified.

        Gaps and empty batches that compaction left are normal. Ends where the log ended when the walk began.
        Raises OffsetOutOfRange, LogDamaged with file and position.
        """
        if from_offset is None:
            from_offset = self.log_start_offset
        if not self.log_start_offset <= from_offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, from_offset, self.log_start_offset, self.log_end_offset)
        segments = self._segments[self._segment_number(from_offset) :]
        return walk_segments(segments, from_offset, self.log_end_offset, self.config.index_interval_bytes)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record whose time is `timestamp_ms` or later, if there is one. Raises LogDamaged."""
        try:
            return first_at_or_after(
                self._segments, timestamp_ms, self.log_start_offset, self.config.index_interval_bytes
            )
        except CorruptBatch as error:
            raise LogDamaged(self.directory, error.reason, error.position) from error

    def max_timestamp(self) -> TimestampOffset | None:
        """The greatest time of all records and the first offset that has it. Raises LogDamaged."""
        try:
            return latest(self._segments, self.log_start_offset, self.config.index_interval_bytes)
        except CorruptBatch as error:
            raise LogDamaged(self.directory, error.reason, error.position) from error

    # Shrinking

    def delete_records_before(self, offset: int) -> int:
        """Raises the log start offset to `offset` and drops segments wholly below it; the new start offset.

        A lower `offset` than today's start changes nothing. A pinned log keeps its segments for now.
        Durable once the data directory's checkpoint is written. Raises OffsetOutOfRange past the end, OSError.
        """
        if offset > self.log_end_offset or offset < 0:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)
        self.log_start_offset = max(self.log_start_offset, offset)
        self._delete_first(count_below(self._segments, self.log_start_offset))
        return self.log_start_offset

    def apply_retention(self, now_ms: int, *, up_to: int | None = None) -> int:
        """Deletes the segments that the configuration no longer keeps; the number of bytes that went.

        In: the wall clock; the offset that consumers can read up to (default: the log end offset).
        Raises LogDamaged, LogPoisoned, LogClosed, AppendFailed, OSError.
        """
        self.require_open()
        if self._is_pinned:
            return 0
        limit = self.log_end_offset if up_to is None else up_to
        try:
            count = count_deletable(
                self._segments, self.config, now_ms, self.log_start_offset, self.log_end_offset, limit
            )
        except CorruptBatch as error:
            raise LogDamaged(self.directory, error.reason, error.position) from error
        if count == len(self._segments):
            self._roll()
            self.sync_directory()
        size_bytes = sum(segment.size for segment in self._segments[:count])
        self.log_start_offset = max(self.log_start_offset, self._segments[count].base_offset)
        self._delete_first(count)
        return size_bytes

    def _delete_first(self, count: int) -> None:
        if self._is_pinned:
            return
        for segment in self._segments[:count]:
            segment.delete()
            self._segments.remove(segment)
        if count and self.directory not in self._unsynced_directories:
            self._unsynced_directories.append(self.directory)

    # Compaction

    @property
    def is_pinned(self) -> bool:
        """Whether a compaction is under way, which replaces segments."""
        return self._is_pinned

    def pin(self) -> None:
        """Keeps all segments where they are until `unpin`. Raises LogPoisoned, LogClosed."""
        self.require_open()
        assert not self._is_pinned, self.directory
        self._is_pinned = True

    def unpin(self) -> None:
        """Retention and DeleteRecords may remove segments again."""
        self._is_pinned = False

    def require_open(self) -> None:
        """Raises LogPoisoned, LogClosed when the log cannot be written."""
        if self.is_closed:
            raise LogClosed(self.directory, "the log is closed")
        if self.failure is not None:
            raise LogPoisoned(self.directory, f"refuses appends until it is reopened, because {self.failure}")

    def sync_directory(self) -> None:
        """Makes the names of all files durable; blocks, safe in any thread. Raises OSError."""
        self.files.fsync_directory(self.directory)

    def put_in_place(self, old: Sequence[Segment], new: Segment) -> None:
        """Reads what `old`, sealed neighbours, held from `new`; the files are the caller's."""
        first = self._segments.index(old[0])
        assert self._is_pinned, self.directory
        assert self._segments[first : first + len(old)] == list(old)
        assert self._active not in old
        assert new.base_offset == old[0].base_offset
        self._segments[first : first + len(old)] = [new]

    def truncate_to(self, offset: int) -> None:
        """Removes every batch that ends at or after `offset`. Raises OffsetOutOfRange, LogDamaged, OSError."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)
        assert not self._is_pinned, self.directory
        if offset == self.log_end_offset:
            return
        with self._durable_lock:
            self.cuts += 1
            self.durable_offset = min(self.durable_offset, offset)
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._segments.pop().delete()
        active = self._active = self._segments[-1]
        try:
            end_offset = active.cut_at(offset, self.config.index_interval_bytes)
        except CorruptBatch as error:
            raise LogDamaged(active.path, error.reason, error.position) from error
        self.log_end_offset = end_offset
        with self._durable_lock:
            self.durable_offset = min(self.durable_offset, end_offset)
        self.sync_directory()

    # Ending

    def close(self, clean: bool = True) -> None:
        """Closes the files; `clean` syncs everything and writes the active indexes first. Idempotent.

        Raises SyncFailed, LogPoisoned, OSError; the files are closed all the same.
        """
        if self.is_closed:
            return
        try:
            if clean:
                self.sync()
                if not self._is_as_found():
                    self._active.load_indexes(self.config.index_interval_bytes)
                    self._active.write_indexes()
                    self._active.sync_indexes()
        finally:
            self.is_closed = True
            self._close_files()

    def _is_as_found(self) -> bool:
        """Whether the files of the active segment, indexes included, are what a clean stop has left."""
        report = self.recovery_report
        return report.was_clean and not self.cuts and self.log_end_offset == report.log_end_offset

    def delete(self) -> None:
        """Removes the whole directory. Raises OSError."""
        self.is_closed = True
        for segment in self._segments:
            segment.is_deleted = True
        self._close_files()
        delete_directory(self.files, self.directory)

    def _close_files(self) -> None:
        for segment in self._segments:
            segment.close()
