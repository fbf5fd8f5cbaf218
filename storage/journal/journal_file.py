"""One file of the journal: frames one after another, and how much of each log they hold."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from storage.errors import DamagedFile
from storage.files import Files
from storage.journal.frame import BLOCK_BYTES, BrokenFrame, Entry, LogKey, after, entries_at, read_head

RESERVED_BYTES: Final = 256 * 1024
"""What a file grows by: a frame in blocks that it has already costs its sync less than half."""


class JournalFile:
    """Written by one thread; what is noted of logs is under the lock of the journal."""

    __slots__ = (
        "_ends",
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
        """Makes the file. Raises OSError."""
        self.path = path
        self.first_number = self.last_number = 0
        """Of the frames that it holds, 0 while it holds none."""
        self.is_usable = True
        self._file_bytes = file_bytes
        self._file = files.open_update(path)
        self._size = self._reserved_bytes = 0
        self._ends: dict[LogKey, int] = {}

    def has_room(self, size: int) -> bool:
        """Whether a frame of so many bytes goes into it, and an empty one after it."""
        return self.is_usable and self._size + size + BLOCK_BYTES <= self._file_bytes

    @property
    def has_room_for_a_word(self) -> bool:
        """Whether an empty frame goes into it."""
        return self.is_usable and self._size + BLOCK_BYTES <= self._file_bytes

    def write(self, frame: bytes) -> None:
        """Writes a frame and syncs it. Raises OSError; then `give_up`."""
        end = self._size + len(frame)
        if end > self._reserved_bytes:
            reserved_bytes = max(end, min(end + -end % RESERVED_BYTES, self._file_bytes))
            self._file.write_at(frame + bytes(reserved_bytes - end), self._size)
            self._reserved_bytes = reserved_bytes
        else:
            self._file.write_at(frame, self._size)
        self._file.fdatasync()
        self._size = end

    def note(self, number: int, entries: Sequence[Entry]) -> None:
        """Remembers what the frame held that was written last."""
        self.first_number = self.first_number or number
        self.last_number = number
        for entry in entries:
            self._ends[entry.key] = entry.end_offset

    def begin_again(self) -> None:
        """Forgets what it holds, to be written over."""
        self._size = self.first_number = self.last_number = 0
        self._ends = {}

    def give_up(self) -> None:
        """Nobody knows what the disk has of it past its last frame: nothing more is written to it."""
        self.is_usable = False

    # What it holds

    def unsettled(self, settled: Mapping[LogKey, int]) -> Iterator[LogKey]:
        """The logs that need it."""
        return (key for key, end_offset in self._ends.items() if end_offset > settled.get(key, -1))

    def is_free(self, settled: Mapping[LogKey, int]) -> bool:
        """Whether no log needs it."""
        return next(self.unsettled(settled), None) is None

    def holds(self, key: LogKey) -> bool:
        """Whether there is anything of a log in it."""
        return key in self._ends

    def read(self, files: Files, run: bytes) -> Iterator[Entry]:
        """All that it holds; safe while it is written. Raises DamagedFile, OSError."""
        # What is behind the size is being written. A file that is written over meanwhile is needed by nobody.
        first_number, size, position = self.first_number, self._size, 0
        data = files.read(self.path)
        while position < size:
            try:
                _, end = read_head(data, position, run)
            except BrokenFrame as error:
                if self.first_number != first_number:
                    return
                raise DamagedFile(self.path, str(error), position) from error
            yield from entries_at(data, position, end)
            position = after(end)

    def close(self) -> None:
        """Closes it; it can still be read."""
        self._file.close()

    def remove(self, files: Files) -> None:
        """Closes and removes it. Raises OSError."""
        self.close()
        files.unlink(self.path)
