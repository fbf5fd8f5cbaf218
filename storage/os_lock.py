"""A claim on a file that lasts as long as the process: how two of them are kept out of one data directory."""

import errno
import fcntl
import os
import struct
import sys
from typing import Final

FILE_MODE: Final = 0o644

_FLOCK: Final = struct.Struct("@hhqqi0q")
"""Linux's `struct flock`: type, whence, start, length, process."""

_held: Final[set[tuple[int, int]]] = set()
"""Device and inode of every file that this process has locked."""


class OsLock:
    """A `Lock` by fcntl(2) on a file: the kind that Java takes, so that it excludes a broker as well.

    Such a lock belongs to the process and is lost when any descriptor of the file is closed. A file that is locked
    here is therefore never opened a second time.
    """

    __slots__ = ("_descriptor", "_identity")

    def __init__(self, path: str) -> None:
        if os.path.exists(path) and _identity(os.stat(path)) in _held:
            raise BlockingIOError(errno.EAGAIN, "is in use by this process", path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._identity = _identity(os.fstat(self._descriptor))
        except OSError as error:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                if error.errno in (errno.EAGAIN, errno.EACCES):  # POSIX allows both
                    holder = _holder(descriptor)
                    raise BlockingIOError(errno.EAGAIN, f"is in use by {holder}", path) from error
            finally:
                os.close(descriptor)
            raise
        _held.add(self._identity)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            _held.discard(self._identity)


def is_locked(path: str) -> bool:
    """Whether a process holds a file locked, this one included. On Linux without locking it. Raises OSError."""
    if _identity(os.stat(path)) in _held:
        return True
    if sys.platform != "linux":
        try:
            OsLock(path).release()
        except BlockingIOError:
            return True
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind: int = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[0]
    finally:
        os.close(descriptor)
    return kind != fcntl.F_UNLCK


def _holder(descriptor: int) -> str:
    """Which process has locked a file, as far as the system tells."""
    if sys.platform != "linux":
        return "another process"
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[-1]
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return f"process {pid} ({file.read().strip()})"
    except OSError:
        # It has ended meanwhile, or has no number here because it runs in another container.
        return "another process"


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
