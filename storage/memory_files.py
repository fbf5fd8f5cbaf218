"""A file system in memory, for brokers that exist for one test.

It behaves like the file system of the operating system, except that a sync does nothing, that files end with the
process, and that it has no links. An open file remains readable after its removal. It is thread-safe.
"""

import errno
import os
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from storage.files import VolumeSpace
from storage.storage_errors import FileClosed

Clock = Callable[[], int]
"""The wall clock, in milliseconds."""


class _FileContents:
    """The content of one file."""

    __slots__ = ("data", "is_removed", "modified_ms")

    def __init__(self, now_ms: int) -> None:
        self.data = bytearray()
        self.modified_ms = now_ms
        self.is_removed = False
        """Whether the file has no name any more. It then does not count, and ends with its last open handle."""


class _MemoryDirectory:
    """Names with their files and directories."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, _FileContents | _MemoryDirectory] = {}


class _MemoryVolume:
    """The state that all files share: used and maximum size, and the lock for changes."""

    def __init__(self, max_bytes: int, wall_ms: Clock) -> None:
        self.max_bytes: Final = max_bytes
        self.used_bytes = 0
        self.wall_ms: Final = wall_ms
        self.lock: Final = threading.RLock()

    def resize(self, contents: _FileContents, size: int, path: str) -> None:
        """Change the size of a file and the total. Raises OSError if the limit is reached."""
        grown = 0 if contents.is_removed else size - len(contents.data)
        if grown > 0 and self.used_bytes + grown > self.max_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.used_bytes += grown
        contents.modified_ms = self.wall_ms()

    def remove(self, contents: _FileContents) -> None:
        """Release the bytes of a file that has lost its name."""
        self.used_bytes -= len(contents.data)
        contents.is_removed = True


class MemoryFile:
    """A `File` in memory."""

    __slots__ = ("_contents", "_is_open", "_is_writable", "_volume", "path")

    def __init__(
        self, path: str, contents: _FileContents, volume: _MemoryVolume, *, is_writable: bool
    ) -> None:
        self.path = path
        self._contents = contents
        self._volume = volume
        self._is_open = True
        self._is_writable = is_writable

    def write(self, data: bytes) -> None:
        self._write_bytes(data, None)

    def write_at(self, data: bytes, position: int) -> None:
        self._write_bytes(data, position)

    def _write_bytes(self, data: bytes, position: int | None) -> None:
        with self._volume.lock:
            self._check(is_change=True)
            held = self._contents.data
            start = len(held) if position is None else position
            self._volume.resize(self._contents, max(len(held), start + len(data)), self.path)
            held.extend(bytes(max(0, start - len(held))))
            held[start : start + len(data)] = data

    def pread(self, length: int, position: int) -> bytes:
        with self._volume.lock:
            self._check()
            return bytes(memoryview(self._contents.data)[position : position + length])

    def fdatasync(self) -> None:
        if not self._is_open:
            raise FileClosed(self.path, "is closed")

    def truncate(self, size: int) -> None:
        with self._volume.lock:
            self._check(is_change=True)
            held = self._contents.data
            self._volume.resize(self._contents, size, self.path)
            held.extend(bytes(max(0, size - len(held))))
            del held[size:]

    def size(self) -> int:
        self._check()
        return len(self._contents.data)

    def duplicate(self) -> "MemoryFile":
        self._check()
        return MemoryFile(self.path, self._contents, self._volume, is_writable=False)

    def close(self) -> None:
        self._is_open = False

    def _check(self, *, is_change: bool = False) -> None:
        if not self._is_open or (is_change and not self._is_writable):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)


class MemoryLock:
    """A `Lock` among users of the same files in memory."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path: str | None = path
        locks.add(path)

    def release(self) -> None:
        if self._path is not None:
            self._locks.discard(self._path)
            self._path = None


