"""The log of one partition: appended at the end, synced in the background, read anywhere.

    log_start_offset  <=  log_end_offset        synced_offset  <=  durable_offset  <=  log_end_offset

*log_end_offset* is where the next batch goes. `append` moves it as soon as the operating system has taken the
bytes: they then survive the death of this process, not that of the machine. *durable_offset* is how far they
survive that too, and *synced_offset* how far the segments alone do; `durability.py` says how they follow, and what
a *poisoned* log is. *log_start_offset* rises with retention and with DeleteRecords, which may pass the durable
offset of a log that nobody has synced.

All methods belong to the owner's thread, but those that say otherwise. `reopen` takes a poisoned log up again: it
trusts only what was durable, checks what follows, and writes it anew. A failed write that could be taken back (a
full disk) raises and leaves the log as it was.
"""

import os
from collections.abc import Sequence
from struct import Struct
from typing import Final

from storage.append_result import AppendResult
from storage.batch import LENGTH_END, MAGIC, assign_offsets, encode_batch
from storage.durability import Durability
from storage.errors import AppendFailed, LogClosed, LogPoisoned, OffsetOutOfRange, StorageError, SyncFailed
from storage.files import Files
from storage.journal.frame import Entry
from storage.journal.of_log import JournalOfLog
from storage.leader_epochs import LeaderEpochs
from storage.log_config import LogConfig
from storage.log_segments import LogSegments
from storage.os_error import reason_of
from storage.readable_log import ReadableLog
from storage.record import Record
from storage.recovery.recovery import recover
from storage.recovery.report import RecoveryReport
from storage.refused_append import take_back, try_append
from storage.retention import count_below, count_deletable
from storage.segment import Segment
from storage.sync_plan import SyncPlan

# Batch length, magic, last offset delta, max timestamp, number of records: from byte 8.
_APPENDED: Final = Struct(">i4xb6xi8xq14xi")


