"""Every call on the file system, behind one small interface, and the lock that keeps other processes out of a
data directory.

The log engine takes a `Files` and never touches the operating system otherwise. A test can therefore tear a
write in two, fill the disk at the n-th call, fail an fsync, or lose every byte that was not synced.

Paths are plain strings. Every method raises OSError as the operating system reports it, with the name of the
file. The caller knows the position and decides about the consequences for a log.
"""

import contextlib
import errno
import fcntl
import os
import resource
import stat
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol
from uuid import uuid4

from storage.storage_errors import FileClosed

FILE_MODE: Final = 0o644

_FLOCK: Final = struct.Struct("@hhqqi0q")
"""The layout of Linux's `struct flock`: type, whence, start, length, process id."""

_locked_files: Final[set[tuple[int, int]]] = set()
"""Device and inode of every file that this process has locked."""


class OsLock:
    """A `Lock` by fcntl(2) on a file: the kind that Java uses, so that it also excludes a Kafka broker.

    Such a lock belongs to the process and is lost when any descriptor of the file is closed. A file that is
    locked here is therefore never opened a second time.
    """

    __slots__ = ("_descriptor", "_identity")

    def __init__(self, path: str) -> None:
        if os.path.exists(path) and _identify_file(os.stat(path)) in _locked_files:
            raise BlockingIOError(errno.EAGAIN, "is in use by this process", path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._identity = _identify_file(os.fstat(self._descriptor))
        except OSError as error:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                if error.errno in (errno.EAGAIN, errno.EACCES):  # POSIX allows both
                    holder = _describe_holder(descriptor)
                    raise BlockingIOError(errno.EAGAIN, f"is in use by {holder}", path) from error
            finally:
                os.close(descriptor)
            raise
        _locked_files.add(self._identity)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            _locked_files.discard(self._identity)


def is_locked(path: str) -> bool:
    """Return whether a process, possibly this one, has locked a file. On Linux this takes no lock. Raises
    OSError."""
    if _identify_file(os.stat(path)) in _locked_files:
        return True
    if sys.platform != "linux":
        try:
            OsLock(path).release()
        except BlockingIOError:
            return True
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        lock_query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind: int = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, lock_query))[0]
    finally:
        os.close(descriptor)
    return kind != fcntl.F_UNLCK


def _describe_holder(descriptor: int) -> str:
    """Describe the process that has locked a file, as far as the system knows it."""
    if sys.platform != "linux":
        return "another process"
    lock_query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, lock_query))[-1]
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return f"process {pid} ({file.read().strip()})"
    except OSError:
        # The process has ended meanwhile, or it runs in another container and has no process id here.
        return "another process"


