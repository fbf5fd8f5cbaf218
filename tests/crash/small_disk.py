"""groupd on a disk that has room for SMALL_DISK_BYTES more: `python -m tests.crash.small_disk serve …`.

Files and directories take space when they are created or grow, and free it when they are cut or removed. A call
that finds no space fails with ENOSPC; a write leaves a part of its bytes in the file.
"""

import errno
import os
import threading
from typing import Final

from storage import files
from storage.files import OsFile, OsFiles

VARIABLE: Final = "SMALL_DISK_BYTES"
NAME_BYTES: Final = 512
"""That a new file or directory takes."""


class Volume:
    """The remaining space. Thread-safe."""

    def __init__(self, free_bytes: int) -> None:
        self._free_bytes = free_bytes
        self._lock = threading.Lock()

    def take(self, size: int, path: str) -> None:
        """Takes so many bytes, or gives them back where the size is negative. Raises OSError."""
        with self._lock:
            if size > 0 and size > self._free_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            self._free_bytes -= size

    def take_part(self, size: int) -> int:
        """Takes as many of these bytes as are free; their number."""
        with self._lock:
            part = max(0, min(size, self._free_bytes))
            self._free_bytes -= part
            return part


VOLUME: Final = Volume(int(os.environ.get(VARIABLE, "0")))


class SmallDiskFile(OsFile):
    """A file that takes space as it grows."""

    __slots__ = ()

    def write(self, data: bytes) -> None:
        part = VOLUME.take_part(len(data))
        super().write(data[:part])
        if part < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def write_at(self, data: bytes, position: int) -> None:
        VOLUME.take(max(0, position + len(data) - self.size()), self.path)
        super().write_at(data, position)

    def truncate(self, size: int) -> None:
        VOLUME.take(size - self.size(), self.path)
        super().truncate(size)


def size_of(path: str) -> int:
    """The space that a file takes; 0 without one."""
    try:
        return os.stat(path).st_size + NAME_BYTES
    except FileNotFoundError:
        return 0


class SmallDisk(OsFiles):
    """The files of such a disk."""

    def open_append(self, path: str) -> OsFile:
        self._create(path)
        return SmallDiskFile(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def open_read(self, path: str) -> OsFile:
        return SmallDiskFile(path, os.O_RDONLY)

    def open_update(self, path: str) -> OsFile:
        self._create(path)
        return SmallDiskFile(path, os.O_RDWR | os.O_CREAT)

    def _create(self, path: str) -> None:
        if not os.path.exists(path):
            VOLUME.take(NAME_BYTES, path)

    def write(self, path: str, data: bytes) -> None:
        VOLUME.take(len(data) + NAME_BYTES - size_of(path), path)
        super().write(path, data)

    def write_atomically(self, path: str, data: bytes, *, is_private: bool = False) -> None:
        replaced = size_of(path)
        VOLUME.take(len(data) + NAME_BYTES, path)
        super().write_atomically(path, data, is_private=is_private)
        VOLUME.take(-replaced, path)

    def replace(self, source: str, target: str) -> None:
        replaced = size_of(target)
        super().replace(source, target)
        VOLUME.take(-replaced, target)

    def unlink(self, path: str) -> None:
        size = size_of(path)
        super().unlink(path)
        VOLUME.take(-size, path)

    def mkdir(self, path: str, *, is_private: bool = False) -> None:
        if not os.path.isdir(path):
            VOLUME.take(NAME_BYTES, path)
        super().mkdir(path, is_private=is_private)

    def rmdir(self, path: str) -> None:
        super().rmdir(path)
        VOLUME.take(-NAME_BYTES, path)


if __name__ == "__main__":
    files.OsFiles = SmallDisk  # type: ignore[misc]
    from coordinator.cli.main import main

    main()
