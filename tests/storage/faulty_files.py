"""An in-memory file system that fails on demand and loses unsynced data at a crash.

A file has the contents that the process sees and the contents on disk. `fdatasync` copies the bytes written
since the last one. A failed `fdatasync` leaves the disk unchanged and, as in a real kernel, marks the bytes
clean: a later call succeeds without writing them. A name (a new file, a rename, a removal) is on disk after a
sync of its directory. `crash` returns the file system that the next process finds.
"""

import errno
import os
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from storage.files import TEMPORARY_SUFFIX, VolumeSpace
from storage.storage_errors import FileClosed
from tests.storage.inode import Inode

OPERATIONS = frozenset(
    [
        "any",
        "open",
        "read",
        "rewrite",
        "write",
        "write_at",
        "write_atomically",
        "replace",
        "unlink",
        "mkdir",
        "rmdir",
        "listdir",
        "fsync_directory",
        "space",
        "lock",
        "pread",
        "fdatasync",
        "truncate",
    ]
)


VOLUME_BYTES = 1 << 40


class CrashError(BaseException):
    """The process ends here."""


@dataclass(slots=True)
class Fault:
    """The `nth` call of `operation` from now on fails with `error`; a write first takes `torn_bytes` of its
    data.
    """

    operation: str
    nth: int
    error: BaseException
    torn_bytes: int = 0
    times: int = 1


