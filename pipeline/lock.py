"""Locks of a warehouse: one ingest and one build at a time, and no removal of silver files during a read."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pipeline.directory import local_path
from pipeline.errors import BadInput
from pipeline.warehouse import Warehouse

INGEST: Final = "ingest"
BUILD: Final = "build"

_MAX_PID_BYTES: Final = 20


@contextmanager
def alone(warehouse: Warehouse, work: str) -> Iterator[bool]:
    """Lock an existing local warehouse against other processes with the same work, INGEST or BUILD. An ingest and a
    build may run side by side.

    Yields whether the lock is held. A remote warehouse has no lock: Spark's checkpoint detects a second ingest, and
    builds use separate files. The operating system releases the lock when the process ends in any way; the file
    remains.

    Raises:
        BadInput: another process does this work; the text names it.
    """
    path = local_path(warehouse.path(f"_{work}.lock"))
    if path is None:
        yield False
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with open(descriptor, "r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = file.read(_MAX_PID_BYTES).decode("ascii", "replace").strip()
            who = f" as process {pid}" if pid else ""
            raise BadInput(f"{warehouse.path('')}: another {work} is running{who}") from error
        file.truncate(0)
        file.write(b"%d\n" % os.getpid())
        yield True


@contextmanager
def reading(warehouse: Warehouse) -> Iterator[None]:
    """Keep the silver files of a local warehouse in place; first wait for a running merge.

    The lock is on the warehouse's directory, which is never replaced and need not be writable.
    """
    with _directory_locked(warehouse, fcntl.LOCK_SH):
        yield


@contextmanager
def unread(warehouse: Warehouse) -> Iterator[bool]:
    """Yield whether silver has no registered reader (`reading`). If so, new readers wait until the context ends.
    Yields False where such locks are unavailable.
    """
    with _directory_locked(warehouse, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_held:
        yield is_held


@contextmanager
def _directory_locked(warehouse: Warehouse, operation: int) -> Iterator[bool]:
    path = local_path(warehouse.path(""))
    if path is None:
        yield False
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    except OSError:  # not a warehouse; the caller finds out
        yield False
        return
    try:
        yield _has_locked(descriptor, operation)
    finally:
        os.close(descriptor)


def _has_locked(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation)
    except OSError:  # locked by a reader, or the file system cannot lock directories
        return False
    return True