class PartitionLog(ReadableLog):
    """One partition's log. See the top of this file for its offsets, its threads and its failures."""

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        segments: LogSegments,
        report: RecoveryReport,
        leader_epochs: LeaderEpochs,
        journal: JournalOfLog | None = None,
    ) -> None:
        super().__init__(files, directory, config, segments, report.log_start_offset, report.log_end_offset)
        self.durability = Durability(files, directory, segments, report.durable_offset, journal)
        self.journal = journal
        """What appends go to besides; None where they do not."""
        self.leader_epochs = leader_epochs
        self.recovery_report = report
        self.is_closed = self.is_deleted = False  # deleted: or about to be
        self.cleaned_to = 0
        """Below it compaction has met every record: what is missing there may have been a tombstone."""
        self.is_pinned = False
        """Whether a compaction is under way, which replaces segments: none goes by itself meanwhile."""
        self._was_cut = False
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
        journal: JournalOfLog | None = None,
    ) -> "PartitionLog":
        """Opens the log in `directory`, which is created where it is missing.

        In: the offset up to which it was synced and the log start offset, both from the data directory's
        checkpoints; whether the last stop was clean; the journal, which gives what it has of the log, and is then
        not needed for it. What was found is in `recovery_report`.
        Raises LogDamaged for damage before the recovery point, SyncFailed, OSError.
        """
        entries = () if journal is None else journal.entries()
        if is_new := not files.is_directory(directory):
            files.mkdir(directory)
        epochs = LeaderEpochs.read(files, directory)
        segments, report = recover(
            files, directory, config, recovery_point, log_start_offset, was_clean, entries
        )
        if epochs is None:
            epochs = LeaderEpochs.first(report.log_start_offset)
            try:
                epochs.write(files, directory)
            except OSError as error:
                if is_new:
                    raise
                report = report.without(error)
        log = cls(files, directory, config, LogSegments(segments), report, epochs, journal)
        if not report.was_clean or log.log_end_offset == report.log_start_offset:
            # Nobody has synced the names of a log without records, not even a clean stop.
            log.durability.names_changed(directory, os.path.dirname(directory))
        if entries:
            log._sync_or_close()
        return log

    def reopen(self) -> "PartitionLog":
        """This log again, from what the disk holds; for a log that is poisoned. This object is closed.

        Bytes past the synced offset are checked, written anew and synced; what is missing comes from the journal.
        Raises LogDamaged, SyncFailed, OSError; the partition then stays unusable, and `reopen` may be called again.
        """
        self._segments.close()
        self.is_closed = True
        log = PartitionLog.open(
            self.files,
            self.directory,
            self.config,
            recovery_point=self.durability.synced_offset,
            log_start_offset=self.log_start_offset,
            journal=None if self.journal is None else JournalOfLog(self.journal.journal, self.journal.key),
        )
        if log.journal is not None:
            log.journal.keeps_out_until(log.log_end_offset)
        log.cleaned_to = self.cleaned_to
        log._sync_or_close()
        return log

    def _sync_or_close(self) -> None:
        try:
            self.sync()
        except BaseException:
            self._segments.close()
            raise

    # Appending

    def append(
        self, batch: bytes, *, log_append_time_ms: int | None = None, max_timestamp_ms: int | None = None
    ) -> AppendResult:
        """Gives one whole, valid batch its offsets and writes it: one call on the operating system.

        In: a batch whose base offset is not read; the times as for `assign_offsets`.
        Raises LogPoisoned, LogClosed; AppendFailed, after which nothing of the batch is in the log.
        """
        self.require_open()
        length, magic, last_offset_delta, latest_ms, count = _APPENDED.unpack_from(batch, 8)
        assert (magic, length + LENGTH_END) == (MAGIC, len(batch)), "not one whole batch"
        assert 0 < count <= last_offset_delta + 1, (count, last_offset_delta)
        if log_append_time_ms is not None:
            latest_ms = log_append_time_ms
        elif max_timestamp_ms is not None:
            latest_ms = max_timestamp_ms
        base_offset = self.log_end_offset
        last_offset = base_offset + last_offset_delta
        data = assign_offsets(
            batch, base_offset, self.leader_epochs.current, log_append_time_ms, max_timestamp_ms
        )
        config, active = self.config, self._segments.active
        try:
            is_rolled = active.is_full(len(data), last_offset, latest_ms, config)
            if is_rolled:
                active = self._roll()
            active.append(data, base_offset, last_offset, latest_ms, config.index_interval_bytes)
        except OSError as error:
            raise take_back(self._segments.active, self.durability, error) from error
        except AssertionError as problem:
            raise self.durability.contradicted(problem) from problem
        self.log_end_offset = last_offset + 1
        copy = self.journal or self.durability.outgoing
        if copy is not None:
            copy.appended(data, base_offset)
        return AppendResult(base_offset, last_offset, len(data), is_rolled)

    def append_records(self, records: Sequence[Record], now_ms: int | None = None) -> AppendResult:
        """Appends records as one batch, with `now_ms` for their times if it is given. Raises as `append`."""
        if now_ms is not None:
            records = [record._replace(timestamp_ms=now_ms) for record in records]
        return self.append(encode_batch(records))

    def try_append(self, size: int) -> None:
        """Appends bytes that mean nothing and takes them back. Raises LogPoisoned, LogClosed, AppendFailed."""
        self.require_open()
        try_append(self._segments.active, self.durability, size)

    def _roll(self) -> Segment:
        """Seals the active segment and begins the next one at the log end offset."""
        sealed = self._segments.active
        assert sealed.base_offset < self.log_end_offset == sealed.next_offset, sealed.path
        # What the journal has of the sealed segment cannot be missing before the next one. What is only on its way
        # there can.
        is_in_journal = self.journal is not None and self.durable_offset == self.log_end_offset
        is_synced = self.config.sync_on_roll and (sealed.is_synced or not is_in_journal)
        try:
            if is_synced:
                sealed.is_synced = False  # a sync under way may not have come to it
                self.sync()
            else:
                # A segment that is there and one before it that is not: nobody could tell that from retention.
                self.durability.sync_names()
            self._tell_follower()
            sealed.seal(is_synced=is_synced)
            active = Segment.create(self.files, self.directory, self.log_end_offset)
        except (OSError, SyncFailed) as error:
            raise AppendFailed(self.directory, f"cannot begin a segment: {reason_of(error)}") from error
        self._segments.add(active)
        self.durability.names_changed()
        return active

    # Syncing

    @property
    def durable_offset(self) -> int:
        """Everything before it is on the disk."""
        return self.durability.offset

    @property
    def synced_offset(self) -> int:
        """Everything before it is on the disk, in the segments: the journal is not needed for it."""
        return self.durability.synced_offset

    @property
    def awaits_record(self) -> bool:
        """Whether the journal is for it once it is on record how far the log was synced when it was opened."""
        return self.journal is not None and self.journal.is_kept_out

    @property
    def compactable_offset(self) -> int:
        """Before it compaction may leave holes."""
        return self.synced_offset if self.journal is None else self.journal.recovery_point

    @property
    def failure(self) -> StorageError | None:
        """Why the log is poisoned, None while it is not."""
        return self.durability.failure

    @property
    def is_dirty(self) -> bool:
        """Whether the segments have anything that is not synced, or only being synced."""
        end_offset = self.log_end_offset
        return end_offset > 0 and (self.durability.is_dirty or self.synced_offset < end_offset)

    def begin_sync(self) -> SyncPlan | None:
        """What has to be synced for the segments to have everything appended so far; None when nothing has.

        A plan must be run and completed, or the synced offset never rises again.
        Raises LogPoisoned, LogClosed, LogContradicted, OSError.
        """
        self.require_open()
        if self.log_end_offset == 0 or self.durability.outgoing is not None:
            return None  # a crash may as well forget the files: nothing was ever written, or it is a copy
        return self.durability.begin(self.log_end_offset)

    def complete_sync(self, plan: SyncPlan, error: StorageError | None) -> StorageError | None:
        """Takes the outcome of a plan; safe in the thread that ran it. Out: what has poisoned the log, or None."""
        return self.durability.complete(plan, error, self.log_end_offset)

    def complete_entry(self, entry: Entry) -> StorageError | None:
        """The journal has an entry on the disk; safe in that thread. Out: what has poisoned the log, or None."""
        return self.durability.journaled(entry, self.log_end_offset)

    def poison(self, error: StorageError) -> StorageError:
        """Refuses appends from now on, because of `error`; the first cause stays. Safe in any thread."""
        return self.durability.poison(error)

    def sync(self) -> None:
        """All three steps at once, blocking. Raises SyncFailed, LogPoisoned, LogClosed, LogContradicted."""
        plan = self.begin_sync()
        if plan is not None:
            self.durability.run(plan, self.log_end_offset)

    # Shrinking

    def delete_records_before(self, offset: int) -> int:
        """Raises the log start offset to `offset` and drops segments wholly below it; the new start offset.

        A lower `offset` than today's start changes nothing. A pinned log keeps its segments for now.
        Durable once the data directory's checkpoint is written. Raises OffsetOutOfRange past the end, OSError.
        """
        if not 0 <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(self.directory, offset, self.log_start_offset, self.log_end_offset)
        self.log_start_offset = max(self.log_start_offset, offset)
        self._delete_first(count_below(self._segments.all, self.log_start_offset))
        return self.log_start_offset

    def apply_retention(self, now_ms: int, *, up_to: int | None = None) -> int:
        """Deletes the segments that the configuration no longer keeps; the number of bytes that went.

        In: the wall clock; the offset that consumers can read up to (default: the log end offset).
        Raises LogDamaged, LogPoisoned, LogClosed, AppendFailed, OSError.
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
        self._delete_first(count)
        return sum(segment.size for segment in segments[:count])

    def _delete_first(self, count: int) -> None:
        if self.is_pinned or not count:
            return
        first_kept = self._segments.all[count]
        assert first_kept.base_offset <= self.log_start_offset <= self.log_end_offset, first_kept.path
        self.durability.names_changed()
        for left in reversed(range(count)):
            self._segments.remove_first(1)
            if left:
                # Were an older one there after a crash, and this one not, what follows would seem torn off.
                self.sync_directory()

    # Compaction

    def pin(self) -> None:
        """Keeps all segments where they are until `unpin`. Raises LogPoisoned, LogClosed."""
        self.require_open()
        assert not self.is_pinned, self.directory
        self.is_pinned = True

    def unpin(self) -> None:
        """Retention and DeleteRecords may remove segments again."""
        self.is_pinned = False

    @property
    def is_open(self) -> bool:
        """Whether it can be written."""
        return not self.is_closed and self.durability.failure is None

    def require_open(self) -> None:
        """Raises LogPoisoned, LogClosed when the log cannot be written."""
        if self.is_closed:
            raise LogClosed(self.directory, "the log is closed")
        failure = self.durability.failure
        if failure is not None:
            raise LogPoisoned(self.directory, f"refuses appends until it is reopened, because {failure}")

    def sync_directory(self) -> None:
        """Makes the names of all files durable; blocks, safe in any thread. Raises OSError."""
        self.files.fsync_directory(self.directory)

    def put_in_place(self, old: Sequence[Segment], new: Segment, cleaned_to: int) -> None:
        """Reads what `old`, sealed neighbours, held from `new`, of which compaction has met every record below an
        offset; the files are the caller's."""
        assert self.is_pinned, self.directory
        self._segments.replace(old, new)
        self.cleaned_to = max(self.cleaned_to, cleaned_to)

    def truncate_to(self, offset: int) -> None:
        """Removes every batch that ends at or after `offset`. Raises OffsetOutOfRange, LogDamaged, OSError."""
        self.follower = None
        self._require_within(offset)
        assert not self.is_pinned, self.directory
        assert self.journal is None, "what the journal has of it would come back"
        if offset == self.log_end_offset:
            return
        self._was_cut = True
        self.durability.cut_at(offset)
        self.log_end_offset = self._segments.cut_at(offset, self.config.index_interval_bytes)
        self.durability.cut_at(self.log_end_offset)
        self.sync_directory()

    # Ending

    def close(self, clean: bool = True) -> None:
        """Closes the files; `clean` syncs everything and writes the active indexes first. Idempotent. Raises
        SyncFailed, LogPoisoned, OSError; the files are closed all the same."""
        if self.is_closed:
            return
        try:
            if clean:
                self.sync()
                self.durability.wait()
                report = self.recovery_report
                is_as_found = report.was_clean and self.log_end_offset == report.log_end_offset
                self._tell_follower()
                if self._was_cut or not is_as_found:  # else the last clean stop has left it like this
                    self._segments.active.load_indexes(self.config.index_interval_bytes)
                    self._segments.active.seal(is_synced=True)
        finally:
            self.is_closed = True
            self._segments.close()

    def let_go(self) -> None:
        """Closes the files of a log that is about to be deleted: nothing of it has to last any more."""
        self.is_closed = self.is_deleted = True
        self._segments.close(is_deleted=True)
