"""Aggregates of the commits that can be gone on with.

A log only grows, and a group lies in one of its partitions: what was seen of a group is the beginning of what there
is. So nothing that was once counted has to be counted again. A *fold* is an aggregate of which the following holds,
wherever a history is cut in two:

    of(whole) = of(later part, so far = of(earlier part))

It does, by the way a fold is made: each cell of the history (or, of what is rare, each commit) is a row of the
aggregate already, and rows of the same key are combined in a way that does not ask how many commits each stands for
(a sum, the least, what the last one says). Gold tables that tell of commits are made of folds and nothing else: a
build reads each commit once, and a table is the same however many builds it took. What ratio or default a table
shows, it computes from the fold at the end.
"""

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf


class Fold(NamedTuple):
    """One such aggregate."""

    name: str
    keys: tuple[str, ...]
    """None: nothing is combined, each row is kept."""
    rows: Callable[[DataFrame], DataFrame]
    """From cells, or commits, with their writers to the rows of those that count, each as if it were all."""
    combined: Callable[[], list[Column]] = list
    """The columns besides the keys, of rows that have the same ones."""

    def of(self, cells: DataFrame, so_far: DataFrame | None = None) -> DataFrame:
        """The aggregate of some more history, and of all before it if that is `so_far`."""
        rows = self.rows(cells)
        if so_far is not None:
            rows = so_far.unionByName(rows)
        return rows.groupBy(*self.keys).agg(*self.combined()) if self.keys else rows


def sums(*names: str) -> list[Column]:
    """Columns that add up; NULL only where all are."""
    return [sf.sum(name).alias(name) for name in names]


def of_first(order: str, *names: str) -> list[Column]:
    """The least of a column, and what the row says that has it."""
    return [sf.min(order).alias(order), *(sf.min_by(name, order).alias(name) for name in names)]


def of_last(order: str, *names: str) -> list[Column]:
    """The greatest of a column, and what the row says that has it."""
    return [sf.max(order).alias(order), *(sf.max_by(name, order).alias(name) for name in names)]
