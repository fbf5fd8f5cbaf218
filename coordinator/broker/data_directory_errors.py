"""Why a data directory cannot be used, and what to do about it: a line for whoever starts the daemon."""

import errno
import os
from typing import Final

from storage.errors import DamagedFile, DataDirectoryLocked, FileError
from storage.files import Files, Space
from storage.journal.journal import JOURNAL
from storage.os_error import reason_of

NEW_PARTITION_BYTES: Final = 3 * 4096
"""What an empty partition takes where blocks have 4 KiB: its directory and two small files in it."""

_ANOTHER: Final = "choose another directory (--data-dir)"
_KIBIBYTE: Final = 1024
_ENOUGH_BYTES: Final = 1024 * 1024
"""Where so much is free and yet no space is left, it is not bytes that are missing."""


def why_unusable(files: Files, data_dir: str, error: Exception) -> str:
    """In: what opening the directory raised, an OSError or a StorageError."""
    if isinstance(error, DataDirectoryLocked):
        return f"{error}. Stop that process, or {_ANOTHER}"
    text = str(error) if isinstance(error, FileError) else f"{data_dir}: cannot be used: {reason_of(error)}"
    refused = error if isinstance(error, OSError) else error.__cause__
    remedy = _remedy(files, data_dir, refused.errno) if isinstance(refused, OSError) else ""
    if isinstance(error, DamagedFile) and os.path.dirname(error.path) == f"{data_dir}/{JOURNAL}":
        remedy = "`groupd log recover --without-journal` gives up what only the journal has"
    return f"{text}. {remedy}" if remedy else text


def why_too_small(files: Files, data_dir: str, new_partitions: int) -> str | None:
    """Why so many empty partitions cannot be made in a data directory; None when they can, or when the file system
    does not tell what is free."""
    space = _space(files, data_dir)
    needed = new_partitions * NEW_PARTITION_BYTES
    if space is None or space.usable_bytes >= needed:
        return None
    return (
        f"{data_dir}: {new_partitions} empty partitions take {_amount(needed)}, and {_free(space)}. "
        f"Make room, or {_ANOTHER}"
    )


def is_nearly_full(files: Files, data_dir: str) -> bool:
    """Whether so little is free that the next commits may be refused."""
    space = _space(files, data_dir)
    return space is not None and space.usable_bytes < _ENOUGH_BYTES


def _remedy(files: Files, data_dir: str, code: int | None) -> str:
    if code in (errno.EACCES, errno.EPERM):
        return _permission(data_dir, files.is_directory(data_dir))
    if code == errno.EROFS:
        return f"Mount it for writing (in a container without :ro or --read-only), or {_ANOTHER}"
    if code in (errno.ENOSPC, errno.EDQUOT):
        space = _space(files, data_dir)
        if space is None:
            return f"Make room, or {_ANOTHER}"
        if code == errno.ENOSPC and space.usable_bytes >= _ENOUGH_BYTES:
            return f"{_free(space)}, so it may be inodes that are used up (df -i). Make room, or {_ANOTHER}"
        return f"{_free(space)}. Make room, or {_ANOTHER}"
    if code in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
        return _ANOTHER.capitalize()
    return ""


def _permission(data_dir: str, is_there: bool) -> str:
    from shlex import quote

    user, path = os.geteuid(), quote(data_dir)
    if not is_there:
        return (
            f"groupd runs as user id {user}: make the directory for it (install -d -o {user} {path}), "
            f"or {_ANOTHER}"
        )
    return (
        f"groupd runs as user id {user}: give it the directory (chown -R {user} {path}), or {_ANOTHER}. "
        "In a container take a named volume, or run as the owner of the mounted directory (--user)"
    )


def _space(files: Files, data_dir: str) -> Space | None:
    """Of the volume that the directory is or would be on; None where the file system does not tell."""
    path = data_dir
    while not files.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    try:
        space = files.space(path)
    except OSError:
        return None
    return space if space.total_bytes else None


def _free(space: Space) -> str:
    return f"{_amount(space.usable_bytes)} of {_amount(space.total_bytes)} are free there"


def _amount(size: int) -> str:
    """A number of bytes in the largest unit that leaves a whole number."""
    number, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number < _KIBIBYTE:
            break
        number, unit = number / _KIBIBYTE, larger
    return f"{number:.0f} {unit}"