def _identify_file(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


DIRECTORY_MODE: Final = 0o755
TEMPORARY_SUFFIX: Final = ".tmp"
DELETED_DIRECTORY_SUFFIX: Final = "-delete"
MAX_NAME_LENGTH: Final = 255

_PRIVATE_MODE: Final = 0o600
_PRIVATE_DIRECTORY_MODE: Final = 0o700
_REWRITE_BYTES: Final = 1024 * 1024


class File(Protocol):
    """One open file. Writes append to its end; reads are positional and do not move the end."""

    @property
    def path(self) -> str:
        """The path with which the file was opened, for messages."""

    def write(self, data: bytes) -> None:
        """Append all of `data`, with as many system calls as needed. After an OSError a part may be written."""

    def write_at(self, data: bytes, position: int) -> None:
        """Overwrite bytes at a position of a file that is open for updates. After an OSError a part may be
        written."""

    def pread(self, length: int, position: int) -> bytes:
        """Return `length` bytes from `position`, or fewer at the end of the file."""

    def fdatasync(self) -> None:
        """Make contents and size durable. It is safe in a thread while another one writes. Raises FileClosed
        after `close`."""

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""

    def size(self) -> int:
        """Return the current size in bytes."""

    def duplicate(self) -> "File":
        """Return another handle on the same file. It can be read in any thread until it is closed itself."""

    def close(self) -> None:
        """Close the file, after a running fdatasync has ended. A second call does nothing."""


class Lock(Protocol):
    """An exclusive claim on a path, held until released or until the process ends."""

    def release(self) -> None:
        """Release the lock. A second call does nothing."""


class VolumeSpace(NamedTuple):
    """The size and the free space of a volume."""

    total_bytes: int
    usable_bytes: int
    """The free bytes that this process may use."""


class Files(Protocol):
    """A file system, real or in memory."""

    def open_append(self, path: str) -> File:
        """Open a file for reading and appending. A missing file is created empty."""

    def open_read(self, path: str) -> File:
        """Open an existing file for reading."""

    def open_update(self, path: str) -> File:
        """Open a file for reading, and for writing at any position. A missing file is created empty."""

    def read(self, path: str) -> bytes:
        """Return the whole content of a small regular file."""

    def write(self, path: str, data: bytes) -> None:
        """Create or replace a small file in place, neither atomically nor durably."""

    def rewrite(self, path: str, position: int) -> None:
        """Write the bytes of a file from `position` on again at the same place. The next sync of the file then
        writes them to the disk, also after a failed sync."""

    def write_atomically(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        """Replace a small file atomically and durably. A crash leaves the old file or the new one.

        An OSError leaves no other file. `is_private`: only the user of the process may read it.
        """

    def replace(self, source: str, target: str) -> None:
        """Rename a file or directory, replacing a target file. The new name is durable after
        `fsync_directory`."""

    def unlink(self, path: str) -> None:
        """Remove the file at a path."""

    def mkdir(self, path: str, *, is_private: bool = False) -> None:
        """Create a directory and its missing parents. An existing one keeps its mode.

        `is_private`: only the user of the process may enter it. The parents have the default mode.
        """

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""

    def fsync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""

    def is_directory(self, path: str) -> bool:
        """Return whether a directory exists."""

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""

    def modified_ms(self, path: str) -> int:
        """Return the time of the last modification of a file, wall clock in milliseconds."""

    def space(self, path: str) -> VolumeSpace:
        """Return the space of the volume of a path."""

    def lock(self, path: str) -> Lock:
        """Lock a path. Raises BlockingIOError, which names the holder, if another process (or this one) has it."""

    def is_locked(self, path: str) -> bool:
        """Return whether a process, possibly this one, has locked an existing path. It takes no lock."""


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of `data` to a descriptor, repeating short writes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _open_regular(path: str, flags: int) -> int:
    """Return a descriptor of a regular file. Opening a pipe would block, and a directory would fail only at
    the first read. Raises OSError."""
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, FILE_MODE)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "is not a regular file", path)


def _add_file_name(error: OSError, path: str) -> None:
    """Add the path to an error about a descriptor, because the operating system does not name the file."""
    if error.filename is None:
        error.filename = path


class _DescriptorUse:
    """The handles that share one descriptor, and the lock for its syncs and its close. Without the lock the
    number of a closed descriptor might already belong to another file."""

    __slots__ = ("handles", "lock")

    def __init__(self) -> None:
        self.handles = 1
        self.lock = threading.Lock()


class OsFile:
    """A `File` of the operating system. Duplicates share its descriptor, because a process has a limited
    number. The last handle closes it."""

    __slots__ = ("_descriptor", "_use", "path")

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._descriptor = _open_regular(path, flags)
        self._use = _DescriptorUse()

    def write(self, data: bytes) -> None:
        try:
            written = os.write(self._descriptor, data)
            if written != len(data):
                write_all(self._descriptor, memoryview(data)[written:])
        except OSError as error:
            _add_file_name(error, self.path)
            raise

    def write_at(self, data: bytes, position: int) -> None:
        rest = memoryview(data)
        try:
            while rest:
                written = os.pwrite(self._descriptor, rest, position)
                rest, position = rest[written:], position + written
        except OSError as error:
            _add_file_name(error, self.path)
            raise

    def pread(self, length: int, position: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        missing = length - len(data)
        while missing:
            data = os.pread(self._descriptor, missing, position + length - missing)
            if not data:
                break
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)

    def fdatasync(self) -> None:
        with self._use.lock:
            if self._descriptor < 0:
                raise FileClosed(self.path, "is closed")
            try:
                os.fdatasync(self._descriptor)
            except OSError as error:
                _add_file_name(error, self.path)
                raise

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def duplicate(self) -> "OsFile":
        copy = OsFile.__new__(OsFile)
        with self._use.lock:
            if self._descriptor < 0:
                raise FileClosed(self.path, "is closed")
            self._use.handles += 1
            copy.path, copy._descriptor, copy._use = self.path, self._descriptor, self._use
        return copy

    def close(self) -> None:
        with self._use.lock:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor < 0:
                return
            self._use.handles -= 1
            if self._use.handles:
                return
        os.close(descriptor)


