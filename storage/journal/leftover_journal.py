"""Reads the journals of earlier processes at a start.

`journal_frame.py` defines the frames that count, and damage.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from storage.files import Files
from storage.journal.journal_frame import (
    BLOCK_BYTES,
    MAGIC,
    BrokenFrame,
    FrameHead,
    JournalEntry,
    LogKey,
    decode_entries,
    decode_frame_head,
    encode_frame,
    find_next_frame_position,
)
from storage.storage_errors import DamagedFile

_NAME: Final = re.compile(r"([0-9a-f]{16})-[0-9]+")


class _FoundFrame(NamedTuple):
    """A complete frame."""

    path: str
    position: int
    head: FrameHead
    entries: tuple[JournalEntry, ...]


class _LeftoverRun:
    """The journal files of one process."""

    def __init__(self, run: bytes, paths: list[str], newest: int) -> None:
        self._run = run
        self._paths = paths
        self._newest = newest

    def remove(self, files: Files, directory: str) -> None:
        """Remove the files; may be called again after a failure. Raises OSError.

        Some of the files without the others would look like damage. So the method first writes a frame that makes
        all others obsolete, in a file that it removes last.
        """
        if len(self._paths) > 1:
            self._newest += 1
            self._paths.insert(0, self._write_closing_frame(files, directory))
        while self._paths:
            if len(self._paths) == 1:
                files.fsync_directory(directory)
            files.unlink(self._paths[-1])
            self._paths.pop()

    def _write_closing_frame(self, files: Files, directory: str) -> str:
        number = 1 + max(int(path.rpartition("-")[2]) for path in self._paths)
        path = f"{directory}/{self._run.hex()}-{number}"
        file = files.open_update(path)
        try:
            file.write_at(encode_frame(FrameHead(self._run, self._newest, 0, self._newest), b""), 0)
            file.fdatasync()
        finally:
            file.close()
        files.fsync_directory(directory)
        return path


class LeftoverEntries:
    """The entries of former processes by log. Entries are dropped when their log is settled past them."""

    def __init__(self, directory: str, runs: Iterable[_LeftoverRun], entries: Iterable[JournalEntry]) -> None:
        self._directory = directory
        self._runs = list(runs)
        self._by_log: dict[LogKey, list[JournalEntry]] = {}
        for entry in entries:
            self._by_log.setdefault(entry.key, []).append(entry)

    def find_logs(self) -> set[LogKey]:
        """Return the logs that are not settled."""
        return set(self._by_log)

    def find_entries(self, key: LogKey) -> list[JournalEntry]:
        """Return the entries of a log."""
        return list(self._by_log.get(key, ()))

    def on_settled(self, key: LogKey, offset: int) -> None:
        """Handle a log that has its records before an offset on the disk."""
        rest = [entry for entry in self._by_log.get(key, ()) if entry.end_offset > offset]
        if rest:
            self._by_log[key] = rest
        else:
            self._by_log.pop(key, None)

    def remove_files(self, files: Files) -> None:
        """Remove the files that no log needs. Raises OSError."""
        while self._runs and not self._by_log:
            self._runs[-1].remove(files, self._directory)
            self._runs.pop()


def read_leftover_entries(files: Files, directory: str) -> LeftoverEntries:
    """Read the directory of a journal. A missing one has no entries. Raises DamagedFile, OSError."""
    if not files.is_directory(directory):
        return LeftoverEntries(directory, (), ())
    paths: dict[bytes, list[str]] = {}
    for name in files.listdir(directory):
        match = _NAME.fullmatch(name)
        if match is None:
            raise DamagedFile(f"{directory}/{name}", "not a file of a journal")
        paths.setdefault(bytes.fromhex(match[1]), []).append(f"{directory}/{name}")
    runs: list[_LeftoverRun] = []
    entries: list[JournalEntry] = []
    for run, own in paths.items():
        found = {
            frame.head.number: frame for path in own for frame in _find_frames(files.read(path), path, run)
        }
        runs.append(_LeftoverRun(run, own, max(found, default=0)))
        entries += _find_valid_entries(found)
    return LeftoverEntries(directory, runs, entries)


def _find_valid_entries(found: Mapping[int, _FoundFrame]) -> Iterator[JournalEntry]:
    """Yield the entries of one process that count. `found` has its frames by number.

    Raises DamagedFile for a missing frame among those that count.
    """
    if not found:
        return
    frame = found[max(found)]
    oldest = frame.head.oldest
    while True:
        yield from frame.entries
        follows = frame.head.follows
        if follows < oldest:
            return
        if follows not in found:
            reason = f"frame {follows}, which was on the disk when this one was written, cannot be read"
            raise DamagedFile(frame.path, reason, frame.position)
        frame = found[follows]


def _find_frames(data: bytes, path: str, run: bytes) -> Iterator[_FoundFrame]:
    """Yield the complete frames of a file, old ones included. After a broken frame, every block is examined
    for the next one."""
    position = 0
    while position < len(data):
        if not data.startswith(MAGIC, position):
            position = _find_next_magic(data, position)
            continue
        try:
            head, end = decode_frame_head(data, position, run)
        except BrokenFrame:
            position += BLOCK_BYTES
            continue
        yield _FoundFrame(path, position, head, tuple(decode_entries(data, position, end)))
        position = find_next_frame_position(end)


def _find_next_magic(data: bytes, position: int) -> int:
    """Return the position of the first block after a position that begins like a frame."""
    found = position
    while (found := data.find(MAGIC, found + 1)) >= 0:
        if found % BLOCK_BYTES == 0:
            return found
    return len(data)
