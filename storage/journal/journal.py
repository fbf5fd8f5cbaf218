"""The journal: acknowledged batches that are not yet in a synced segment, in a few files that are written in
turn.

With `log.flush=always` a response waits until its records are on the disk. The records of one loop iteration
go to as many segments as there are partitions, and each segment needs a sync of its own. So records are
written twice: to their segments, which are synced later, and in one frame to the journal, which is synced
once. After that sync the responses are sent.

    journal/<run>-<n>       files of a bounded size; <run> is the process, 16 hex digits

A log is *settled* up to the synced offset of its segments: it does not need journal entries before that. When
a file is full, the journal goes on to the next one, and settles the logs of the full file in the background.
When all logs of a file are settled, the file is *free* and used again, the oldest first. If no file is free
and no more are allowed, or if the disk fails, the journal accepts no entries and the segments are synced
instead. That is as safe, but slower.

After a crash the files are *left over*. Each log takes back missing records from them when it is opened, and
is settled by a sync. The files of the former process are removed when all of their logs are settled. They stay
while a log cannot be opened.

The records of the journal are in their log at the same offsets, unless the log was deleted. A log is never
truncated while it is in use, and a reopened log takes the records of the journal first. Therefore entries need
no order beside their offsets. Code that truncates a log must preserve this invariant.

`Journal` belongs to one data directory; its `write` runs in the thread that syncs. `LogJournal` is the part of
one log: the batches for the next frame, and its settled offset.
"""

import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from storage.files import Files, mark_directory_deleted, remove_directory
from storage.journal.journal_frame import (
    BLOCK_BYTES,
    BrokenFrame,
    FrameHead,
    JournalEntry,
    LogKey,
    calculate_frame_size,
    decode_entries,
    decode_frame_head,
    encode_entries,
    encode_frame,
    find_next_frame_position,
)
from storage.journal.leftover_journal import LeftoverEntries, read_leftover_entries
from storage.storage_errors import DamagedFile, JournalRefused, format_error_reason

RESERVED_BYTES: Final = 256 * 1024
"""The number of bytes by which a file grows. A sync of a frame in allocated blocks costs less than half."""

JOURNAL: Final = "journal"
MAX_FILES: Final = 4
MAX_PENDING_BYTES: Final = 256 * 1024
"""The maximum number of bytes of one log in one frame. For more bytes, a sync of the segment takes about as
long and writes them only once."""
_RUN_BYTES: Final = 8
_NEVER: Final = 2**63


class JournalFile:
    """One file of the journal. One thread writes it. The lock of the journal protects the fields about logs."""

    __slots__ = (
        "_end_offsets",
        "_file",
        "_file_bytes",
        "_reserved_bytes",
        "_size",
        "first_number",
        "is_usable",
        "last_number",
        "path",
    )

    def __init__(self, files: Files, path: str, file_bytes: int) -> None:
        """Create the file. Raises OSError."""
        self.path = path
        self.first_number = self.last_number = 0
        """The numbers of the first and the last frame in the file; 0 without a frame."""
        self.is_usable = True
        self._file_bytes = file_bytes
        self._file = files.open_update(path)
        self._size = self._reserved_bytes = 0
        self._end_offsets: dict[LogKey, int] = {}

    def has_room(self, size: int) -> bool:
        """Return whether a frame of `size` bytes fits, with an empty frame after it."""
        return self.is_usable and self._size + size + BLOCK_BYTES <= self._file_bytes

    @property
    def has_room_for_empty_frame(self) -> bool:
        """Return whether an empty frame fits."""
        return self.is_usable and self._size + BLOCK_BYTES <= self._file_bytes

    def write(self, frame: bytes) -> None:
        """Write a frame and sync it. Raises OSError; the caller then calls `mark_unusable`."""
        end = self._size + len(frame)
        if end > self._reserved_bytes:
            reserved_bytes = max(end, min(end + -end % RESERVED_BYTES, self._file_bytes))
            self._file.write_at(frame + bytes(reserved_bytes - end), self._size)
            self._reserved_bytes = reserved_bytes
        else:
            self._file.write_at(frame, self._size)
        self._file.fdatasync()
        self._size = end

    def record_entries(self, number: int, entries: Sequence[JournalEntry]) -> None:
        """Record the content of the last written frame."""
        self.first_number = self.first_number or number
        self.last_number = number
        for entry in entries:
            self._end_offsets[entry.key] = entry.end_offset

    def reset(self) -> None:
        """Forget the content, so that the file can be overwritten."""
        self._size = self.first_number = self.last_number = 0
        self._end_offsets = {}

    def mark_unusable(self) -> None:
        """Write no more to the file: its content on the disk past the last frame is unknown."""
        self.is_usable = False

    # Content

    def find_unsettled(self, settled: Mapping[LogKey, int]) -> Iterator[LogKey]:
        """Yield the logs that need the file."""
        return (key for key, end_offset in self._end_offsets.items() if end_offset > settled.get(key, -1))

    def is_free(self, settled: Mapping[LogKey, int]) -> bool:
        """Return whether no log needs the file."""
        return next(self.find_unsettled(settled), None) is None

    def has_log(self, key: LogKey) -> bool:
        """Return whether the file has an entry of a log."""
        return key in self._end_offsets

    def read_entries(self, files: Files, run: bytes) -> Iterator[JournalEntry]:
        """Yield all entries of the file; safe while it is written. Raises DamagedFile, OSError."""
        # Bytes past the size are being written. A file that is being overwritten is no longer needed.
        first_number, size, position = self.first_number, self._size, 0
        data = files.read(self.path)
        while position < size:
            try:
                _, end = decode_frame_head(data, position, run)
            except BrokenFrame as error:
                if self.first_number != first_number:
                    return
                raise DamagedFile(self.path, str(error), position) from error
            yield from decode_entries(data, position, end)
            position = find_next_frame_position(end)

    def close(self) -> None:
        """Close the file. It can still be read."""
        self._file.close()

    def remove(self, files: Files) -> None:
        """Close and remove the file. Raises OSError."""
        self.close()
        files.unlink(self.path)


