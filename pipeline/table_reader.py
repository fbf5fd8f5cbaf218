"""Read the tables of a warehouse without Spark, in chunks of Arrow."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import BadInput
from pipeline.table import Table
from pipeline.warehouse import Warehouse

_CHUNK_ROWS: Final = 1 << 17


class TableReader:
    """A reader of tables. Use it as a context: files behind a URL are copied to this machine until its end."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._copies = tempfile.TemporaryDirectory(prefix="groupd-tables-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._copies.cleanup()

    def gold_chunks(self, table: Table, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows of a gold table, after a chunk without rows.

        Raises:
            BadInput: the table is missing or lacks a column.
        """
        yield table.no_rows().select(list(columns))
        self._warehouse.check_gold(table.name)
        for name in self._warehouse.data_files(table.name):
            yield from self._file_chunks(f"{table.name}/{name}", table, columns)

    def silver_chunks(self, table: Table, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows of a silver table in complete batches, after a chunk without rows."""
        yield table.no_rows().select(list(columns))
        for place in self._warehouse.batch_directories(table.name):
            for name in self._warehouse.data_files(place):
                yield from self._file_chunks(f"{place}/{name}", table, columns)

    def silver(self, table: Table) -> pa.Table:
        """Return the rows of a silver table in complete batches, without the numbers of the batches."""
        columns = [name for name in table.schema.names if name != "ingest_batch"]
        return pa.concat_tables(self.silver_chunks(table, columns))

    def _file_chunks(self, file: str, table: Table, columns: Sequence[str]) -> Iterator[pa.Table]:
        path = self._warehouse.directory.fetch(file, os.path.join(self._copies.name, file.replace("/", "-")))
        with pq.ParquetFile(path) as source:
            for name, _ in table.columns:
                if name != "ingest_batch" and name not in source.schema_arrow.names:
                    where = self._warehouse.path(table.name)
                    raise BadInput(f"{where}: has no column {name}: build the tables again")
            for batch in source.iter_batches(_CHUNK_ROWS, columns=list(columns)):
                # The file has columns in its own order, and lists under its own name of their elements.
                arrays = [batch.column(name).cast(table.schema.field(name).type) for name in columns]
                yield pa.Table.from_arrays(arrays, schema=table.no_rows().select(list(columns)).schema)
