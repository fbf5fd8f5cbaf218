"""What was acknowledged and is not in a synced segment yet, in few files that are written in turn.

With `log.flush=always` an answer waits until its records are on the disk. The records of one iteration of the loop
go to as many segments as there are partitions, and to sync each of them takes as many waits for the disk. So they
are written twice: to their segments, to be synced some time, and in one frame to the journal, which is synced once.
Then the answers may go.

    journal/<run>-<n>       files of a bounded size; <run> is the process, 16 hex digits

*Settled* is what a segment's own sync has reached: the journal is not needed for it any more. A file that is full
is left for the next one, and its logs are settled in the background; a file whose logs are all settled is *free*
and used again, the oldest first. Where none is free and there are as many as may be, or where the disk refuses, the
journal does not take what it is given, and the segments are synced instead, which is as safe and slower.

After a crash the files are *left over*: each log, when it is opened, takes back from them what its segments lack
(`replay.py`), and is settled by a sync. The files of the former process go when all of their logs have done so. A
log that cannot be opened keeps them.

What is in the journal of a log is in the log at the same offsets, or the log is gone: no log is ever cut while it
is in use, and one that is opened anew takes the journal's part first. So entries need no order beside their
offsets. Whoever makes a log shorter has to keep that law.
"""

import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from storage.errors import JournalRefused
from storage.files import Files, doom_directory, remove_directory
from storage.journal.frame import (
    BLOCK_BYTES,
    Entry,
    FrameHead,
    LogKey,
    encode_entries,
    encode_frame,
    frame_size,
)
from storage.journal.journal_file import JournalFile
from storage.journal.left_over import LeftOver, read_left_over
from storage.os_error import reason_of

JOURNAL: Final = "journal"
MOST_FILES: Final = 4
_RUN_BYTES: Final = 8
_NEVER: Final = 2**63


def new_run() -> bytes:
    """A name for the files of a process that nobody can guess."""
    return os.urandom(_RUN_BYTES)


def remove_journal(files: Files, data_directory: str) -> None:
    """Removes a journal that nobody uses, with all that is in it, or nothing of it. Raises OSError."""
    directory = f"{data_directory}/{JOURNAL}"
    if files.is_directory(directory):
        # Some of its files without the others would look like damage.
        doomed = doom_directory(files, directory)
        files.fsync_directory(data_directory)
        remove_directory(files, doomed)
        files.fsync_directory(data_directory)


