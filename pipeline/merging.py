"""Merging the files of silver as they grow.

Each batch of an ingest makes a directory in each table, and a log that is followed makes thousands of small ones.
So neighbouring batches are made one, which has the number of the last of them; their rows come as they came. Which
ones: of more than MANY that lie side by side and are small, those from the oldest on that is not larger than all
after it together. Thus a row is written again only when what it lies in has about doubled, and a batch of
ENOUGH_BYTES never.

**At one stroke.** A table with the merged batch in the place of its parts is made beside the old one, of hard links
to all files that stay. Then the two directories exchange their names, in one system call: whoever lists the table,
with whatever program, sees each row once, before, after and when power fails in between. What lies in `_staging`
afterwards is garbage. Who has listed the files before and opens them after finds them gone; `pipeline.lock.reading`
keeps merges away meanwhile. Tables are merged one after the other, `ingest_batches` last: at any time it lists the
batch of every row. Where the file system cannot exchange or link (NFS, URLs), nothing is merged.

**No new data.** A build goes on with batches after the one up to which folds were kept. Batches on both sides of
that number are never made one, so rows that were folded stay at or below it and others above it. Only complete
batches are merged, and the last of these keeps its number: what an interrupted ingest, or a build, holds on to is
still true.
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
"""Batches of less than ENOUGH_BYTES that may lie side by side."""
ENOUGH_BYTES: Final = 128 << 20
"""Of a batch, in all tables."""
ROW_GROUP_ROWS: Final = 1 << 17
_MERGED_FILE: Final = "merged.parquet"
_CANNOT: Final = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV}
"""What a file system answers to what it has no notion of."""


class Batch(NamedTuple):
    """A complete batch."""

    number: int
    size_bytes: int
    """Of its files in all tables."""


def due(batches: Sequence[Batch], through_batch: int) -> list[int]:
    """The numbers of the batches that should be one; none while there are few.

    In: all batches, in order; the one up to which the commits are folded.
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
    """Merges what is due; nothing while somebody reads silver, or where the file system cannot do it.

    For the one who ingests. Raises OSError. Ended in any way at any time, the tables say the same.
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
    """Puts the rows of some batches, as far as the table has any, in the last one of them."""
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
    """What `ingest_batches` says of batches that are one: as late as the last, with the records of all."""
    rows = [
        row for file in files for row in pq.read_table(directory.path(file), partitioning=None).to_pylist()
    ]
    at, records = max(row["ingested_ts"] for row in rows), sum(row["n_records"] for row in rows)
    return parquet_file(INGEST_BATCHES, [{"ingested_ts": at, "n_records": records}])


def _concatenate(directory: LocalDirectory, table: Table, files: Sequence[str], target: str) -> None:
    """The rows of all files, in their order, in one; a row group is in memory at a time."""
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