class Journal:
    """The journal of one data directory. `write` belongs to the thread that syncs. All other methods are safe
    in any thread."""

    def __init__(self, files: Files, data_directory: str, file_bytes: int) -> None:
        """Read the journal of an earlier process. `file_bytes` is the size of a file; 0 disables the journal.

        Raises DamagedFile, OSError.
        """
        self.directory = f"{data_directory}/{JOURNAL}"
        self.is_off = not file_bytes
        """Whether the journal accepts no entries, permanently or until `retry_after_failure`."""
        self._unreported_failure: OSError | None = None
        self._files = files
        self._data_directory = data_directory
        self._file_bytes = file_bytes
        self._run = create_run_id()
        self._leftover_entries: LeftoverEntries = read_leftover_entries(files, self.directory)
        self._files_in_turn: deque[JournalFile] = deque()
        """The files, the oldest first. Frames go to the last one."""
        self._has_directory = False
        """Whether the directory of the journal is known to exist."""
        self._is_closed = False
        self._file_count = 0
        self._number = self._newest_on_disk = self._oldest_declared = 0
        self._settled_offsets: dict[LogKey, int] = {}
        self._lock = threading.Lock()

    # Writing

    def write(self, entries: Sequence[JournalEntry]) -> bool:
        """Write appended records durably; blocks. Return whether a file is full, so that its logs must be settled.

        Raises JournalRefused; then the segments must be synced.
        """
        if self.is_off:
            raise JournalRefused(self.directory, "is switched off")
        encoded = encode_entries(entries)
        size = calculate_frame_size(encoded)
        if size + BLOCK_BYTES > self._file_bytes:
            raise JournalRefused(self.directory, f"has no room for {size} bytes at once")
        try:
            is_full = self._make_room(size)
            self._write_frame(entries, encoded)
        except OSError as error:
            self.is_off, self._unreported_failure = True, error
            self._abandon_last_file()
            raise JournalRefused(
                self.directory, f"cannot be written: {format_error_reason(error)}"
            ) from error
        return is_full

    def _write_frame(self, entries: Sequence[JournalEntry], encoded: bytes) -> None:
        file = self._files_in_turn[-1]
        self._number += 1
        oldest = self._find_oldest_needed()
        head = FrameHead(self._run, self._number, self._newest_on_disk, oldest)
        file.write(encode_frame(head, encoded))
        self._newest_on_disk, self._oldest_declared = self._number, oldest
        with self._lock:
            file.record_entries(self._number, entries)

    def _make_room(self, size: int) -> bool:
        """Make sure that the last file has room. Raises JournalRefused, OSError."""
        if self._files_in_turn and self._files_in_turn[-1].has_room(size):
            return False
        oldest = self._files_in_turn[0] if self._files_in_turn else None
        if (
            oldest is not None
            and oldest.last_number < self._find_oldest_needed()
            and self._declare_free(oldest)
        ):
            self._remove_file(oldest)
            if oldest.is_usable:
                oldest.reset()
                self._append_file(oldest)
                return True
            oldest.remove(self._files)
        elif len(self._files_in_turn) == MAX_FILES:
            raise JournalRefused(self.directory, f"waits for logs that {MAX_FILES} files hold")
        self._append_file(self._create_file())
        return len(self._files_in_turn) > 1

    def _append_file(self, file: JournalFile) -> None:
        with self._lock:
            self._files_in_turn.append(file)

    def _remove_file(self, file: JournalFile) -> None:
        with self._lock:
            self._files_in_turn.remove(file)
            deleted = [key for key, offset in self._settled_offsets.items() if offset == _NEVER]
            for key in deleted:
                if not any(other.has_log(key) for other in self._files_in_turn):
                    del self._settled_offsets[key]

    def _abandon_last_file(self) -> None:
        if not self._files_in_turn:
            return
        last = self._files_in_turn[-1]
        last.mark_unusable()
        if not last.first_number:
            # An unused file would replace one with entries.
            self._remove_file(last)
            with suppress(OSError):
                last.remove(self._files)

    def _declare_free(self, oldest: JournalFile) -> bool:
        """Return whether a frame on the disk declares that a file does not count any more, so that it may be
        overwritten. Write an empty frame for that if necessary. Raises OSError."""
        if oldest.last_number >= self._oldest_declared and self._files_in_turn[-1].has_room_for_empty_frame:
            self._write_frame((), b"")
        return oldest.last_number < self._oldest_declared

    def _create_file(self) -> JournalFile:
        if not self._has_directory:
            self._files.mkdir(self.directory)
            self._files.fsync_directory(self._data_directory)
            self._has_directory = True
        self._file_count += 1
        path = f"{self.directory}/{self._run.hex()}-{self._file_count}"
        file = JournalFile(self._files, path, self._file_bytes)
        try:
            self._files.fsync_directory(self.directory)
        except OSError:
            file.remove(self._files)
            raise
        return file

    def _find_oldest_needed(self) -> int:
        """Return the number of the first frame in the oldest file that an unsettled log needs, or of the
        newest frame if no file is needed."""
        with self._lock:
            for file in self._files_in_turn:
                if file.first_number and not file.is_free(self._settled_offsets):
                    return file.first_number
        return self._number

    def retry_after_failure(self) -> None:
        """Use the journal again after a failure of the disk; called periodically."""
        self.is_off = self._is_closed or not self._file_bytes

    def take_failure(self) -> OSError | None:
        """Return the error of the disk that disabled the journal, once."""
        error, self._unreported_failure = self._unreported_failure, None
        return error

    # Logs

    def on_settled(self, key: LogKey, offset: int) -> None:
        """Record that the segments of a log are synced up to an offset."""
        with self._lock:
            if offset > self._settled_offsets.get(key, -1):
                self._settled_offsets[key] = offset
                self._leftover_entries.on_settled(key, offset)

    def drop_log(self, key: LogKey) -> None:
        """Drop the entries of a deleted log. Call it again if records of the log were written meanwhile."""
        with self._lock:
            self._leftover_entries.on_settled(key, _NEVER)
            if any(file.has_log(key) for file in self._files_in_turn):
                self._settled_offsets[key] = _NEVER
            else:
                self._settled_offsets.pop(key, None)

    def find_logs_in_full_files(self) -> list[LogKey]:
        """Return the logs that prevent the reuse of full files."""
        with self._lock:
            full = list(self._files_in_turn)[:-1]
            return list({key: None for file in full for key in file.find_unsettled(self._settled_offsets)})

    def read_entries(self, key: LogKey) -> list[JournalEntry]:
        """Return the entries of a log, by offset; the log may have some of them. Raises DamagedFile, OSError."""
        with self._lock:
            entries = self._leftover_entries.find_entries(key)
            files = [file for file in self._files_in_turn if file.has_log(key)]
        for file in files:
            entries += [entry for entry in file.read_entries(self._files, self._run) if entry.key == key]
        return sorted(entries, key=lambda entry: entry.base_offset)

    def find_leftover_logs(self) -> set[LogKey]:
        """Return the logs with unsettled entries of a former process."""
        with self._lock:
            return self._leftover_entries.find_logs()

    def find_unsettled_logs(self) -> set[LogKey]:
        """Return the logs that are not settled."""
        with self._lock:
            found = self._leftover_entries.find_logs()
            for file in self._files_in_turn:
                found.update(file.find_unsettled(self._settled_offsets))
            return found

    # Maintenance and closing

    def run_maintenance(self) -> None:
        """Use the journal again after a failure, and remove the unneeded files of former processes; called
        periodically. Raises OSError."""
        self.retry_after_failure()
        self._leftover_entries.remove_files(self._files)

    def close(self) -> None:
        """Close the files and leave them in place, as in a crash."""
        self.is_off = self._is_closed = True
        for file in self._files_in_turn:
            file.close()

    def remove(self) -> None:
        """Remove the journal after all logs are settled. Raises OSError."""
        assert not self.find_unsettled_logs(), sorted(self.find_unsettled_logs())
        self.close()
        remove_journal(self._files, self._data_directory)


