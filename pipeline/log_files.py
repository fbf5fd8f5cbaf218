"""Reading a log directory: a local path, or a URL of any file system that Arrow knows.

Segments are read by Spark's Python workers, where there is no JVM and so no file system of Hadoop's. Arrow has its
own: `file:`, `s3:`, `gs:`, `abfs:`, and `hdfs:` where Hadoop's native client is installed.
"""

import os
from typing import Any, Final, NamedTuple, Self

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from pipeline.errors import BadInput
from storage.storage_errors import format_error_reason

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names for what Arrow calls otherwise."""


class Entry(NamedTuple):
    """A name in a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class LogFiles:
    """One file system, read-only. Every method raises OSError, FileNotFoundError where nothing is there."""

    def __init__(self, location: str) -> None:
        """In: a path or URL. Raises BadInput for a URL that Arrow does not know."""
        scheme, separator, rest = location.partition("://")
        self.location = location
        if not separator:
            self._files: Any = LocalFileSystem()
            self.root = os.path.abspath(location)
            return
        try:
            self._files, self.root = FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}://{rest}")
        except (ArrowInvalid, OSError) as error:
            raise BadInput(
                f"{location}: no file system for this URL: {format_error_reason(error)}"
            ) from error

    def entry(self, path: str) -> Entry | None:
        """What is at a path, None for nothing."""
        info = self._files.get_file_info(path)
        if info.type == FileType.NotFound:
            return None
        return Entry(info.base_name, info.type == FileType.Directory, info.size or 0)

    def entries(self, path: str) -> list[Entry]:
        """What is in a directory, by name."""
        found = self._files.get_file_info(FileSelector(path))
        entries = (Entry(info.base_name, info.type == FileType.Directory, info.size or 0) for info in found)
        return sorted(entries)

    def size(self, path: str) -> int:
        """Of a file, now."""
        entry = self.entry(path)
        if entry is None:
            raise FileNotFoundError(path)
        return entry.size_bytes

    def open(self, path: str) -> "LogFile":
        """A file, to be closed."""
        return LogFile(self._files.open_input_file(path))


class LogFile:
    """An open file."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, length: int, position: int) -> bytes:
        """`length` bytes from a position, fewer where the file ends."""
        data: bytes = self._file.read_at(length, position)
        return data

    def size(self) -> int:
        """In bytes, when it was opened."""
        return int(self._file.size())
