"""The log of one partition: appends at the end, syncs in the background, reads at any offset.

    log_start_offset  <=  log_end_offset        synced_offset  <=  durable_offset  <=  log_end_offset

*log_end_offset* is the offset of the next batch. `append` raises it as soon as the operating system has the
bytes, which then survive the death of this process, but not of the machine. Bytes before *durable_offset*
survive a failure of the machine too; those before *synced_offset* do so in the segments, without the journal.
*log_start_offset* rises with retention and with DeleteRecords, which may pass the durable offset of a log that
is never synced.

All methods belong to the owner's thread unless their docstrings say otherwise. A failed write that can be
undone (a full disk) raises and leaves the log unchanged; otherwise the log is poisoned. `reopen` opens a
poisoned log again: it trusts only durable bytes, and checks and rewrites the others.

A `SegmentListener` keeps files of its own beside the segments, such as producer snapshots.
"""

import os
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple, Protocol

from storage.batch import LOG_OVERHEAD, MAGIC, assign_offsets, encode_batch
from storage.durability import LogDurability, SyncPlan, probe_append, undo_append
from storage.files import Files
from storage.journal.journal import LogJournal
from storage.leader_epochs import LeaderEpochs
from storage.log_config import LogConfig
from storage.log_segments import LogSegments
from storage.record import Record
from storage.recovery.recovery import RecoveryReport, recover_log
from storage.retention import count_below, count_deletable
from storage.segment import LogSegment, ReadLimits
from storage.storage_errors import (
    AppendFailed,
    LogClosed,
    LogPoisoned,
    OffsetOutOfRange,
    StorageError,
    SyncFailed,
    format_error_reason,
)
from storage.stored_batch import StoredBatch
from storage.timestamp_lookup import (
    LoadSteps,
    LookupSteps,
    find_first_at_or_after,
    find_max_timestamp,
    load_segments,
)
from storage.transaction_index import AbortedTransaction

# Batch length, magic, last offset delta, max timestamp, number of records: from byte 8.
_APPENDED_FIELDS: Final = Struct(">i4xb6xi8xq14xi")


class AppendResult(NamedTuple):
    """The place of an appended batch. Its records are durable once the log's durable offset exceeds
    `last_offset`."""

    base_offset: int
    last_offset: int
    size_bytes: int
    is_rolled: bool
    """Whether the batch began a new segment. A log that is not synced otherwise should be synced now, as in
    Kafka."""


class SegmentListener(Protocol):
    """A listener that keeps files beside the segments of a log, such as producer snapshots."""

    def on_segment_sealed(self, segment: LogSegment, end_offset: int) -> None:
        """Write the files of a complete segment, or of the last segment before a clean close.

        They are synced with the indexes of the segment. Raises OSError.
        """

    def on_compacted(self, first_offset: int, end_offset: int, kept: Sequence[AbortedTransaction]) -> None:
        """Record that one segment has replaced those between two offsets.

        `kept` has the aborted transactions with markers in that range that the index still names.
        """


