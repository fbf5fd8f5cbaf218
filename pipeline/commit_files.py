"""Write commits to files in the workers that decode them.

Nearly every record of the log is a commit, and Spark does not need to process its row. The JVM would convert it
from columns to rows and back. The worker that decodes commits writes them as columns instead: one file per task in
a given directory. It passes the file's name to Spark in place of the rows. A repeated or duplicate task writes
another file; only the returned name counts.
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
"""The kind of a row that describes a file: its name in `path`, its number of rows in `position`."""

ROW_GROUP_ROWS: Final = 1 << 16
COLUMNS: Final = [name for name, _ in COMMITS.columns if name != "ingest_batch"]
"""The source's columns that form a commit."""
_SCHEMA: Final = pa.schema([SCHEMA.field(name) for name in COLUMNS])
_REPEATING: Final = [
    "log_partition", "group", "topic", "partition", "leader_epoch", "metadata", "topic_id", "value_version",
]  # fmt: skip


def set_aside(batches: Iterator[pa.RecordBatch], directory: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches without commits. Write the commits to a file in the local path `directory`, and end with a
    row about the file if there are any.

    `batches` have the source's whole schema; each has only commits or none.

    Raises:
        OSError: the disk failed.
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
