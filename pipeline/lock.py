"""One ingest and one build of a warehouse at a time; and no file of silver goes while somebody reads it."""

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
    """Holds a local warehouse against others that do the same work; an ingest and a build may go on side by side.

    In: a warehouse that exists; INGEST or BUILD. Out: whether it is held: a warehouse elsewhere has no lock, where
    Spark's checkpoint notices a second ingest, and builds keep out of each other's files. Raises BadInput, naming
    the process, when another one does this work. The operating system takes the lock back when the process ends,
    however it ends; the file stays.
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
    """Keeps the files of a local warehouse's silver where they are; waits while they are being merged.

    What is locked is the warehouse's directory, which is never replaced, and need not be writable.
    """
    with _directory_locked(warehouse, fcntl.LOCK_SH):
        yield


@contextmanager
def unread(warehouse: Warehouse) -> Iterator[bool]:
    """Whether nobody reads silver, who tells so (`reading`); nobody begins to until the context ends. False too
    where there are no such locks."""
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
    except OSError:  # no warehouse at all, as whoever asked for it will find
        yield False
        return
    try:
        yield _has_locked(descriptor, operation)
    finally:
        os.close(descriptor)


def _has_locked(descriptor: int, operation: int) -> bool:
    try:
        fcntl.flock(descriptor, operation)
    except OSError:  # somebody has it, or the file system locks no directories
        return False
    return True
