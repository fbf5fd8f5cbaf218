"""Errors of the log engine, with the file and the position where one applies, and errors of the operating
system in plain words: `permission denied` instead of `[Errno 13]`.
"""

import os
import re
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

_NUMBER: Final = re.compile(r"\[errno -?[0-9]+\] ?", re.IGNORECASE)


class StorageError(Exception):
    """Root of the errors of this package."""


class CorruptBatch(StorageError):
    """Bytes that are not a record batch, or a batch whose checksum, sizes or contents contradict each other.

    `reason` describes the error; `position` is the byte within the examined buffer (0: its start).
    """

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.reason = reason
        self.position = position


class UnsupportedMagic(CorruptBatch):
    """A message set of magic 0 or 1, or a magic above 2. It may be valid, but groupd does not serve its
    format."""

    def __init__(self, magic: int, position: int = 0) -> None:
        super().__init__(f"record format magic {magic} is not supported, only 2", position)
        self.magic = magic


class InvalidRecord(StorageError):
    """A well-formed batch that a producer may not send (Kafka's INVALID_RECORD).

    `record_index` is the record within the batch, or None when the batch as a whole is at fault.
    """

    def __init__(self, reason: str, record_index: int | None = None) -> None:
        super().__init__(reason if record_index is None else f"{reason} (record {record_index} of the batch)")
        self.reason = reason
        self.record_index = record_index


class DecompressedTooLarge(CorruptBatch):
    """A compressed batch that would unpack to more bytes than the caller allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"compressed records unpack to more than {limit} bytes")
        self.limit = limit


class OffsetOutOfRange(StorageError):
    """A read below the log start offset or beyond the log end offset."""

    def __init__(self, path: str, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"{path}: offset {offset} is outside {log_start_offset} to {log_end_offset}")
        self.path = path
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class FileError(StorageError):
    """An error of one file. `position` is the byte within it, or None."""

    def __init__(self, path: str, reason: str, position: int | None = None) -> None:
        where = path if position is None else f"{path}: byte {position}"
        super().__init__(f"{where}: {reason}")
        self.path = path
        self.reason = reason
        self.position = position


class IndexesNotLoaded(FileError):
    """A read of a segment before its indexes were loaded, which may take as long as a walk through the segment."""


class LogDamaged(FileError):
    """Damage before the recovery point, in bytes that were once synced. It is never skipped or truncated."""


class AppendFailed(FileError):
    """The operating system failed to write. No part of the batch is in the log."""


class SyncFailed(FileError):
    """The operating system failed to make written bytes durable."""


class JournalRefused(FileError):
    """The journal did not accept entries of logs. The segments of these logs must be synced."""


class LogPoisoned(FileError):
    """An append to a log after an earlier failure that left its disk state unknown. The log must be reopened."""


class LogContradicted(FileError):
    """The internal state of a log is contradictory: a defect of groupd, not of the disk. The log must be
    reopened."""

    def __init__(self, path: str, problem: AssertionError) -> None:
        (*_, place) = traceback.extract_tb(problem.__traceback__)
        where = f"{os.path.basename(place.filename)}, line {place.lineno}"
        super().__init__(path, f"contradicts itself ({where}): {problem}")
        self.__cause__ = problem


class LogClosed(FileError):
    """Use of a log that was closed or deleted."""


class FileClosed(FileError):
    """Use of a file handle that was closed."""


class DataDirectoryLocked(FileError):
    """Another process owns the data directory."""


class DataDirectoryUnusable(FileError):
    """The data directory cannot be created, read or written."""


class DamagedFile(FileError):
    """A small file (checkpoint, properties, catalogue) has invalid contents."""


def format_error_reason(error: BaseException, named: str = "") -> str:
    """Return the reason of a failure, for the end of a line that names the operation.

    For an OSError it is the text of the operating system, after its path unless the line names that path
    (`named`). For any other error it is its text.
    """
    if not isinstance(error, OSError):
        return str(error)
    # An error without a text of the system is a timeout, or the summary of several attempts by a library.
    text = _NUMBER.sub("", error.strerror or str(error)) or "timed out"
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    paths = [str(path) for path in (error.filename, error.filename2) if path is not None]
    if not paths or paths == [named]:
        return text
    return f"{' to '.join(paths)}: {text}"


def catch_os_error(call: Callable[[], object]) -> OSError | None:
    """Return the OSError that a call raised, or None."""
    try:
        call()
    except OSError as error:
        return error
    return None


def catch_storage_error(call: Callable[[], T]) -> "T | StorageError | OSError":
    """Return the result of a call, or the StorageError or OSError that it raised."""
    try:
        return call()
    except (StorageError, OSError) as error:
        return error
