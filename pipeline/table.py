"""The declared shape of a table."""

from typing import Final, NamedTuple

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

    def empty(self, spark: SparkSession) -> DataFrame:
        """The table without rows."""
        return spark.createDataFrame([], self.ddl)
