"""Aggregates of commits that can be continued.

A log only grows, and a group lies in one of its partitions: the known history of a group is the beginning of
the whole one. A *fold* is an aggregate for which the following holds, wherever a history is cut in two:

    of(whole) = of(later part, so_far=of(earlier part))

It holds by construction: each aggregated row of the history is a row of the fold already, and rows of equal
keys are combined without regard to the number of commits in each (a sum, the least value, the value in the
last row). Gold tables about commits are made of folds and nothing else: a build reads each commit once, and
the number of builds does not change a table. Ratios and defaults are computed from a fold when a table is
written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from pipeline.gold.grouping import Grouping
from pipeline.table import Table


@dataclass(frozen=True)
class Fold:
    """One such aggregate.

    `rows` turns aggregated commits (or, of rare kinds, commits), with their presumed writers, into rows of
    the fold. `first` and `last` name a column, and the columns to take from the row with its least or
    greatest value; `least` and `greatest` name columns for themselves. Without keys, no rows are combined.
    """

    table: Table
    keys: tuple[str, ...]
    rows: Callable[[pa.Table], pa.Table]
    sums: tuple[str, ...] = ()
    first: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    last: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least: tuple[str, ...] = ()
    greatest: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its table."""
        return self.table.name

    def of(self, commits: pa.Table, so_far: pa.Table | None = None) -> pa.Table:
        """Return the fold of some more history, and of all before it if that is `so_far`."""
        rows = self.table.select(self.rows(commits))
        return self.combine([rows] if so_far is None else [so_far, rows])

    def combine(self, parts: list[pa.Table]) -> pa.Table:
        """Return the fold of all parts of a history, given the fold of each."""
        whole = pa.concat_tables(parts) if parts else self.table.no_rows()
        if not self.keys:
            return whole
        grouping = Grouping(whole, self.keys)
        columns = {name: grouping.groups.column(name) for name in self.keys}
        columns |= {name: grouping.sum(name) for name in self.sums}
        columns |= {name: grouping.min(name) for name in self.least}
        columns |= {name: grouping.max(name) for name in self.greatest}
        for chosen, pick in ((self.first, grouping.first), (self.last, grouping.last)):
            for order, names in chosen.items():
                rows = pick(order)
                columns |= {name: whole.column(name).take(rows) for name in (order, *names)}
        return self.table.select(pa.table(columns))
