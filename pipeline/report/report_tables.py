"""Select, aggregate and rank rows of gold for the report."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.table import Table
from pipeline.table_reader import TableReader
from pipeline.warehouse import Warehouse

Row = dict[str, Any]

MAX_GROUPS: Final = 12
_PERIODS: Final[Mapping[str, tuple[str, str | None]]] = {
    "velocity": ("minute", None),
    "progress": ("step_ts", None),
    "rebalance_stats": ("record_ts", None),
    "rebalance_causes": ("record_ts", None),
    "ownership": ("from_ts", "to_ts"),
    "anomalies": ("ts", "until_ts"),
}
"""The columns with the time of a row, or with its first and last time. Other tables describe the end of the log."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of the tables to report: from `since`, before `until`, these groups (None: all), details of at most
    `n_groups`.
    """

    since: datetime | None = None
    until: datetime | None = None
    groups: tuple[str, ...] | None = None
    n_groups: int = MAX_GROUPS
    ledger: str | None = None
    """The daemon's ledger file, with data that the log lacks."""

    def select_period(self, table: Table, rows: pa.Table) -> pa.Table:
        """Return the rows with an interval that overlaps the period. An interval without an end is open."""
        if table.name not in _PERIODS:
            return rows
        start, end = _PERIODS[table.name]
        if self.since is not None:
            last = rows.column(start if end is None else end)
            rows = rows.filter(
                pc.greater_equal(last if end is None else last.fill_null(self.since), self.since)
            )
        if self.until is not None:
            rows = rows.filter(pc.less(rows.column(start), self.until))
        return rows


EVERYTHING: Final = Selection()


class ReportTables(TableReader):
    """The tables of a warehouse, limited to the period and the groups of a selection."""

    def __init__(self, warehouse: Warehouse, selection: Selection) -> None:
        super().__init__(warehouse)
        self._selection = selection

    def chunks(
        self,
        table: Table,
        columns: Sequence[str],
        groups: Collection[str] | None = None,
        *,
        is_in_period: bool = True,
    ) -> Iterator[pa.Table]:
        """Yield the rows of a gold table within the period, of the selected groups or of `groups`.

        Without `is_in_period`, yield the rows of all times.

        Raises:
            BadInput: the table is missing or lacks a column.
        """
        chosen = self._selection.groups if groups is None else groups
        times = [name for name in _PERIODS.get(table.name, ()) if name is not None]
        needed = dict.fromkeys([*columns, *times, *(("group",) if chosen is not None else ())])
        for rows in self.gold_chunks(table, list(needed)):
            if chosen is not None:
                rows = rows.filter(pc.is_in(rows.column("group"), pa.array(list(chosen), pa.string())))
            if is_in_period:
                rows = self._selection.select_period(table, rows)
            yield rows.select(list(columns))

    def read(
        self, table: Table, groups: Collection[str] | None = None, *, is_in_period: bool = True
    ) -> pa.Table:
        """Return the rows of `chunks` together, with all columns."""
        chunks = self.chunks(table, table.schema.names, groups, is_in_period=is_in_period)
        return pa.concat_tables(table.select(chunk) for chunk in chunks)


def aggregate(chunks: Iterable[pa.Table], keys: Sequence[str], **functions: str) -> pa.Table:
    """Aggregate the rows of all chunks by some columns; `functions` are of Arrow, by column, and combine their own
    results (`sum`, `min`, `max`). There must be a chunk.
    """
    parts = [_aggregate(chunk, keys, functions) for chunk in chunks]
    return _aggregate(pa.concat_tables(parts), keys, functions)


def _aggregate(rows: pa.Table, keys: Sequence[str], functions: Mapping[str, str]) -> pa.Table:
    found = rows.group_by(list(keys), use_threads=False).aggregate(list(functions.items()))
    names = {f"{name}_{function}": name for name, function in functions.items()}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def rank_within_groups(rows: pa.Table, order: Sequence[tuple[str, bool]], limit: int) -> dict[str, list[Row]]:
    """Return the first `limit` rows of each group.

    Args:
        rows: rows with a column `group`.
        order: columns, each with whether it descends; NULL is last where it descends, else first.
        limit: the greatest number of rows of a group.
    """
    found: dict[str, list[Row]] = {}
    places: dict[str, list[int]] = {}
    for place, group in enumerate(rows.column("group").to_pylist()):
        places.setdefault(group, []).append(place)
    for group, own in sorted(places.items()):
        chosen = rows.take(pa.array(own, pa.int64()))
        found[group] = chosen.take(sort_indices(chosen, order)[:limit]).to_pylist()
    return found


def sort_indices(rows: pa.Table, order: Sequence[tuple[str, bool]]) -> pa.Array:
    """Return the indices of rows in order; equal rows keep theirs. `order` is as in `rank_within_groups`."""
    columns: dict[str, Any] = {}
    keys: list[tuple[str, str]] = []
    for number, (name, descends) in enumerate(order):
        columns |= {
            f"{number}n": rows.column(name).is_null().cast(pa.int8()),
            f"{number}v": rows.column(name),
        }
        directions = ("ascending", "descending") if descends else ("descending", "ascending")
        keys += zip((f"{number}n", f"{number}v"), directions, strict=True)
    # Arrow's sort is not stable, so the place decides between equal rows.
    columns["place"] = pa.array(range(len(rows)), pa.int64())
    return pc.sort_indices(pa.table(columns), [*keys, ("place", "ascending")])
