"""Read a log directory from a local path, or from a URL of any file system that Arrow supports.

Spark's Python workers read the segments. They have no JVM and so no Hadoop file systems. Arrow has its own:
`file:`, `s3:`, `gs:`, `abfs:`, and `hdfs:` with Hadoop's native client.
"""

import os
from typing import Any, Final, NamedTuple, Self

from pyarrow import ArrowInvalid
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem

from pipeline.errors import BadInput
from storage.storage_errors import format_error_reason

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's schemes with another name in Arrow."""


class Entry(NamedTuple):
    """A directory entry."""

    name: str
    is_directory: bool
    size_bytes: int


class LogFiles:
    """A read-only file system. Every method raises OSError, or FileNotFoundError for a missing path."""

    def __init__(self, location: str) -> None:
        """Open the file system of a path or URL.

        Raises:
            BadInput: Arrow does not support the URL.
        """
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
        """Return the entry at a path; None if it does not exist."""
        info = self._files.get_file_info(path)
        if info.type == FileType.NotFound:
            return None
        return Entry(info.base_name, info.type == FileType.Directory, info.size or 0)

    def entries(self, path: str) -> list[Entry]:
        """Return the entries of a directory by name."""
        found = self._files.get_file_info(FileSelector(path))
        entries = (Entry(info.base_name, info.type == FileType.Directory, info.size or 0) for info in found)
        return sorted(entries)

    def size(self, path: str) -> int:
        """Return the present size of a file."""
        entry = self.entry(path)
        if entry is None:
            raise FileNotFoundError(path)
        return entry.size_bytes

    def open(self, path: str) -> "LogFile":
        """Open a file; the caller must close it."""
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
        """Read `length` bytes at a position, fewer at the end of the file."""
        data: bytes = self._file.read_at(length, position)
        return data

    def size(self) -> int:
        """The size in bytes at the time of opening."""
        return int(self._file.size())
