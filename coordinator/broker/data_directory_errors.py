"""Why a data directory cannot be used, and what to do about it: a line for whoever starts the daemon."""

import errno
import os
from typing import Final

from storage.files import Files, VolumeSpace
from storage.journal.journal import JOURNAL
from storage.storage_errors import DamagedFile, DataDirectoryLocked, FileError, format_error_reason

NEW_PARTITION_BYTES: Final = 3 * 4096
"""What an empty partition takes where blocks have 4 KiB: its directory and two small files in it."""

_CHOOSE_ANOTHER: Final = "choose another directory (--data-dir)"
_KIBIBYTE: Final = 1024
_LOW_SPACE_BYTES: Final = 1024 * 1024
"""Where so much is free and yet no space is left, it is not bytes that are missing."""


def why_unusable(files: Files, data_dir: str, error: Exception) -> str:
    """In: what opening the directory raised, an OSError or a StorageError."""
    if isinstance(error, DataDirectoryLocked):
        return f"{error}. Stop that process, or {_CHOOSE_ANOTHER}"
    text = (
        str(error)
        if isinstance(error, FileError)
        else f"{data_dir}: cannot be used: {format_error_reason(error)}"
    )
    refused = error if isinstance(error, OSError) else error.__cause__
    remedy = _find_remedy(files, data_dir, refused.errno) if isinstance(refused, OSError) else ""
    if isinstance(error, DamagedFile) and os.path.dirname(error.path) == f"{data_dir}/{JOURNAL}":
        remedy = "`groupd log recover --without-journal` gives up what only the journal has"
    return f"{text}. {remedy}" if remedy else text


def why_too_small(files: Files, data_dir: str, new_partitions: int) -> str | None:
    """Why so many empty partitions cannot be made in a data directory; None when they can, or when the file system
    does not tell what is free."""
    space = _find_space(files, data_dir)
    needed = new_partitions * NEW_PARTITION_BYTES
    if space is None or space.usable_bytes >= needed:
        return None
    return (
        f"{data_dir}: {new_partitions} empty partitions take {_format_bytes(needed)}, and {_format_free(space)}. "
        f"Make room, or {_CHOOSE_ANOTHER}"
    )


def is_nearly_full(files: Files, data_dir: str) -> bool:
    """Whether so little is free that the next commits may be refused."""
    space = _find_space(files, data_dir)
    return space is not None and space.usable_bytes < _LOW_SPACE_BYTES


def _find_remedy(files: Files, data_dir: str, code: int | None) -> str:
    if code in (errno.EACCES, errno.EPERM):
        return _describe_permission_remedy(data_dir, files.is_directory(data_dir))
    if code == errno.EROFS:
        return f"Mount it for writing (in a container without :ro or --read-only), or {_CHOOSE_ANOTHER}"
    if code in (errno.ENOSPC, errno.EDQUOT):
        space = _find_space(files, data_dir)
        if space is None:
            return f"Make room, or {_CHOOSE_ANOTHER}"
        if code == errno.ENOSPC and space.usable_bytes >= _LOW_SPACE_BYTES:
            return (
                f"{_format_free(space)}, so it may be inodes that are used up (df -i). Make room, or "
                f"{_CHOOSE_ANOTHER}"
            )
        return f"{_format_free(space)}. Make room, or {_CHOOSE_ANOTHER}"
    if code in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
        return _CHOOSE_ANOTHER.capitalize()
    return ""


def _describe_permission_remedy(data_dir: str, is_there: bool) -> str:
    from shlex import quote

    user, path = os.geteuid(), quote(data_dir)
    if not is_there:
        return (
            f"groupd runs as user id {user}: make the directory for it (install -d -o {user} {path}), "
            f"or {_CHOOSE_ANOTHER}"
        )
    return (
        f"groupd runs as user id {user}: give it the directory (chown -R {user} {path}), or {_CHOOSE_ANOTHER}. "
        "In a container take a named volume, or run as the owner of the mounted directory (--user)"
    )


def _find_space(files: Files, data_dir: str) -> VolumeSpace | None:
    """Of the volume that the directory is or would be on; None where the file system does not tell."""
    path = data_dir
    while not files.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    try:
        space = files.space(path)
    except OSError:
        return None
    return space if space.total_bytes else None


def _format_free(space: VolumeSpace) -> str:
    return f"{_format_bytes(space.usable_bytes)} of {_format_bytes(space.total_bytes)} are free there"


def _format_bytes(size: int) -> str:
    """A number of bytes in the largest unit that leaves a whole number."""
    number, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number < _KIBIBYTE:
            break
        number, unit = number / _KIBIBYTE, larger
    return f"{number:.0f} {unit}"