class FaultyFiles:
    """A `Files` in memory."""

    def __init__(self) -> None:
        self.names: dict[str, Inode] = {"/": Inode(is_directory=True)}
        self.disk_names: dict[str, Inode] = dict(self.names)
        self.faults: list[Fault] = []
        self.calls: Counter[str] = Counter()
        self.is_full = False
        """Whether nothing can be written that takes space. What is there can be cut, renamed and removed."""
        self.now_ms = 0
        self._modified_ms: dict[Inode, int] = {}
        self._locks: set[str] = set()

    # Faults and crashes

    def fail(
        self, operation: str, nth: int = 1, error: int = errno.EIO, torn_bytes: int = 0, times: int = 1
    ) -> None:
        """Plans an OSError."""
        self.faults.append(
            Fault(self._check(operation), nth, OSError(error, os.strerror(error)), torn_bytes, times)
        )

    @staticmethod
    def _check(operation: str) -> str:
        """A fault that can never happen would make a test that cannot fail."""
        if operation not in OPERATIONS:
            raise ValueError(f"no call is named {operation!r}")
        return operation

    def crash_at(self, operation: str, nth: int, torn_bytes: int = 0) -> None:
        """Plans the end of the process."""
        self.faults.append(Fault(self._check(operation), nth, CrashError(), torn_bytes, 10**9))

    def crash(self, random: Random | None = None) -> "FaultyFiles":
        """Return the file system after a crash; with `random`, a part of the unsynced data may survive."""
        after = FaultyFiles()
        names = dict(self.disk_names)
        if random is not None:
            seen = dict(self.names)
            for old, new in self._renamed_directories():
                # What is in a directory goes with it.
                _move(*((names, old, new) if random.random() < 0.5 else (seen, new, old)))
            # Each change by itself, in any order: new names, removals, and renames, where two names change at once.
            is_there: dict[int, bool] = {}
            for path in sorted(seen.keys() | names.keys()):
                inode, on_disk = seen.get(path), names.get(path)
                if inode is on_disk or _parent(path) not in names:
                    continue
                if not is_there.setdefault(id(inode or on_disk), random.random() < 0.5):
                    continue
                if inode is not None:
                    names[path] = inode
                elif not any(name.startswith(path + "/") for name in names):
                    del names[path]
        for path, inode in names.items():
            contents = bytearray(inode.after_crash(random))
            copy = Inode(inode.is_directory, contents, bytearray(contents), len(contents))
            after.names[path] = after.disk_names[path] = copy
        return after

    def _renamed_directories(self) -> list[tuple[str, str]]:
        """Those that the disk knows by another name: that, and their own."""
        own = {id(inode): path for path, inode in self.names.items() if inode.is_directory}
        found = [(path, own.get(id(inode), path)) for path, inode in self.disk_names.items()]
        return [(old, new) for old, new in found if old != new]

    def kill(self) -> "FaultyFiles":
        """What the next process finds when only this one died: everything that was written."""
        after = FaultyFiles()
        after.names, after.disk_names = dict(self.names), dict(self.disk_names)
        return after

    def call(self, operation: str) -> int:
        """Counts a call; raises when one was planned to fail. Returns how many bytes a torn write takes, or
        -1.
        """
        self.calls[operation] += 1
        for fault in self.faults:
            if fault.operation in (operation, "any"):
                fault.nth -= 1
                if fault.nth <= 0 and fault.times > 0:
                    fault.times -= 1
                    if operation in ("write", "write_at") and fault.torn_bytes:
                        return fault.torn_bytes
                    raise fault.error
        return -1

    @property
    def has_failed(self) -> bool:
        """Whether every fault that was planned has come to pass."""
        return all(fault.nth <= 0 for fault in self.faults)

    def torn_error(self) -> BaseException:
        """What ends a torn write."""
        return next(fault.error for fault in self.faults if fault.nth <= 0 and fault.torn_bytes)

    # The interface

    def open_append(self, path: str) -> "FaultyFile":
        self.call("open")
        if path not in self.names:
            self._create(path)
        return FaultyFile(self, path, self._inode(path))

    def open_read(self, path: str) -> "FaultyFile":
        self.call("open")
        return FaultyFile(self, path, self._inode(path))

    def open_update(self, path: str) -> "FaultyFile":
        return self.open_append(path)

    def read(self, path: str) -> bytes:
        self.call("read")
        return bytes(self._inode(path).data)

    def write(self, path: str, data: bytes) -> None:
        file = self.open_append(path)
        inode = self._inode(path)
        inode.data.clear()
        inode.dirty_from = 0
        file.write(data)

    def require_space(self, path: str) -> None:
        """Raises OSError on a disk that is full."""
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def rewrite(self, path: str, position: int) -> None:
        self.call("rewrite")
        inode = self._inode(path)
        inode.dirty_from = min(inode.dirty_from, position)

    def write_atomically(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        self.call("write_atomically")
        try:
            self.write(path + TEMPORARY_SUFFIX, data)
            FaultyFile(self, path, self._inode(path + TEMPORARY_SUFFIX)).fdatasync()
            self.replace(path + TEMPORARY_SUFFIX, path)
        except OSError:
            self.names.pop(path + TEMPORARY_SUFFIX, None)
            raise
        self.fsync_directory(os.path.dirname(path))

    def replace(self, source: str, target: str) -> None:
        self.call("replace")
        self._inode(source)
        _move(self.names, source, target)

    def unlink(self, path: str) -> None:
        self.call("unlink")
        self._inode(path)
        del self.names[path]

    def mkdir(self, path: str, *, is_private: bool = False) -> None:
        self.call("mkdir")
        if path in self.names and not self.names[path].is_directory:
            raise NotADirectoryError(errno.ENOTDIR, "is not a directory", path)
        if path not in self.names:
            self.require_space(path)
            if os.path.dirname(path) not in self.names:
                self.mkdir(os.path.dirname(path))
            self.names[path] = Inode(is_directory=True)

    def rmdir(self, path: str) -> None:
        self.call("rmdir")
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, "directory is not empty", path)
        del self.names[path]

    def listdir(self, path: str) -> list[str]:
        self.call("listdir")
        if not self._inode(path).is_directory:
            raise NotADirectoryError(errno.ENOTDIR, "is not a directory", path)
        there = list(self.names)  # another thread may make files meanwhile
        return sorted(os.path.basename(name) for name in there if name != "/" and _parent(name) == path)

    def fsync_directory(self, path: str) -> None:
        self.call("fsync_directory")
        self._inode(path)
        for name in [
            name for name in list(self.disk_names) if _parent(name) == path and name not in self.names
        ]:
            for below in [
                other for other in list(self.disk_names) if other == name or other.startswith(name + "/")
            ]:
                del self.disk_names[below]
        for name, inode in self.names.copy().items():  # another thread may make files meanwhile
            if _parent(name) == path and self.disk_names.get(name) is not inode:
                self.disk_names[name] = inode
                if inode.is_directory:  # a renamed directory keeps its content on disk
                    self._adopt(name)

    def _adopt(self, directory: str) -> None:
        on_disk = set(map(id, list(self.disk_names.values())))
        for name, inode in self.names.copy().items():  # another thread may make files meanwhile
            if name.startswith(directory + "/") and id(inode) in on_disk:
                self.disk_names[name] = inode

    def exists(self, path: str) -> bool:
        return path in self.names

    def is_directory(self, path: str) -> bool:
        return path in self.names and self.names[path].is_directory

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._modified_ms.get(self._inode(path), 0)

    def space(self, path: str) -> VolumeSpace:
        self.call("space")
        used_bytes = sum(len(inode.data) for inode in self.names.values())
        return VolumeSpace(VOLUME_BYTES, 0 if self.is_full else VOLUME_BYTES - used_bytes)

    def lock(self, path: str) -> "FaultyLock":
        self.call("lock")
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "is in use by this process", path)
        self._locks.add(path)
        return FaultyLock(self._locks, path)

    def is_locked(self, path: str) -> bool:
        return path in self._locks

    def touch(self, inode: Inode) -> None:
        """Notes a modification, now."""
        self._modified_ms[inode] = self.now_ms

    def _inode(self, path: str) -> Inode:
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "is not there", path)
        return self.names[path]

    def _create(self, path: str) -> None:
        if _parent(path) not in self.names:
            raise FileNotFoundError(errno.ENOENT, "is not there", path)
        self.require_space(path)
        self.names[path] = Inode()