class ReadableLog:
    """The segments of a log, its start and its end. All methods belong to the owner's thread."""

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        segments: LogSegments,
        log_start_offset: int,
        log_end_offset: int,
    ) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        """The configuration. The owner may replace it at any time; it applies to the next append, read or
        retention."""
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.segment_listener: SegmentListener | None = None
        self._segments = segments
        assert segments.all[0].base_offset <= log_start_offset <= log_end_offset, directory
        assert log_end_offset == segments.active.next_offset, directory

    @property
    def size_bytes(self) -> int:
        """Return the size of all segments in bytes."""
        return self._segments.size_bytes

    @property
    def segments(self) -> tuple[LogSegment, ...]:
        """The segments from the oldest to the active one, for reading only."""
        return self._segments.all

    def _notify_segment_listener(self) -> None:
        """Notify the segment listener that the active segment is complete. Raises OSError."""
        if self.segment_listener is not None:
            self.segment_listener.on_segment_sealed(self._segments.active, self.log_end_offset)

    def _check_within(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)

    def read(
        self, offset: int, max_bytes: int, *, up_to: int, min_one_batch: bool = True, is_cut: bool = False
    ) -> bytes:
        """Return batches of one segment from the one with `offset`, within the limits of `ReadLimits`.

        Return b"" if there is nothing below `up_to`.

        Raises:
            IndexesNotLoaded: a segment has to be loaded first, see `PartitionLog.load_segments`.
            OffsetOutOfRange, LogDamaged
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)
        if offset >= up_to or offset == self.log_end_offset:
            return b""
        limits = ReadLimits(max_bytes, up_to, min_one_batch, is_cut)
        return self._segments.read(offset, limits)

    def find_upper_bound_offset(self, offset: int, size_bytes: int) -> int:
        """Return an offset after all batches that a read of `size_bytes` from `offset` has returned.

        It is the end of the next indexed batch, of the segment, or of the log. Raises LogDamaged.

        Source: Kafka's `LogSegment.fetchUpperBoundOffset`.
        """
        self._check_within(offset)
        return self._segments.find_upper_bound_offset(
            offset, size_bytes, self.log_end_offset, self.config.index_interval_bytes
        )

    def count_bytes_from(self, offset: int) -> int:
        """Return the size of the batches that end at or after an offset. Raises OffsetOutOfRange, LogDamaged."""
        self._check_within(offset)
        return self._segments.count_bytes_from(offset, self.config.index_interval_bytes)

    def iterate_batches(self, from_offset: int | None = None) -> Iterator[StoredBatch]:
        """Yield every batch that ends at or after `from_offset` (default: the log start offset), with verified
        checksums.

        Gaps and empty batches that compaction left are normal. The walk ends at the end offset that the log
        had when the walk began. Raises OffsetOutOfRange, and LogDamaged with file and position.
        """
        if from_offset is None:
            from_offset = self.log_start_offset
        self._check_within(from_offset)
        return self._segments.iterate_batches(
            from_offset, self.log_end_offset, self.config.index_interval_bytes
        )


class PartitionLog(ReadableLog):
    """The log of one partition: appends, syncs, deletion, compaction and reopening, in addition to reading."""

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        segments: LogSegments,
        report: RecoveryReport,
        leader_epochs: LeaderEpochs,
        journal: LogJournal | None = None,
    ) -> None:
        super().__init__(files, directory, config, segments, report.log_start_offset, report.log_end_offset)
        self.durability = LogDurability(files, directory, segments, report.durable_offset, journal)
        self.journal = journal
        """The journal that gets the appended batches too; None without one."""
        self.leader_epochs = leader_epochs
        self.recovery_report = report
        self.is_closed = self.is_deleted = False  # is_deleted: the log is deleted or about to be
        self.cleaned_offset = 0
        """Compaction has read every record below it. Missing records there may have been tombstones."""
        self.is_pinned = False
        """Whether a compaction or a copy is running. Retention removes no segment meanwhile."""
        self._is_truncated = False
        assert report.durable_offset <= self.log_end_offset, report

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
        journal: LogJournal | None = None,
    ) -> "PartitionLog":
        """Open the log in `directory`, which is created if it is missing.

        Args:
            files: The file system.
            directory: The directory of the partition.
            config: The configuration.
            recovery_point: The synced offset, from the checkpoint.
            log_start_offset: The log start offset, from the checkpoint.
            was_clean: Whether the last stop was clean.
            journal: The journal. It provides the missing records, which it then does not need any more.

        `recovery_report` describes the recovery.

        Raises:
            LogDamaged: damage before the recovery point.
            SyncFailed, OSError
        """
        entries = () if journal is None else journal.read_entries()
        if is_new := not files.is_directory(directory):
            files.mkdir(directory)
        epochs = LeaderEpochs.read(files, directory)
        segments, report = recover_log(
            files, directory, config, recovery_point, log_start_offset, was_clean, entries
        )
        if epochs is None:
            epochs = LeaderEpochs.create_first(report.log_start_offset)
            try:
                epochs.write(files, directory)
            except OSError as error:
                if is_new:
                    raise
                report = report.with_postponed(error)
        log = cls(files, directory, config, LogSegments(segments), report, epochs, journal)
        if not report.was_clean or log.log_end_offset == report.log_start_offset:
            # The directory entries of a log without records were never synced, not even by a clean stop.
            log.durability.mark_names_unsynced(directory, os.path.dirname(directory))
        if entries:
            log._sync_or_close()
        return log

    def reopen(self) -> "PartitionLog":
        """Open a poisoned log again from the content of the disk. This object is closed.

        Bytes past the synced offset are checked, written again and synced. The journal provides missing
        records. Raises LogDamaged, SyncFailed, OSError; the partition then stays unusable, and `reopen` may
        be called again.
        """
        self._segments.close()
        self.is_closed = True
        log = PartitionLog.open(
            self.files,
            self.directory,
            self.config,
            recovery_point=self.durability.synced_offset,
            log_start_offset=self.log_start_offset,
            journal=None if self.journal is None else LogJournal(self.journal.journal, self.journal.key),
        )
        if log.journal is not None:
            log.journal.hold_out_until(log.log_end_offset)
        log.cleaned_offset = self.cleaned_offset
        log._sync_or_close()
        return log

    def _sync_or_close(self) -> None:
        try:
            self.sync()
        except BaseException:
            self._segments.close()
            raise

    # Steps for another thread

    def find_segment(self, offset: int) -> tuple[LogSegment, int]:
        """Return the segment that holds an offset, and the offset at which the next one begins, or the log ends.
        Raises LogClosed."""
        if self.is_closed:
            raise LogClosed(self.directory, "the log is closed")
        return self._segments.find_segment(offset, self.log_end_offset)

    def load_segments(self, offset: int) -> LoadSteps:
        """Load the indexes that a read from an offset needs. Raises LogClosed, LogDamaged, OSError."""
        return load_segments(self, offset, self.config.index_interval_bytes)

    def find_offset_for_timestamp(self, timestamp_ms: int) -> LookupSteps:
        """Return the first record at or after `timestamp_ms`, or None. Raises LogClosed, LogDamaged, OSError."""
        return find_first_at_or_after(self, timestamp_ms, self.config.index_interval_bytes)

    def find_max_timestamp(self) -> LookupSteps:
        """Return the greatest time of all records and the first offset that has it. Raises LogClosed, LogDamaged,
        OSError."""
        return find_max_timestamp(self, self.config.index_interval_bytes)

    # Appending

    def append(
        self, batch: bytes, *, log_append_time_ms: int | None = None, max_timestamp_ms: int | None = None
    ) -> AppendResult:
        """Assign offsets to one complete, valid batch and write it with one system call.

        The base offset of `batch` is ignored. The times are those of `assign_offsets`.
        Raises LogPoisoned, LogClosed; AppendFailed, after which the log has no part of the batch.
        """
        length, magic, last_offset_delta, latest_ms, count = _APPENDED_FIELDS.unpack_from(batch, 8)
        assert (magic, length + LOG_OVERHEAD) == (MAGIC, len(batch)), "not one whole batch"
        assert 0 < count <= last_offset_delta + 1, (count, last_offset_delta)
        if log_append_time_ms is not None:
            latest_ms = log_append_time_ms
        elif max_timestamp_ms is not None:
            latest_ms = max_timestamp_ms
        base_offset = self.log_end_offset
        data = assign_offsets(
            batch, base_offset, self.leader_epochs.current, log_append_time_ms, max_timestamp_ms
        )
        is_rolled = self.append_encoded(data, last_offset_delta + 1, latest_ms)
        return AppendResult(base_offset, base_offset + last_offset_delta, len(data), is_rolled)

    def append_encoded(self, data: bytes, offset_count: int, latest_ms: int) -> bool:
        """Write one whole batch that was encoded with this log's end offset and leader epoch.

        Args:
            data: the batch.
            offset_count: how many offsets its range has.
            latest_ms: its greatest timestamp.

        Returns: whether the batch began a segment. Raises as `append`.
        """
        if self.is_closed or self.durability.failure is not None:
            self.require_open()
        base_offset = self.log_end_offset
        last_offset = base_offset + offset_count - 1
        config, active, is_rolled = self.config, self._segments.active, False
        try:
            assert int.from_bytes(data[:8]) == base_offset, (self.directory, base_offset)
            if active.is_full(len(data), last_offset, latest_ms, config):
                is_rolled, active = True, self._roll()
            active.append(data, base_offset, last_offset, latest_ms, config.index_interval_bytes)
        except OSError as error:
            raise undo_append(self._segments.active, self.durability, error) from error
        except AssertionError as problem:
            raise self.durability.poison_contradicted(problem) from problem
        self.log_end_offset = last_offset + 1
        copy = self.journal or self.durability.replication_queue
        if copy is not None:
            copy.add_batch(data, base_offset)
        return is_rolled

    def append_records(self, records: Sequence[Record], now_ms: int | None = None) -> AppendResult:
        """Append records as one batch. `now_ms`, if given, replaces their times. Raises as `append`."""
        if now_ms is not None:
            records = [record._replace(timestamp_ms=now_ms) for record in records]
        return self.append(encode_batch(records))

    def probe_append(self, size: int) -> None:
        """Append `size` meaningless bytes and remove them again, to test the disk. Raises LogPoisoned,
        LogClosed, AppendFailed."""
        self.require_open()
        probe_append(self._segments.active, self.durability, size)

    def _roll(self) -> LogSegment:
        """Seal the active segment and begin the next one at the log end offset."""
        sealed = self._segments.active
        assert sealed.base_offset < self.log_end_offset == sealed.next_offset, sealed.path
        # A crash cannot lose records of the sealed segment that the journal has. Records that are not in the
        # journal yet could be lost although the next segment exists.
        # there can.
        is_in_journal = self.journal is not None and self.durable_offset == self.log_end_offset
        is_synced = self.config.sync_on_roll and (sealed.is_synced or not is_in_journal)
        try:
            if is_synced:
                sealed.is_synced = False  # a running sync may not cover it
                self.sync()
            else:
                # A segment with a missing predecessor would look like the result of retention.
                self.durability.sync_names()
            self._notify_segment_listener()
            sealed.seal(is_synced=is_synced)
            active = LogSegment.create(self.files, self.directory, self.log_end_offset)
        except (OSError, SyncFailed) as error:
            raise AppendFailed(
                self.directory, f"cannot begin a segment: {format_error_reason(error)}"
            ) from error
        self._segments.add_active(active)
        self.durability.mark_names_unsynced()
        return active

    # Syncing

    @property
    def durable_offset(self) -> int:
        """Return the offset below which all records are on the disk."""
        return self.durability.durable_offset

    @property
    def synced_offset(self) -> int:
        """Return the offset below which all records are in synced segments, without the journal."""
        return self.durability.synced_offset

    @property
    def awaits_recovery_point(self) -> bool:
        """Whether the log will use the journal as soon as a checkpoint has its recovery point."""
        return self.journal is not None and self.journal.is_held_out

    @property
    def compactable_offset(self) -> int:
        """The offset before which compaction may leave gaps."""
        return self.synced_offset if self.journal is None else self.journal.recovery_point

    @property
    def failure(self) -> StorageError | None:
        """The error that poisoned the log, or None."""
        return self.durability.failure

    @property
    def is_dirty(self) -> bool:
        """Whether the segments have bytes that are not synced, including those of a running sync."""
        end_offset = self.log_end_offset
        return end_offset > 0 and (self.durability.is_dirty or self.synced_offset < end_offset)

    def begin_sync(self) -> SyncPlan | None:
        """Return the plan to sync all appended records to the segments; None if nothing is unsynced.

        A plan must be run and completed, or the synced offset never rises again.
        Raises LogPoisoned, LogClosed, LogContradicted, OSError.
        """
        self.require_open()
        if self.log_end_offset == 0 or self.durability.replication_queue is not None:
            return None  # a crash may lose the files: nothing was ever written, or the log is a copy
        return self.durability.begin_sync(self.log_end_offset)

    def complete_sync(self, plan: SyncPlan, error: StorageError | None) -> StorageError | None:
        """Complete a plan; safe in the thread that ran it. Return the error that poisoned the log, or None."""
        return self.durability.complete_sync(plan, error, self.log_end_offset)

    def poison(self, error: StorageError) -> StorageError:
        """Poison the log: refuse appends from now on. Return the first error that poisoned it. Safe in any
        thread."""
        return self.durability.poison(error)

    def sync(self) -> None:
        """Run all three steps of a sync at once, blocking. Raises SyncFailed, LogPoisoned, LogClosed,
        LogContradicted."""
        plan = self.begin_sync()
        if plan is not None:
            self.durability.run_plan(plan, self.log_end_offset)

    # Deletion of records

    def delete_records_before(self, offset: int) -> int:
        """Raise the log start offset to `offset`, and delete the segments below it. Return the log start
        offset.

        An offset below the current start changes nothing. A pinned log keeps its segments until `unpin`. The
        change is durable after the checkpoint of the data directory is written. Raises OffsetOutOfRange past
        the end, OSError.
        """
        if not 0 <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)
        self.log_start_offset = max(self.log_start_offset, offset)
        self._delete_segments(count_below(self._segments.all, self.log_start_offset))
        return self.log_start_offset

    def apply_retention(self, now_ms: int, *, up_to: int | None = None) -> int:
        """Delete the segments that the configuration no longer keeps. Return their size in bytes.

        `now_ms` is the wall clock. `up_to` is the offset that consumers can read up to (default: the log end
        offset). Raises LogDamaged, LogPoisoned, LogClosed, AppendFailed, OSError.
        """
        self.require_open()
        if self.is_pinned:
            return 0
        limit = self.log_end_offset if up_to is None else up_to
        segments, start_offset = self._segments.all, self.log_start_offset
        count = count_deletable(segments, self.config, now_ms, start_offset, self.log_end_offset, limit)
        if count == len(segments):
            self._roll()
            self.sync_directory()
        first_kept = self._segments.all[count]
        assert first_kept.base_offset <= max(limit, start_offset) or not count, first_kept.path
        self.log_start_offset = max(start_offset, first_kept.base_offset)
        self._delete_segments(count)
        return sum(segment.size for segment in segments[:count])

    def _delete_segments(self, count: int) -> None:
        if self.is_pinned or not count:
            return
        first_kept = self._segments.all[count]
        assert first_kept.base_offset <= self.log_start_offset <= self.log_end_offset, first_kept.path
        self.durability.mark_names_unsynced()
        for left in reversed(range(count)):
            self._segments.remove_first(1)
            if left:
                # A crash could otherwise keep an older snapshot only, and later bytes would look like a torn
                # tail.
                self.sync_directory()

    # Compaction

    def pin(self) -> None:
        """Keep all segments in place until `unpin`. Raises LogPoisoned, LogClosed."""
        self.require_open()
        assert not self.is_pinned, self.directory
        self.is_pinned = True

    def unpin(self) -> None:
        """Retention and DeleteRecords may remove segments again."""
        self.is_pinned = False

    @property
    def is_open(self) -> bool:
        """Return whether the log can be written."""
        return not self.is_closed and self.durability.failure is None

    def require_open(self) -> None:
        """Check that the log can be written. Raises LogPoisoned, LogClosed."""
        if self.is_closed:
            raise LogClosed(self.directory, "the log is closed")
        failure = self.durability.failure
        if failure is not None:
            raise LogPoisoned(self.directory, f"refuses appends until it is reopened, because {failure}")

    def sync_directory(self) -> None:
        """Make the names of all files durable. It blocks and is safe in any thread. Raises OSError."""
        self.files.fsync_directory(self.directory)

    def replace_segments(self, old: Sequence[LogSegment], new: LogSegment, cleaned_offset: int) -> None:
        """Replace the adjacent sealed segments `old` by `new`. Compaction has read every record below
        `cleaned_offset`. The caller manages the files."""
        assert self.is_pinned, self.directory
        self._segments.replace(old, new)
        self.cleaned_offset = max(self.cleaned_offset, cleaned_offset)

    def record_cleaning(self, cleaned_offset: int) -> None:
        """Record that compaction has read every record below an offset."""
        self.cleaned_offset = cleaned_offset

    def change_config(self, config: LogConfig) -> None:
        """Apply a changed configuration from the next append or deletion on."""
        self.config = config

    def replace_leader_epochs(self, epochs: LeaderEpochs) -> None:
        """Replace the leader epochs, durably; blocks. Raises OSError; the log then keeps its epochs."""
        epochs.write_durably(self.files, self.directory)
        self.leader_epochs = epochs

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that ends at or after `offset`. Raises OffsetOutOfRange, LogDamaged, OSError."""
        self.segment_listener = None
        self._check_within(offset)
        assert not self.is_pinned, self.directory
        assert self.journal is None, "records of it in the journal would come back"
        if offset == self.log_end_offset:
            return
        self._is_truncated = True
        self.durability.on_truncated(offset)
        self.log_end_offset = self._segments.truncate_to_offset(offset, self.config.index_interval_bytes)
        self.durability.on_truncated(self.log_end_offset)
        self.sync_directory()

    # Closing

    def close(self, clean: bool = True) -> None:
        """Close the files. `clean` syncs all bytes and writes the active indexes first. Idempotent. Raises
        SyncFailed, LogPoisoned, OSError; the files are closed nevertheless."""
        if self.is_closed:
            return
        try:
            if clean:
                self.sync()
                self.durability.wait_for_syncs()
                report = self.recovery_report
                is_as_found = report.was_clean and self.log_end_offset == report.log_end_offset
                self._notify_segment_listener()
                if self._is_truncated or not is_as_found:  # otherwise the files are as a clean stop left them
                    self._segments.active.load_indexes(self.config.index_interval_bytes)
                    self._segments.active.seal(is_synced=True)
        finally:
            self.is_closed = True
            self._segments.close()

    def close_deleted(self) -> None:
        """Close the files of a log that is about to be deleted. Nothing is synced."""
        self.is_closed = self.is_deleted = True
        self._segments.close(is_deleted=True)
