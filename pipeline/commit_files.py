"""Writing commits where they are decoded.

Nearly every record of the log is a commit, and its row needs nothing that Spark could do. Sent through the JVM it
would be turned from columns to a row and back; written by the worker that decoded it, it stays columns. A worker
writes the commits of its task to one file in a directory that it is told, and gives the file's name to Spark in
their place. A task that is run again, or twice, writes another file: what counts is the name that comes back.
"""

import os
from collections.abc import Iterator
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.decode.rows import COMMIT, SCHEMA, record_batch
from pipeline.silver.schemas import COMMITS

WRITTEN: Final = "written"
"""The kind of a row that is no record but tells of a file: its name in `path`, its rows in `position`."""

ROW_GROUP_ROWS: Final = 1 << 16
COLUMNS: Final = [name for name, _ in COMMITS.columns if name != "ingest_batch"]
"""Of the source, that make a commit."""
_SCHEMA: Final = pa.schema([SCHEMA.field(name) for name in COLUMNS])
_REPEATING: Final = [
    "log_partition", "group", "topic", "partition", "leader_epoch", "metadata", "topic_id", "value_version",
]  # fmt: skip


def set_aside(batches: Iterator[pa.RecordBatch], directory: str) -> Iterator[pa.RecordBatch]:
    """Lets through what are no commits; writes those to a file in `directory`, a local path, and ends with a row
    about it if there are any.

    In: batches of the source's whole schema, each of commits alone or of none. Raises OSError.
    """
    name = f"part-{uuid4().hex}.parquet"
    path = os.path.join(directory, name)
    writer: pq.ParquetWriter | None = None
    waiting: list[pa.RecordBatch] = []
    written = 0
    try:
        for batch in batches:
            if not _are_commits(batch):
                yield batch
                continue
            waiting.append(batch.select(COLUMNS))
            if sum(map(len, waiting)) >= ROW_GROUP_ROWS:
                writer = writer or _writer(path)
                written += _write(writer, waiting)
        if waiting:
            writer = writer or _writer(path)
            written += _write(writer, waiting)
    finally:
        if writer is not None:
            writer.close()
    if written:
        yield record_batch([{"kind": WRITTEN, "path": name, "position": written}])


def _are_commits(batch: pa.RecordBatch) -> bool:
    return len(batch) > 0 and batch.column("kind")[0].as_py() == COMMIT


def _writer(path: str) -> pq.ParquetWriter:
    return pq.ParquetWriter(path, _SCHEMA, compression="zstd", use_dictionary=_REPEATING)


def _write(writer: pq.ParquetWriter, waiting: list[pa.RecordBatch]) -> int:
    table = pa.Table.from_batches(waiting, _SCHEMA)
    writer.write_table(table, row_group_size=len(table))
    waiting.clear()
    return len(table)