class MemoryFiles:
    """The `Files` in memory; paths are absolute."""

    def __init__(self, max_bytes: int, wall_ms: Clock) -> None:
        """Create an empty file system with a limit of bytes (ENOSPC beyond it) and a wall clock."""
        self._volume = _MemoryVolume(max_bytes, wall_ms)
        self._root = _MemoryDirectory()
        self._locks: set[str] = set()

    @property
    def used_bytes(self) -> int:
        """Return the size of all files in bytes, without removed ones."""
        return self._volume.used_bytes

    # Files

    def open_append(self, path: str) -> MemoryFile:
        return MemoryFile(path, self._find_or_create(path), self._volume, is_writable=True)

    def open_read(self, path: str) -> MemoryFile:
        return MemoryFile(path, self._find_file(path), self._volume, is_writable=False)

    def open_update(self, path: str) -> MemoryFile:
        return MemoryFile(path, self._find_or_create(path), self._volume, is_writable=True)

    def read(self, path: str) -> bytes:
        with self._volume.lock:
            return bytes(self._find_file(path).data)

    def write(self, path: str, data: bytes) -> None:
        with self._volume.lock:
            contents = self._find_or_create(path)
            self._volume.resize(contents, len(data), path)
            contents.data[:] = data

    def rewrite(self, path: str, position: int) -> None:
        self._find_file(path)

    def write_atomically(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        self.write(path, data)

    def size(self, path: str) -> int:
        return len(self._find_file(path).data)

    def modified_ms(self, path: str) -> int:
        return self._find_file(path).modified_ms

    # Names

    def replace(self, source: str, target: str) -> None:
        with self._volume.lock:
            found, there = self._find(source), self._find_or_none(target)
            if isinstance(there, _MemoryDirectory) and there.entries:
                raise _create_error(errno.ENOTEMPTY, target)
            if there is not None and isinstance(there, _MemoryDirectory) != isinstance(
                found, _MemoryDirectory
            ):
                raise _create_error(
                    errno.EISDIR if isinstance(there, _MemoryDirectory) else errno.ENOTDIR, target
                )
            if there is found:
                return
            self._check_not_below(source, target)
            parent, name = self._find_parent(target)
            if isinstance(there, _FileContents):
                self._volume.remove(there)
            parent.entries[name] = found
            old_parent, old_name = self._find_parent(source)
            del old_parent.entries[old_name]

    @staticmethod
    def _check_not_below(source: str, target: str) -> None:
        if f"{os.path.normpath(target)}/".startswith(f"{os.path.normpath(source)}/"):
            raise _create_error(errno.EINVAL, target)

    def unlink(self, path: str) -> None:
        with self._volume.lock:
            self._volume.remove(self._find_file(path))
            parent, name = self._find_parent(path)
            del parent.entries[name]

    def mkdir(self, path: str, *, is_private: bool = False) -> None:
        with self._volume.lock:
            here = self._root
            for name in _split_path(path):
                there = here.entries.setdefault(name, _MemoryDirectory())
                if not isinstance(there, _MemoryDirectory):
                    raise _create_error(errno.ENOTDIR, path)
                here = there

    def rmdir(self, path: str) -> None:
        with self._volume.lock:
            if self._find_directory(path).entries:
                raise _create_error(errno.ENOTEMPTY, path)
            parent, name = self._find_parent(path)
            del parent.entries[name]

    def listdir(self, path: str) -> list[str]:
        with self._volume.lock:
            return sorted(self._find_directory(path).entries)

    def fsync_directory(self, path: str) -> None:
        self._find_directory(path)

    def exists(self, path: str) -> bool:
        return self._find_or_none(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find_or_none(path), _MemoryDirectory)

    def space(self, path: str) -> VolumeSpace:
        self._find(path)
        volume = self._volume
        return VolumeSpace(volume.max_bytes, volume.max_bytes - volume.used_bytes)

    def lock(self, path: str) -> MemoryLock:
        with self._volume.lock:
            if path in self._locks:
                raise BlockingIOError(errno.EAGAIN, "is in use by this process", path)
            self._find_or_create(path)
            return MemoryLock(self._locks, path)

    def is_locked(self, path: str) -> bool:
        self._find(path)
        return path in self._locks

    # Lookups

    def _find_or_none(self, path: str) -> _FileContents | _MemoryDirectory | None:
        here: _FileContents | _MemoryDirectory | None = self._root
        for name in _split_path(path):
            if not isinstance(here, _MemoryDirectory):
                return None
            here = here.entries.get(name)
        return here

    def _find(self, path: str) -> _FileContents | _MemoryDirectory:
        found = self._find_or_none(path)
        if found is None:
            raise _create_error(errno.ENOENT, path)
        return found

    def _find_file(self, path: str) -> _FileContents:
        found = self._find(path)
        if isinstance(found, _MemoryDirectory):
            raise _create_error(errno.EISDIR, path)
        return found

    def _find_directory(self, path: str) -> _MemoryDirectory:
        found = self._find(path)
        if not isinstance(found, _MemoryDirectory):
            raise _create_error(errno.ENOTDIR, path)
        return found

    def _find_parent(self, path: str) -> tuple[_MemoryDirectory, str]:
        parent, name = os.path.split(os.path.normpath(path))
        return self._find_directory(parent), name

    def _find_or_create(self, path: str) -> _FileContents:
        with self._volume.lock:
            if self._find_or_none(path) is None:
                parent, name = self._find_parent(path)
                parent.entries[name] = _FileContents(self._volume.wall_ms())
            return self._find_file(path)


@lru_cache(4096)
def _split_path(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


def _create_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
