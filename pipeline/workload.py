"""Estimate the work of a command before Spark starts, to choose the JVM options.

The estimate counts unread log bytes and unfolded commits. A wrong estimate costs time but does not change the
tables.
"""

import os
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from pipeline.directory import local_path
from pipeline.errors import BadInput
from pipeline.fold_checkpoint import read_checkpoint
from pipeline.log_files import LogFiles
from pipeline.segments import find_partitions, find_segments
from pipeline.silver.schemas import COMMITS, INGEST_BATCHES, SILVER
from pipeline.stream_checkpoint import read_planned_offset
from pipeline.warehouse import Warehouse, batch_path

LITTLE_BYTES: Final = 8_000_000
"""Of log or tables. Up to about this size Spark spends more time on compiling than on running the compiled code."""
MODERATE_BYTES: Final = 32_000_000
"""Of tables, about seven million commits. Up to about this size the JIT compiler costs more than it saves."""
_LOG_TO_TABLES: Final = 8
"""The tables are smaller than the log by at least this factor."""


class Workload(IntEnum):
    """The amount of work. The maximum of two covers both."""

    LITTLE = 0
    MODERATE = 1
    MUCH = 2


def of_ingest(log_dir: str, warehouse: str) -> Workload:
    """Estimate an ingest of the unread log.

    Raises:
        BadInput, OSError: the log is unusable.
    """
    there = log_bytes(log_dir)

    def sizes(place: Warehouse) -> tuple[int, int]:
        new_bytes = max(0, there - bytes_read(place))
        return new_bytes, new_bytes // _LOG_TO_TABLES

    return _of(sizes, warehouse)


def of_build(warehouse: str, *, full: bool = False) -> Workload:
    """Estimate a build. `full` reads all commits again."""

    def sizes(place: Warehouse) -> tuple[int, int]:
        now = None if full else read_checkpoint(place)
        others = (name for name in SILVER if name not in (COMMITS.name, INGEST_BATCHES.name))
        parts = [now.place, *others] if now is not None else list(others)
        done = 0 if now is None else now.through_batch
        parts += [batch_path(COMMITS.name, batch) for batch in place.complete_batches() if batch > done]
        size_bytes = sum(bytes_below(place.path(part)) for part in parts)
        return size_bytes, size_bytes

    return _of(sizes, warehouse)


def log_bytes(log_dir: str) -> int:
    """Return the size of all segments of the offsets log.

    Raises:
        BadInput, OSError: the log is unusable.
    """
    files = LogFiles(log_dir)
    return sum(
        segment.size_bytes
        for partition in find_partitions(files)
        for segment in find_segments(files, partition)
    )


def bytes_read(warehouse: Warehouse) -> int:
    """Return the log bytes of all ingests into a local warehouse, from the last entry of Spark's checkpoint."""
    read = (read_planned_offset(warehouse) or {}).get("bytes_read")
    return read if isinstance(read, int) else 0


def bytes_below(path: str) -> int:
    """Return the size of all files below a directory; 0 if it does not exist."""
    found = 0
    for place, _, names in os.walk(path):
        for name in names:
            try:
                found += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:  # a concurrent process removed it
                continue
    return found


def _of(sizes: Callable[[Warehouse], tuple[int, int]], warehouse: str) -> Workload:
    """Classify a number of table bytes to read. Return MUCH if the size is unknown before Spark starts: behind a
    URL, or for an unusable warehouse, which the command reports.
    """
    if local_path(warehouse) is None:
        return Workload.MUCH
    try:
        size_bytes, of_tables = sizes(Warehouse(warehouse))
    except (BadInput, OSError):
        return Workload.MUCH
    if size_bytes <= LITTLE_BYTES:
        return Workload.LITTLE
    return Workload.MODERATE if of_tables <= MODERATE_BYTES else Workload.MUCH
