"""Reading small tables in tests."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

Row = dict[str, Any]


def rows(frame: DataFrame | pa.Table, *columns: str) -> list[Any]:
    """All rows in the order of these columns: tuples of their values, or the values of a single column.

    Times have their zone, in every time zone of this process.
    """
    values = in_order_of(_arrow(frame).select(list(columns)).to_pylist(), columns)
    return [row[0] for row in values] if len(columns) == 1 else values


def in_order_of(found: list[Row], columns: Sequence[str]) -> list[Any]:
    """Tuples of these columns, in their order, NULL first."""
    values = [tuple(row[name] for name in columns) for row in found]
    values.sort(key=lambda row: tuple((value is not None, value) for value in row))
    return values


def _arrow(frame: DataFrame | pa.Table) -> pa.Table:
    return frame if isinstance(frame, pa.Table) else frame.toArrow()


def one(frame: DataFrame | pa.Table) -> Row:
    """The only row."""
    found: list[Row] = _arrow(frame).to_pylist()
    assert len(found) == 1, found
    return found[0]