class Journal:
    """Of one data directory. `write` belongs to the thread that syncs, all else is safe in any."""

    def __init__(self, files: Files, data_directory: str, file_bytes: int) -> None:
        """Reads what a former process left. In: the size of a file; 0 for a journal that takes nothing.

        Raises DamagedFile, OSError.
        """
        self.directory = f"{data_directory}/{JOURNAL}"
        self.is_off = not file_bytes
        """Whether it takes nothing, for good or until `revive`."""
        self._untold: OSError | None = None
        self._files = files
        self._data_directory = data_directory
        self._file_bytes = file_bytes
        self._run = new_run()
        self._left_over: LeftOver = read_left_over(files, self.directory)
        self._in_turn: deque[JournalFile] = deque()
        """From the oldest; the last is written to."""
        self._is_there = False
        """Whether its directory is, for certain."""
        self._is_closed = False
        self._names = 0
        self._number = self._newest_on_disk = self._oldest_said = 0
        self._settled: dict[LogKey, int] = {}
        self._lock = threading.Lock()

    # Writing

    def write(self, entries: Sequence[Entry]) -> bool:
        """Puts what logs have appended on the disk; blocks. Out: whether a file is full and its logs to be settled.

        Raises JournalRefused, after which their segments have to be synced.
        """
        if self.is_off:
            raise JournalRefused(self.directory, "is switched off")
        encoded = encode_entries(entries)
        size = frame_size(encoded)
        if size + BLOCK_BYTES > self._file_bytes:
            raise JournalRefused(self.directory, f"has no room for {size} bytes at once")
        try:
            is_full = self._make_room(size)
            self._write(entries, encoded)
        except OSError as error:
            self.is_off, self._untold = True, error
            self._give_up_last()
            raise JournalRefused(self.directory, f"cannot be written: {reason_of(error)}") from error
        return is_full

    def _write(self, entries: Sequence[Entry], encoded: bytes) -> None:
        file = self._in_turn[-1]
        self._number += 1
        oldest = self._oldest_needed()
        head = FrameHead(self._run, self._number, self._newest_on_disk, oldest)
        file.write(encode_frame(head, encoded))
        self._newest_on_disk, self._oldest_said = self._number, oldest
        with self._lock:
            file.note(self._number, entries)

    def _make_room(self, size: int) -> bool:
        """Has the last file be one with room. Raises JournalRefused, OSError."""
        if self._in_turn and self._in_turn[-1].has_room(size):
            return False
        oldest = self._in_turn[0] if self._in_turn else None
        if oldest is not None and oldest.last_number < self._oldest_needed() and self._says_so(oldest):
            self._take_out(oldest)
            if oldest.is_usable:
                oldest.begin_again()
                self._put_last(oldest)
                return True
            oldest.remove(self._files)
        elif len(self._in_turn) == MOST_FILES:
            raise JournalRefused(self.directory, f"waits for logs that {MOST_FILES} files hold")
        self._put_last(self._new_file())
        return len(self._in_turn) > 1

    def _put_last(self, file: JournalFile) -> None:
        with self._lock:
            self._in_turn.append(file)

    def _take_out(self, file: JournalFile) -> None:
        with self._lock:
            self._in_turn.remove(file)
            deleted = [key for key, offset in self._settled.items() if offset == _NEVER]
            for key in deleted:
                if not any(other.holds(key) for other in self._in_turn):
                    del self._settled[key]

    def _give_up_last(self) -> None:
        if not self._in_turn:
            return
        last = self._in_turn[-1]
        last.give_up()
        if not last.first_number:
            # It would take the place of one with something in it.
            self._take_out(last)
            with suppress(OSError):
                last.remove(self._files)

    def _says_so(self, oldest: JournalFile) -> bool:
        """Whether a frame on the disk says that a file does not count any more, before it is written over. Raises
        OSError."""
        if oldest.last_number >= self._oldest_said and self._in_turn[-1].has_room_for_a_word:
            self._write((), b"")
        return oldest.last_number < self._oldest_said

    def _new_file(self) -> JournalFile:
        if not self._is_there:
            self._files.mkdir(self.directory)
            self._files.fsync_directory(self._data_directory)
            self._is_there = True
        self._names += 1
        path = f"{self.directory}/{self._run.hex()}-{self._names}"
        file = JournalFile(self._files, path, self._file_bytes)
        try:
            self._files.fsync_directory(self.directory)
        except OSError:
            file.remove(self._files)
            raise
        return file

    def _oldest_needed(self) -> int:
        """The number of the oldest frame that holds anything of a log that is not settled."""
        with self._lock:
            for file in self._in_turn:
                if file.first_number and not file.is_free(self._settled):
                    return file.first_number
        return self._number

    def revive(self) -> None:
        """Tries anew, where the disk had refused; from time to time."""
        self.is_off = self._is_closed or not self._file_bytes

    def take_failure(self) -> OSError | None:
        """Why the disk has switched it off, once."""
        error, self._untold = self._untold, None
        return error

    # Logs

    def settled(self, key: LogKey, offset: int) -> None:
        """The segments of a log are synced up to an offset."""
        with self._lock:
            if offset > self._settled.get(key, -1):
                self._settled[key] = offset
                self._left_over.settled(key, offset)

    def drop(self, key: LogKey) -> None:
        """A log is gone for good: deleted. Once more, if something of it was written meanwhile."""
        with self._lock:
            self._left_over.settled(key, _NEVER)
            if any(file.holds(key) for file in self._in_turn):
                self._settled[key] = _NEVER
            else:
                self._settled.pop(key, None)

    def in_full_files(self) -> list[LogKey]:
        """The logs that keep full files from being free."""
        with self._lock:
            full = list(self._in_turn)[:-1]
            return list({key: None for file in full for key in file.unsettled(self._settled)})

    def entries_of(self, key: LogKey) -> list[Entry]:
        """What is kept of a log, by offset; some of it the log may have. Raises DamagedFile, OSError."""
        with self._lock:
            entries = self._left_over.entries_of(key)
            files = [file for file in self._in_turn if file.holds(key)]
        for file in files:
            entries += [entry for entry in file.read(self._files, self._run) if entry.key == key]
        return sorted(entries, key=lambda entry: entry.base_offset)

    def left_over(self) -> set[LogKey]:
        """The logs that are not settled past what a former process has left."""
        with self._lock:
            return self._left_over.logs()

    def logs(self) -> set[LogKey]:
        """The logs that are not settled."""
        with self._lock:
            found = self._left_over.logs()
            for file in self._in_turn:
                found.update(file.unsettled(self._settled))
            return found

    # Ending

    def keep_up(self) -> None:
        """Tries anew, and removes the files of former processes that hold nothing any more; from time to time.
        Raises OSError."""
        self.revive()
        self._left_over.remove_files(self._files)

    def close(self) -> None:
        """Closes the files, which stay where they are: as in a crash."""
        self.is_off = self._is_closed = True
        for file in self._in_turn:
            file.close()

    def remove(self) -> None:
        """Leaves no journal behind, once all logs are settled. Raises OSError."""
        assert not self.logs(), sorted(self.logs())
        self.close()
        remove_journal(self._files, self._data_directory)