class LogJournal:
    """The part of one log in the journal. It belongs to the thread that owns the log, except for methods that are
    declared safe in any thread."""

    __slots__ = (
        "_base_offset",
        "_batches",
        "_bytes",
        "_hold_out_until",
        "_skips_pending",
        "journal",
        "key",
        "recovery_point",
        "settled_by",
    )

    def __init__(self, journal: Journal, key: LogKey) -> None:
        self.journal = journal
        self.key = key
        self._base_offset = -1
        self._batches: list[bytes] = []
        self._bytes = 0
        self._skips_pending = False
        self._hold_out_until = 0
        self.recovery_point = 0
        """The recovery point of the log in the checkpoint on the disk."""
        self.settled_by: object = None
        """The `Syncer` that settles the log in the background; None before the first entry."""

    def hold_out_until(self, recovery_point: int) -> None:
        """Sync segments instead of the journal until a checkpoint has this recovery point."""
        self._hold_out_until = recovery_point

    def on_recovery_point_recorded(self, recovery_point: int) -> None:
        """Record that the checkpoint on the disk has this recovery point."""
        self.recovery_point = max(self.recovery_point, recovery_point)

    @property
    def is_held_out(self) -> bool:
        """Whether the log does not use the journal yet, because no checkpoint has the recovery point of its
        opening."""
        return self.recovery_point < self._hold_out_until

    def add_batch(self, data: bytes, base_offset: int) -> None:
        """Add a batch that was written to the segment to the next entry."""
        if self._skips_pending:
            return
        if not self._batches:
            self._base_offset = base_offset
        self._bytes += len(data)
        if self._bytes > MAX_PENDING_BYTES:
            self.skip_pending()
        else:
            self._batches.append(data)

    def skip_pending(self) -> None:
        """Leave the pending batches out of the journal, because the segments are synced instead. Safe in any thread
        while no batch of the log is on its way to the journal."""
        self._skips_pending = True
        self._batches = []

    def take_entry(self, end_offset: int) -> JournalEntry | None:
        """Return the entry for the journal, up to the end of the log; None if the segments must be synced
        instead."""
        batches, self._batches, self._bytes = self._batches, [], 0
        is_left_out, self._skips_pending = self._skips_pending, False
        if is_left_out or self.recovery_point < self._hold_out_until or self.journal.is_off or not batches:
            return None
        data = batches[0] if len(batches) == 1 else b"".join(batches)
        return JournalEntry(self.key, self._base_offset, end_offset, data)

    def read_entries(self) -> list[JournalEntry]:
        """Return the entries of the log in the journal, by offset. Safe in any thread; raises OSError."""
        return self.journal.read_entries(self.key)

    def on_settled(self, offset: int) -> None:
        """Record that the segments are synced up to an offset. Safe in any thread."""
        self.journal.on_settled(self.key, offset)


def create_run_id() -> bytes:
    """Return a random id for the files of a process, which clients cannot guess."""
    return os.urandom(_RUN_BYTES)


def remove_journal(files: Files, data_directory: str) -> None:
    """Remove an unused journal completely, or nothing of it. Raises OSError."""
    directory = f"{data_directory}/{JOURNAL}"
    if files.is_directory(directory):
        # Only some of the files would look like damage.
        deleted_directory = mark_directory_deleted(files, directory)
        files.fsync_directory(data_directory)
        remove_directory(files, deleted_directory)
        files.fsync_directory(data_directory)
