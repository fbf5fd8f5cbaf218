"""How much there is to do, asked before Spark starts: for a little, its virtual machine is started otherwise.

What counts is what a command reads: of the log what no ingest has read, of the commits those that no build has
folded. A guess is enough. Who guesses wrong waits longer, and gets the same tables.
"""

import json
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
from pipeline.warehouse import CHECKPOINT, Warehouse, batch_path

LITTLE_BYTES: Final = 8_000_000
"""Of log, or of tables: up to about here Spark spends more on compiling than on running what it compiled."""
MODERATE_BYTES: Final = 32_000_000
"""Of tables, some seven million commits: up to about here Java does, if Spark compiles."""
_LOG_TO_TABLES: Final = 8
"""A log becomes tables that are so much smaller, at least."""


class Workload(IntEnum):
    """How much there is to do. The most of two is that of both."""

    LITTLE = 0
    MODERATE = 1
    MUCH = 2


def of_ingest(log_dir: str, warehouse: str) -> Workload:
    """Of reading what is new in a log. Raises BadInput, OSError: what is wrong with the log."""
    there = log_bytes(log_dir)

    def sizes(place: Warehouse) -> tuple[int, int]:
        new_bytes = max(0, there - bytes_read(place))
        return new_bytes, new_bytes // _LOG_TO_TABLES

    return _of(sizes, warehouse)


def of_build(warehouse: str, *, full: bool = False) -> Workload:
    """Of a build. In: whether all commits are read again."""

    def sizes(place: Warehouse) -> tuple[int, int]:
        now = None if full else read_checkpoint(place)
        others = (name for name in SILVER if name not in (COMMITS.name, INGEST_BATCHES.name))
        parts = [now.place, *others] if now is not None else list(others)
        done = 0 if now is None else now.through_batch
        parts += [batch_path(COMMITS.name, batch) for batch in place.complete_batches() if batch > done]
        size_bytes = sum(bytes_below(place.path(part)) for part in parts)
        return size_bytes, size_bytes

    return _of(sizes, warehouse)


def of_report(warehouse: str) -> Workload:
    """Of a report, which reads the gold tables."""

    def sizes(place: Warehouse) -> tuple[int, int]:
        names = place.directory.names("")
        tables = [name for name in names if name not in SILVER and not name.startswith("_")]
        size_bytes = sum(bytes_below(place.path(name)) for name in tables)
        return size_bytes, size_bytes

    return _of(sizes, warehouse)


def log_bytes(log_dir: str) -> int:
    """Of all segments of the offsets log there. Raises BadInput, OSError."""
    files = LogFiles(log_dir)
    return sum(
        segment.size_bytes
        for partition in find_partitions(files)
        for segment in find_segments(files, partition)
    )


def bytes_read(warehouse: Warehouse) -> int:
    """Of the log, by all ingests into a local warehouse, as the last entry of Spark's checkpoint says."""
    offsets = f"{CHECKPOINT}/offsets"
    batches = sorted(int(name) for name in warehouse.directory.names(offsets) if name.isdigit())
    if not batches:
        return 0
    lines = warehouse.directory.read(f"{offsets}/{batches[-1]}").splitlines()
    try:
        return int(json.loads(lines[-1])["bytes_read"])
    except (ValueError, LookupError, TypeError):
        return 0  # whatever is wrong with it, Spark will say


def bytes_below(path: str) -> int:
    """Of all files in a directory and those below it; none where it is not."""
    found = 0
    for place, _, names in os.walk(path):
        for name in names:
            try:
                found += os.lstat(os.path.join(place, name)).st_size
            except FileNotFoundError:  # somebody else is at work
                continue
    return found


def _of(sizes: Callable[[Warehouse], tuple[int, int]], warehouse: str) -> Workload:
    """In: how many bytes there are to read, and how many of tables that makes. MUCH where nobody can tell before
    Spark is there: behind a URL, and where something is wrong with the warehouse, which the command will say.
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
