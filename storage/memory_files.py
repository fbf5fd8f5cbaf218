"""A file system in the memory of the process: for brokers that live as long as one test.

It behaves as the operating system's does, but that a sync has nothing to do, that nothing outlives the process,
and that there are no links. A file that was removed stays with whoever has it open. Safe in several threads.
"""

import errno
import os
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from storage.errors import FileClosed
from storage.files import Space

Clock = Callable[[], int]
"""The wall clock, in milliseconds."""


class _Contents:
    """What is in one file."""

    __slots__ = ("data", "is_removed", "modified_ms")

    def __init__(self, now_ms: int) -> None:
        self.data = bytearray()
        self.modified_ms = now_ms
        self.is_removed = False
        """Whether it has no name any more: then it goes with whoever has it open, and is not counted."""


class _Directory:
    """Names, and what has them."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, _Contents | _Directory] = {}


class _Volume:
    """What all files share: how much there is, how much there may be, and the lock under which it changes."""

    def __init__(self, most_bytes: int, wall_ms: Clock) -> None:
        self.most_bytes: Final = most_bytes
        self.used_bytes = 0
        self.wall_ms: Final = wall_ms
        self.lock: Final = threading.RLock()

    def resize(self, contents: _Contents, size: int, path: str) -> None:
        """Counts what a file will have. Raises OSError where there is no room for it."""
        grown = 0 if contents.is_removed else size - len(contents.data)
        if grown > 0 and self.used_bytes + grown > self.most_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.used_bytes += grown
        contents.modified_ms = self.wall_ms()

    def remove(self, contents: _Contents) -> None:
        """A file has lost its name."""
        self.used_bytes -= len(contents.data)
        contents.is_removed = True


class MemoryFile:
    """A `File` in memory."""

    __slots__ = ("_contents", "_is_open", "_is_writable", "_volume", "path")

    def __init__(self, path: str, contents: _Contents, volume: _Volume, *, is_writable: bool) -> None:
        self.path = path
        self._contents = contents
        self._volume = volume
        self._is_open = True
        self._is_writable = is_writable

    def write(self, data: bytes) -> None:
        self._put(data, None)

    def write_at(self, data: bytes, position: int) -> None:
        self._put(data, position)

    def _put(self, data: bytes, position: int | None) -> None:
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

    def close(self) -> None:
        self._is_open = False

    def _check(self, *, is_change: bool = False) -> None:
        if not self._is_open or (is_change and not self._is_writable):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)


class MemoryLock:
    """A `Lock` among those who have the same files in memory."""

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

    def __init__(self, most_bytes: int, wall_ms: Clock) -> None:
        """In: how much may be in all files together (ENOSPC for more); the wall clock."""
        self._volume = _Volume(most_bytes, wall_ms)
        self._root = _Directory()
        self._locks: set[str] = set()

    @property
    def used_bytes(self) -> int:
        """What is in all files together, without those that were removed."""
        return self._volume.used_bytes

    # Files

    def open_append(self, path: str) -> MemoryFile:
        return MemoryFile(path, self._created(path), self._volume, is_writable=True)

    def open_read(self, path: str) -> MemoryFile:
        return MemoryFile(path, self._file(path), self._volume, is_writable=False)

    def open_update(self, path: str) -> MemoryFile:
        return MemoryFile(path, self._created(path), self._volume, is_writable=True)

    def read(self, path: str) -> bytes:
        with self._volume.lock:
            return bytes(self._file(path).data)

    def write(self, path: str, data: bytes) -> None:
        with self._volume.lock:
            contents = self._created(path)
            self._volume.resize(contents, len(data), path)
            contents.data[:] = data

    def rewrite(self, path: str, position: int) -> None:
        self._file(path)

    def write_atomically(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        self.write(path, data)

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    # Names

    def replace(self, source: str, target: str) -> None:
        with self._volume.lock:
            found, there = self._found(source), self._get(target)
            if isinstance(there, _Directory) and there.entries:
                raise _refused(errno.ENOTEMPTY, target)
            if there is not None and isinstance(there, _Directory) != isinstance(found, _Directory):
                raise _refused(errno.EISDIR if isinstance(there, _Directory) else errno.ENOTDIR, target)
            if there is found:
                return
            self._check_not_below(source, target)
            parent, name = self._parent(target)
            if isinstance(there, _Contents):
                self._volume.remove(there)
            parent.entries[name] = found
            old_parent, old_name = self._parent(source)
            del old_parent.entries[old_name]

    @staticmethod
    def _check_not_below(source: str, target: str) -> None:
        if f"{os.path.normpath(target)}/".startswith(f"{os.path.normpath(source)}/"):
            raise _refused(errno.EINVAL, target)

    def unlink(self, path: str) -> None:
        with self._volume.lock:
            self._volume.remove(self._file(path))
            parent, name = self._parent(path)
            del parent.entries[name]

    def mkdir(self, path: str, *, is_private: bool = False) -> None:
        with self._volume.lock:
            here = self._root
            for name in _names(path):
                there = here.entries.setdefault(name, _Directory())
                if not isinstance(there, _Directory):
                    raise _refused(errno.ENOTDIR, path)
                here = there

    def rmdir(self, path: str) -> None:
        with self._volume.lock:
            if self._directory(path).entries:
                raise _refused(errno.ENOTEMPTY, path)
            parent, name = self._parent(path)
            del parent.entries[name]

    def listdir(self, path: str) -> list[str]:
        with self._volume.lock:
            return sorted(self._directory(path).entries)

    def fsync_directory(self, path: str) -> None:
        self._directory(path)

    def exists(self, path: str) -> bool:
        return self._get(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._get(path), _Directory)

    def space(self, path: str) -> Space:
        self._found(path)
        volume = self._volume
        return Space(volume.most_bytes, volume.most_bytes - volume.used_bytes)

    def lock(self, path: str) -> MemoryLock:
        with self._volume.lock:
            if path in self._locks:
                raise BlockingIOError(errno.EAGAIN, "is in use by this process", path)
            self._created(path)
            return MemoryLock(self._locks, path)

    def is_locked(self, path: str) -> bool:
        self._found(path)
        return path in self._locks

    # Looking up

    def _get(self, path: str) -> _Contents | _Directory | None:
        here: _Contents | _Directory | None = self._root
        for name in _names(path):
            if not isinstance(here, _Directory):
                return None
            here = here.entries.get(name)
        return here

    def _found(self, path: str) -> _Contents | _Directory:
        found = self._get(path)
        if found is None:
            raise _refused(errno.ENOENT, path)
        return found

    def _file(self, path: str) -> _Contents:
        found = self._found(path)
        if isinstance(found, _Directory):
            raise _refused(errno.EISDIR, path)
        return found

    def _directory(self, path: str) -> _Directory:
        found = self._found(path)
        if not isinstance(found, _Directory):
            raise _refused(errno.ENOTDIR, path)
        return found

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, name = os.path.split(os.path.normpath(path))
        return self._directory(parent), name

    def _created(self, path: str) -> _Contents:
        with self._volume.lock:
            if self._get(path) is None:
                parent, name = self._parent(path)
                parent.entries[name] = _Contents(self._volume.wall_ms())
            return self._file(path)


@lru_cache(4096)
def _names(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


def _refused(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