def _move(names: dict[str, Inode], source: str, target: str) -> None:
    for path in [path for path in names if path == source or path.startswith(source + "/")]:
        names[target + path[len(source) :]] = names.pop(path)


@lru_cache(maxsize=10_000)
def _parent(path: str) -> str:
    return os.path.dirname(path) if path != "/" else ""


class FaultyFile:
    """A `File` in memory."""

    def __init__(self, files: FaultyFiles, path: str, inode: Inode) -> None:
        self.path = path
        self._files = files
        self._inode = inode
        self._is_closed = False

    def write(self, data: bytes) -> None:
        torn_bytes = self._files.call("write")
        if self._files.is_full and data:
            self._inode.data += data[: len(data) // 2]  # the rest of the last block
            self._files.require_space(self.path)
        self._inode.data += data if torn_bytes < 0 else data[:torn_bytes]
        self._files.touch(self._inode)
        if torn_bytes >= 0:
            raise self._files.torn_error()

    def write_at(self, data: bytes, position: int) -> None:
        torn_bytes = self._files.call("write_at")
        if position + len(data) > len(self._inode.data):
            self._files.require_space(self.path)
        self._inode.overwrite(data if torn_bytes < 0 else data[:torn_bytes], position)
        if torn_bytes >= 0:
            raise self._files.torn_error()

    def pread(self, length: int, position: int) -> bytes:
        self._files.call("pread")
        return bytes(self._inode.data[position : position + length])

    def fdatasync(self) -> None:
        if self._is_closed:
            raise FileClosed(self.path, "is closed")
        try:
            self._files.call("fdatasync")
        except OSError:
            self._inode.dirty_from = len(self._inode.data)
            self._inode.overwritten.clear()
            raise
        self._inode.persist()

    def truncate(self, size: int) -> None:
        self._files.call("truncate")
        del self._inode.data[size:]
        self._inode.dirty_from = min(self._inode.dirty_from, size)

    def size(self) -> int:
        return len(self._inode.data)

    def duplicate(self) -> "FaultyFile":
        return FaultyFile(self._files, self.path, self._inode)

    def close(self) -> None:
        self._is_closed = True


class FaultyLock:
    """A `Lock` in memory."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        self._locks.discard(self._path)
