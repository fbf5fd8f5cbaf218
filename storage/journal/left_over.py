"""What former processes left in the journal, found again at a start.

`frame.py` says which of it counts, and what is damage.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from storage.errors import DamagedFile
from storage.files import Files
from storage.journal.frame import (
    BLOCK_BYTES,
    MAGIC,
    BrokenFrame,
    Entry,
    FrameHead,
    LogKey,
    after,
    entries_at,
    read_head,
)

_NAME: Final = re.compile(r"([0-9a-f]{16})-[0-9]+")


class _Found(NamedTuple):
    """A whole frame."""

    path: str
    position: int
    head: FrameHead
    entries: tuple[Entry, ...]


class LeftOver:
    """Entries by log, until the log is settled past them."""

    def __init__(self, paths: Iterable[str], entries: Iterable[Entry]) -> None:
        self._paths = list(paths)
        self._by_log: dict[LogKey, list[Entry]] = {}
        for entry in entries:
            self._by_log.setdefault(entry.key, []).append(entry)

    def logs(self) -> set[LogKey]:
        """The logs that are not settled."""
        return set(self._by_log)

    def entries_of(self, key: LogKey) -> list[Entry]:
        """Those of a log."""
        return list(self._by_log.get(key, ()))

    def settled(self, key: LogKey, offset: int) -> None:
        """A log has on the disk what lies before an offset."""
        rest = [entry for entry in self._by_log.get(key, ()) if entry.end_offset > offset]
        if rest:
            self._by_log[key] = rest
        else:
            self._by_log.pop(key, None)

    def remove_files(self, files: Files) -> None:
        """Removes the files, where no log needs them. Raises OSError."""
        while self._paths and not self._by_log:
            files.unlink(self._paths[-1])
            self._paths.pop()


def read_left_over(files: Files, directory: str) -> LeftOver:
    """Reads a journal's directory; one that is not there holds nothing. Raises DamagedFile, OSError."""
    if not files.is_directory(directory):
        return LeftOver((), ())
    runs: dict[bytes, list[str]] = {}
    for name in files.listdir(directory):
        match = _NAME.fullmatch(name)
        if match is None:
            raise DamagedFile(f"{directory}/{name}", "is no file of a journal")
        runs.setdefault(bytes.fromhex(match[1]), []).append(f"{directory}/{name}")
    paths = [path for run in runs.values() for path in run]
    return LeftOver(paths, [entry for run, own in runs.items() for entry in _entries(files, run, own)])


def _entries(files: Files, run: bytes, paths: list[str]) -> Iterator[Entry]:
    """The entries of one process that count. Raises DamagedFile for a frame that is missing among them."""
    found = {frame.head.number: frame for path in paths for frame in _frames(files.read(path), path, run)}
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


def _frames(data: bytes, path: str, run: bytes) -> Iterator[_Found]:
    """The whole frames of a file, old ones too. Behind a broken one the next is looked for in every block."""
    position = 0
    while position < len(data):
        if not data.startswith(MAGIC, position):
            position = _next_magic(data, position)
            continue
        try:
            head, end = read_head(data, position)
        except BrokenFrame:
            position += BLOCK_BYTES
            continue
        if head.run == run:
            yield _Found(path, position, head, tuple(entries_at(data, position, end)))
            position = after(end)
        else:
            position += BLOCK_BYTES


def _next_magic(data: bytes, position: int) -> int:
    """Of the first block behind a position that begins as a frame does."""
    found = position
    while (found := data.find(MAGIC, found + 1)) >= 0:
        if found % BLOCK_BYTES == 0:
            return found
    return len(data)