class OsFiles:
    """The `Files` of the operating system."""

    def open_append(self, path: str) -> OsFile:
        return OsFile(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def open_read(self, path: str) -> OsFile:
        return OsFile(path, os.O_RDONLY)

    def open_update(self, path: str) -> OsFile:
        return OsFile(path, os.O_RDWR | os.O_CREAT)

    def read(self, path: str) -> bytes:
        with open(_open_regular(path, os.O_RDONLY), "rb") as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            write_all(descriptor, data)
        except OSError as error:
            _add_file_name(error, path)
            raise
        finally:
            os.close(descriptor)

    def rewrite(self, path: str, position: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            while data := os.pread(descriptor, _REWRITE_BYTES, position):
                position += os.pwrite(descriptor, data, position)
        except OSError as error:
            _add_file_name(error, path)
            raise
        finally:
            os.close(descriptor)

    def write_atomically(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        temporary = path + TEMPORARY_SUFFIX
        mode = _PRIVATE_MODE if is_private else FILE_MODE
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            try:
                if is_private:
                    os.fchmod(descriptor, mode)  # a crash may have left a file with other permissions
                write_all(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            _add_file_name(error, path)
            raise
        self.fsync_directory(os.path.dirname(path))

    def replace(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str, *, is_private: bool = False) -> None:
        with contextlib.suppress(FileExistsError):
            os.makedirs(path, _PRIVATE_DIRECTORY_MODE if is_private else DIRECTORY_MODE)
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, "is not a directory", path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def fsync_directory(self, path: str) -> None:
        descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            _add_file_name(error, path)
            raise
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def space(self, path: str) -> VolumeSpace:
        found = os.statvfs(path)
        return VolumeSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def lock(self, path: str) -> OsLock:
        return OsLock(path)

    def is_locked(self, path: str) -> bool:
        return is_locked(path)


def read_input_file(path: str) -> bytes:
    """Return the content of a file that a user has named on a command line. It may be a pipe. Raises OSError."""
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def create_private_file(data: bytes) -> Iterator[str]:
    """Yield the path of a file with these bytes that only this user can read. The end of the block removes it.
    Raises OSError."""
    import tempfile  # rarely needed, and it imports many modules

    descriptor, path = tempfile.mkstemp(prefix="groupd-")
    try:
        try:
            write_all(descriptor, data)
        finally:
            os.close(descriptor)
        yield path
    finally:
        os.unlink(path)


def sync_file(files: Files, path: str) -> None:
    """Make content and size of a closed file durable; blocks. Raises OSError."""
    file = files.open_read(path)
    try:
        file.fdatasync()
    finally:
        file.close()


def find_open_files_limit() -> int:
    """Return the number of files, sockets included, that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def mark_directory_deleted(files: Files, directory: str) -> str:
    """Rename a directory before its removal, so that a crash leaves no directory that looks complete. The new name
    is Kafka's, `<name>.<32 hex digits>-delete`. Sync its parent before `remove_directory`. Raises OSError.
    """
    parent, name = os.path.split(directory)
    suffix = f".{uuid4().hex}{DELETED_DIRECTORY_SUFFIX}"
    doomed = os.path.join(parent, name[: MAX_NAME_LENGTH - len(suffix)] + suffix)
    files.replace(directory, doomed)
    return doomed


def remove_directory(files: Files, directory: str) -> None:
    """Remove a directory and the files in it. Raises OSError."""
    for name in files.listdir(directory):
        files.unlink(f"{directory}/{name}")
    files.rmdir(directory)
