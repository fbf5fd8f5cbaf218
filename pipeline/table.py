"""The declared shape of a table."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

_ARROW_TYPES: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_type(kind: str) -> pa.DataType:
    """Arrow's type for a Spark SQL type, one of a table's columns."""
    if kind.startswith("array<"):
        return pa.list_(pa.field("element", arrow_type(kind.removeprefix("array<").removesuffix(">"))))
    return _ARROW_TYPES[kind]


class Table(NamedTuple):
    """A table's name and its columns, in order, each as (name, Spark SQL type)."""

    name: str
    columns: tuple[tuple[str, str], ...]

    @classmethod
    def declare(cls, name: str, ddl: str) -> "Table":
        """In: the columns as lines of `name type`; types contain no spaces."""
        columns = []
        for line in ddl.strip().splitlines():
            column, _, kind = line.strip().partition(" ")
            columns.append((column, kind))
        return cls(name, tuple(columns))

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)

    def shape(self, frame: DataFrame) -> DataFrame:
        """The frame with exactly these columns, in this order and of these types."""
        return frame.select(*(sf.col(name).cast(kind).alias(name) for name, kind in self.columns))

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in self.columns])

    def select(self, rows: pa.Table) -> pa.Table:
        """Return exactly these columns, in this order and of these types. A column that is not there is NULL."""
        arrays = [
            rows.column(field.name).cast(field.type)
            if field.name in rows.column_names
            else pa.nulls(len(rows), field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def from_rows(self, rows: Iterable[dict[str, Any]]) -> pa.Table:
        """Return rows as Arrow has them. Times are microseconds; a column that a row does not have is NULL."""
        found = list(rows)
        columns = [pa.array([row.get(field.name) for row in found], field.type) for field in self.schema]
        return pa.Table.from_arrays(columns, schema=self.schema)

    def no_rows(self) -> pa.Table:
        """Return the table without rows, as Arrow has it."""
        return self.schema.empty_table()

    def empty(self, spark: SparkSession) -> DataFrame:
        """The table without rows."""
        return spark.createDataFrame([], self.ddl)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table, times as microseconds."""
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns
    ]
    found: list[dict[str, Any]] = pa.table(columns, names=table.column_names).to_pylist()
    return found
