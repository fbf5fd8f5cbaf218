"""Parquet files that the driver writes from pieces of tables, a row group at a time."""

import contextlib
import os
import tempfile
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.directory import LocalDirectory
from pipeline.table import Table
from pipeline.warehouse import SCRATCH, Warehouse

_ROW_GROUP_ROWS: Final = 1 << 16


class TableFiles:
    """One file for each table, in the scratch directory of a warehouse or, for one behind a URL, on this machine.

    Use it as a context: the files that were not published are deleted at its end.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._scratch = f"{SCRATCH}/pass-{uuid4().hex}"
        self._is_local = isinstance(warehouse.directory, LocalDirectory)
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._rows: dict[str, int] = {}
        self._cleanup = contextlib.ExitStack()
        self._directory = ""

    def __enter__(self) -> Self:
        if self._is_local:
            self._warehouse.directory.create(self._scratch)
            self._directory = self._warehouse.path(self._scratch)
        else:
            self._directory = self._cleanup.enter_context(tempfile.TemporaryDirectory())
        self._cleanup.callback(self._warehouse.directory.delete, self._scratch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._cleanup:
            for writer in self._writers.values():
                writer.close()

    def append(self, table: Table, rows: pa.Table) -> None:
        """Add rows to a table. They have its columns."""
        if table.name not in self._writers:
            self._writers[table.name] = pq.ParquetWriter(self._path(table.name), table.schema)
            self._rows[table.name] = 0
        self._writers[table.name].write_table(rows, _ROW_GROUP_ROWS)
        self._rows[table.name] += len(rows)

    def publish(self, table: Table, target: str) -> int:
        """Make the file of a table the file `target` of the warehouse. Return the number of its rows."""
        self.append(table, table.no_rows())
        self._writers.pop(table.name).close()
        if self._is_local:
            self._warehouse.directory.replace_file(f"{self._scratch}/{table.name}", target)
        else:
            with open(self._path(table.name), "rb") as file:
                self._warehouse.directory.write(target, file.read())
        return self._rows[table.name]

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)
