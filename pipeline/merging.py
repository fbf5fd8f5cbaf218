"""Merge the small files of silver tables.

Each batch of an ingest adds a directory to each table, so following a log creates thousands of small ones. A merge
combines neighbouring batches into one that has the number of the last; rows keep their order. When more than MANY
small batches are adjacent, the merge takes all from the oldest batch on that is not larger than all later ones
together. So a row is rewritten only after its batch has about doubled in size, and a batch of ENOUGH_BYTES never.

**Atomic.** The merge builds a new directory of the table with the merged batch and hard links to all other files.
One system call then exchanges the names of the two directories. Every reader of the table sees each row once, also
after a power failure. The remains in `_staging` are garbage. A reader that listed the files before the exchange and
opens them afterwards would not find them; `pipeline.lock.reading` delays merges meanwhile. Tables are merged one
after the other, `ingest_batches` last, so it always lists the batch of every row. File systems that cannot exchange
or link (NFS, URLs) get no merges.

**Folds stay valid.** A build continues after the last folded batch. A merge never combines batches on both sides of
that number, so folded rows stay at or below it and others above. Only complete batches are merged, and the last of
them keeps its number, so references of an interrupted ingest or a build stay valid.
"""

import errno
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.directory import LocalDirectory
from pipeline.fold_checkpoint import read_checkpoint
from pipeline.lock import unread
from pipeline.silver.schemas import INGEST_BATCHES, SILVER
from pipeline.table import Table
from pipeline.warehouse import (
    BATCH_FILE,
    STAGING,
    Warehouse,
    batch_path,
    is_data,
    parquet_file,
    parquet_schema,
)

MANY: Final = 16
"""The most adjacent batches smaller than ENOUGH_BYTES."""
ENOUGH_BYTES: Final = 128 << 20
"""The size of a batch in all tables."""
ROW_GROUP_ROWS: Final = 1 << 17
_MERGED_FILE: Final = "merged.parquet"
_CANNOT: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV}
"""The errors of file systems that do not support the operation."""


class Batch(NamedTuple):
    """A complete batch."""

    number: int
    size_bytes: int
    """The size of its files in all tables."""


def due(batches: Sequence[Batch], through_batch: int) -> list[int]:
    """Return the numbers of the batches to merge; empty while there are few.

    Args:
        batches: all batches in order.
        through_batch: the last folded batch.
    """
    runs = groupby(batches, lambda one: (one.number <= through_batch, one.size_bytes >= ENOUGH_BYTES))
    for (_, is_enough), run in runs:
        small = list(run)
        if is_enough or len(small) <= MANY:
            continue
        after = sum(one.size_bytes for one in small)
        first = len(small) - 2
        for place, one in enumerate(small):
            after -= one.size_bytes
            if one.size_bytes <= after:
                first = place
                break
        return list(_until_enough(small[first:]))
    return []


def _until_enough(batches: Sequence[Batch]) -> Iterator[int]:
    size_bytes = 0
    for one in batches:
        yield one.number
        size_bytes += one.size_bytes
        if size_bytes >= ENOUGH_BYTES:
            return


def merge(warehouse: Warehouse) -> None:
    """Merge the batches that are due. Do nothing during a read of silver, or on a file system without the needed
    calls.

    Only the ingest may call this. An interruption at any point leaves the tables' content unchanged.

    Raises:
        OSError: the disk failed.
    """
    directory = warehouse.directory
    if not isinstance(directory, LocalDirectory) or len(warehouse.complete_batches()) <= MANY:
        return
    with unread(warehouse) as is_unread:
        if not is_unread:
            return
        folded = read_checkpoint(warehouse)
        through_batch = 0 if folded is None else folded.through_batch
        while numbers := due(_batches(warehouse, directory), through_batch):
            if not _can_exchange(directory):
                return
            for table in SILVER.values():
                _merge_table(directory, table, numbers)


def _batches(warehouse: Warehouse, directory: LocalDirectory) -> list[Batch]:
    return [
        Batch(number, sum(directory.size_bytes(place) for place in _places(directory, [number])))
        for number in warehouse.complete_batches()
    ]


def _places(directory: LocalDirectory, numbers: Sequence[int]) -> list[str]:
    places = [batch_path(name, number) for name in SILVER for number in numbers]
    return [place for place in places if directory.exists(place)]


def _can_exchange(directory: LocalDirectory) -> bool:
    probe = f"{STAGING}/probe-{uuid4().hex}"
    try:
        directory.create(f"{probe}/a")
        directory.write(f"{probe}/file", b"")
        directory.link(f"{probe}/file", f"{probe}/a/file")
        directory.create(f"{probe}/b")
        directory.exchange(f"{probe}/a", f"{probe}/b")
        return directory.exists(f"{probe}/b/file")
    except OSError as error:
        if error.errno in _CANNOT:
            return False
        raise
    finally:
        directory.delete(probe)


def _merge_table(directory: LocalDirectory, table: Table, numbers: Sequence[int]) -> None:
    """Move the rows of some batches, as far as the table has them, to the last of these batches."""
    parts = [batch_path(table.name, number) for number in numbers]
    target = parts[-1]
    parts = [place for place in parts if directory.exists(place)]
    if parts in ([], [target]):
        return
    made = f"{STAGING}/merge-{uuid4().hex}"
    for name in directory.names(table.name):
        if f"{table.name}/{name}" not in parts:
            directory.link(f"{table.name}/{name}", f"{made}/{name}")
    within = f"{made}/{target.partition('/')[2]}"
    if len(parts) == 1:
        directory.link(parts[0], within)
    else:
        directory.create(within)
        files = [f"{place}/{name}" for place in parts for name in directory.names(place) if is_data(name)]
        if table is INGEST_BATCHES:
            directory.write(f"{within}/{BATCH_FILE}", _one_row(directory, files))
        else:
            _concatenate(directory, table, files, f"{within}/{_MERGED_FILE}")
    directory.exchange(made, table.name)
    directory.delete(made)


def _one_row(directory: LocalDirectory, files: Sequence[str]) -> bytes:
    """Return the merged row of `ingest_batches`: the time of the last batch and the sum of the records."""
    rows = [
        row for file in files for row in pq.read_table(directory.path(file), partitioning=None).to_pylist()
    ]
    at, records = max(row["ingested_ts"] for row in rows), sum(row["n_records"] for row in rows)
    return parquet_file(INGEST_BATCHES, [{"ingested_ts": at, "n_records": records}])


def _concatenate(directory: LocalDirectory, table: Table, files: Sequence[str], target: str) -> None:
    """Concatenate the rows of all files in order. One row group is in memory at a time."""
    schema = parquet_schema(table)
    waiting: list[pa.RecordBatch] = []
    with pq.ParquetWriter(directory.path(target), schema, compression="zstd") as writer:

        def write() -> None:
            writer.write_table(pa.Table.from_batches(waiting, schema), ROW_GROUP_ROWS)
            waiting.clear()

        for file in files:
            with pq.ParquetFile(directory.path(file)) as source:
                for rows in source.iter_batches(ROW_GROUP_ROWS, columns=schema.names):
                    waiting.append(rows.cast(schema))
                    if sum(map(len, waiting)) >= ROW_GROUP_ROWS:
                        write()
        if waiting:
            write()
