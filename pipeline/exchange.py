"""Exchange two directories atomically, a system call of Linux and macOS that Python does not wrap."""

import ctypes
import errno
import os
import sys
from typing import Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_RENAME_SWAP: Final = 2


def exchange(first: str, second: str) -> None:
    """Exchange the names of two paths on the same file system.

    Raises:
        OSError: ENOSYS if the operating system has no such call; usually EINVAL if the file system does not support
            it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(first), os.fsencode(second)
    if sys.platform == "darwin":
        failed = library.renamex_np(*paths, _RENAME_SWAP)
    elif hasattr(library, "renameat2"):
        failed = library.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), first)
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), first, None, second)
