"""Start-up errors about a data directory: the cause, and the fix for the operator."""

import errno
import os
from typing import Final

from storage.files import Files, VolumeSpace
from storage.journal.journal import JOURNAL
from storage.storage_errors import DamagedFile, DataDirectoryLocked, FileError, format_error_reason

NEW_PARTITION_BYTES: Final = 3 * 4096
"""The size of an empty partition with blocks of 4 KiB, in bytes: its directory and two small files."""

_CHOOSE_ANOTHER: Final = "choose another directory (--data-dir)"
_KIBIBYTE: Final = 1024
_LOW_SPACE_BYTES: Final = 1024 * 1024
"""The free space in bytes at which ENOSPC probably means a lack of inodes."""


def why_unusable(files: Files, data_dir: str, error: Exception) -> str:
    """Return the cause and the fix. `error` is an OSError or a StorageError from opening the directory."""
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
        remedy = "`groupd log recover --without-journal` gives up records that only the journal has"
    return f"{text}. {remedy}" if remedy else text


def why_too_small(files: Files, data_dir: str, new_partitions: int) -> str | None:
    """Return why a data directory has no space for new empty partitions. Return None if it has, or if the file
    system does not report its free space.
    """
    space = _find_space(files, data_dir)
    needed = new_partitions * NEW_PARTITION_BYTES
    if space is None or space.usable_bytes >= needed:
        return None
    return (
        f"{data_dir}: {new_partitions} empty partitions take {_format_bytes(needed)}, and {_format_free(space)}. "
        f"Make room, or {_CHOOSE_ANOTHER}"
    )


def is_nearly_full(files: Files, data_dir: str) -> bool:
    """Return whether so little space is free that the next commits may fail."""
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
                f"{_format_free(space)}, so the file system may have no free inodes (df -i). Make room, or "
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
            f"groupd runs as user id {user}: create the directory for this user (install -d -o {user} {path}), "
            f"or {_CHOOSE_ANOTHER}"
        )
    return (
        f"groupd runs as user id {user}: make this user the owner (chown -R {user} {path}), or {_CHOOSE_ANOTHER}. "
        "In a container use a named volume, or run as the owner of the mounted directory (--user)"
    )


def _find_space(files: Files, data_dir: str) -> VolumeSpace | None:
    """Return the space of the directory's volume, existing or not; None if the file system does not report it."""
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
    """Return a number of bytes as text, in the largest unit with a value of at least 1."""
    number, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number < _KIBIBYTE:
            break
        number, unit = number / _KIBIBYTE, larger
    return f"{number:.0f} {unit}"
