"""Aggregate the rows of an Arrow table by some of its columns, with the NULL rules of SQL.

Arrow's own `group_by` cannot return the row that has the least or the greatest value of a column. The tables of the
pipeline need that often: the first and the last commit of a group, of a partition, of a minute.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_LEAST: Final = np.iinfo(np.int64).min
_GREATEST: Final = np.iinfo(np.int64).max


def integers(column: pa.ChunkedArray, null: int = 0) -> Integers:
    """Return a column of integers, times (microseconds) or booleans as integers, `null` for NULL."""
    whole = column.cast(pa.int64()) if column.type != pa.bool_() else column.cast(pa.int8()).cast(pa.int64())
    found: Integers = whole.fill_null(null).to_numpy(zero_copy_only=False)
    return found


def flags(column: pa.ChunkedArray) -> Flags:
    """Return a column of booleans, False for NULL."""
    found: Flags = column.fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    return found


def are_valid(column: pa.ChunkedArray) -> Flags:
    """Return for each row whether it is not NULL."""
    found: Flags = column.is_valid().to_numpy(zero_copy_only=False).astype(bool)
    return found


def set_columns(table: pa.Table, **columns: Any) -> pa.Table:
    """Return a table with some columns replaced or added. Arrays of NumPy and Arrow are accepted."""
    for name, values in columns.items():
        array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        index = table.schema.get_field_index(name)
        table = table.append_column(name, array) if index < 0 else table.set_column(index, name, array)
    return table


def divide(dividend: pa.ChunkedArray, divisor: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return quotients, NULL unless the divisor is greater than 0."""
    none = pa.scalar(None, pa.float64())
    is_possible = pc.greater(divisor, 0)
    return pc.divide(dividend.cast(pa.float64()), pc.if_else(is_possible, divisor.cast(pa.float64()), none))


class Grouping:
    """The groups of rows that have equal values in the columns `keys`; NULL equals NULL.

    Each method returns one value for each group, in the order of `groups`.
    """

    def __init__(self, table: pa.Table, keys: Sequence[str]) -> None:
        self._table = table
        self.codes = _codes(table, keys)
        """The number of its group, for each row."""
        self.order = _stable_order(self.codes)
        """The indices of the rows, group by group; rows of a group keep their order."""
        ordered = self.codes[self.order]
        is_first = np.ones(len(ordered), bool)
        is_first[1:] = ordered[1:] != ordered[:-1]
        self._starts = np.flatnonzero(is_first)
        self.groups: pa.Table = table.select(list(keys)).take(pa.array(self.order[self._starts]))
        """The keys of each group."""

    def __len__(self) -> int:
        return len(self._starts)

    def count(self) -> Integers:
        """Count the rows."""
        return np.diff(np.append(self._starts, len(self.order)))

    def sum(self, name: str) -> pa.Array:
        """Add up a column of integers; NULL where all its values are NULL."""
        column = self._table.column(name)
        values = integers(column)[self.order]
        totals = np.add.reduceat(values, self._starts) if len(self) else values
        return pa.array(totals, pa.int64(), mask=~self._any(are_valid(column)))

    def min(self, name: str) -> pa.Array:
        """Return the least value."""
        return self._table.column(name).combine_chunks().take(self.first(name))

    def max(self, name: str) -> pa.Array:
        """Return the greatest value."""
        return self._table.column(name).combine_chunks().take(self.last(name))

    def first(self, order: str) -> pa.Array:
        """Return the index of the row with the least value of `order`, NULL where all values are NULL."""
        return self._pick(order, _GREATEST, is_last=False)

    def last(self, order: str) -> pa.Array:
        """Return the index of the row with the greatest value of `order`, NULL where all values are NULL."""
        return self._pick(order, _LEAST, is_last=True)

    def _pick(self, order: str, null: int, *, is_last: bool) -> pa.Array:
        column = self._table.column(order)
        if not len(self):
            return pa.array([], pa.int64())
        values = integers(column, null)[self.order]
        extreme = np.maximum if is_last else np.minimum
        is_extreme = values == np.repeat(extreme.reduceat(values, self._starts), self.count())
        places = np.where(is_extreme, np.arange(len(values)), -1 if is_last else len(values))
        chosen = self.order[extreme.reduceat(places, self._starts)]
        return pa.array(chosen, mask=~self._any(are_valid(column)))

    def _any(self, values: Flags) -> Flags:
        if not len(self):
            return np.zeros(0, bool)
        found: Flags = np.logical_or.reduceat(values[self.order], self._starts)
        return found


def _stable_order(codes: Integers) -> Integers:
    """Sort codes. NumPy sorts 16-bit numbers in linear time."""
    is_small = len(codes) > 0 and codes.max() <= np.iinfo(np.uint16).max
    order: Integers = np.argsort(codes.astype(np.uint16) if is_small else codes, kind="stable")
    return order


def _codes(table: pa.Table, keys: Sequence[str]) -> Integers:
    codes: Integers = np.zeros(len(table), np.int64)
    n_codes = 1
    for key in keys:
        encoded = pc.dictionary_encode(table.column(key).combine_chunks())
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        found: Integers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        n_values = len(encoded.dictionary) + 1
        if n_codes * n_values > _GREATEST:
            codes, n_codes = _number(codes), len(codes)
        codes, n_codes = codes * n_values + found + 1, n_codes * n_values
    return _number(codes)


def _number(codes: Integers) -> Integers:
    """Number different codes from 0, in the order of their first rows."""
    numbers: Integers = pd.factorize(codes)[0].astype(np.int64, copy=False)
    return numbers
