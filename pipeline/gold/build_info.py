"""The sources of the gold tables in one row, so that a report can state the basis of its numbers."""

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from pipeline.gold.fold import Fold
from pipeline.gold.group_records import Row
from pipeline.gold.grouping import flags, integers, set_columns
from pipeline.table import Table

BUILD_INFO: Final = Table.declare(
    "build_info",
    """
    built_ts timestamp
    first_record_ts timestamp
    last_record_ts timestamp
    as_of_ts timestamp
    commits bigint
    removed_offsets bigint
    group_records bigint
    step_s int
    retention_minutes int
    log_end_offsets bigint
    log_end_source string
    lag_ts timestamp
    """,
)


def _rows(aggregates: pa.Table) -> pa.Table:
    is_removed, commits = flags(aggregates.column("tombstone")), integers(aggregates.column("commits"))
    return set_columns(
        aggregates,
        first_record_ts=aggregates.column("earliest_record_ts"),
        last_record_ts=aggregates.column("latest_record_ts"),
        commits=np.where(is_removed, 0, commits),
        removed_offsets=np.where(is_removed, commits, 0),
    )


TOTALS: Final = Fold(
    Table.declare(
        "totals",
        """
        log_partition int
        first_record_ts timestamp
        last_record_ts timestamp
        commits bigint
        removed_offsets bigint
        """,
    ),
    keys=("log_partition",),
    rows=_rows,
    sums=("commits", "removed_offsets"),
    least=("first_record_ts",),
    greatest=("last_record_ts",),
)
"""By log partition: commits, and the period of their records."""


RECORD_TOTALS: Final = Table.declare(
    "record_totals",
    """
    first_record_ts timestamp
    last_record_ts timestamp
    group_records bigint
    """,
)
"""The number and period of classic group records of each task of the pass."""


def record_totals(group_generations: Collection[Row]) -> pa.Table:
    """Return RECORD_TOTALS of some records of classic groups."""
    times = [row["record_ts"] for row in group_generations]
    if not times:
        return RECORD_TOTALS.no_rows()
    row = {"first_record_ts": min(times), "last_record_ts": max(times), "group_records": len(times)}
    return RECORD_TOTALS.from_rows([row])


def build_info(
    totals: Iterable[Row],
    record_totals: Iterable[Row],
    log_end_offsets: Iterable[Row],
    **settings: int | None,
) -> Row:
    """Return the row. Times are microseconds. Its inputs are the rows of the fold TOTALS, of RECORD_TOTALS and of
    gold `log_end_offsets`, and the columns with the build settings.
    """
    commits, records, ends = list(totals), list(record_totals), list(log_end_offsets)
    return {
        "first_record_ts": min((row["first_record_ts"] for row in [*commits, *records]), default=None),
        "last_record_ts": max((row["last_record_ts"] for row in [*commits, *records]), default=None),
        "commits": sum(row["commits"] for row in commits),
        "removed_offsets": sum(row["removed_offsets"] for row in commits),
        "group_records": sum(row["group_records"] for row in records),
        "log_end_offsets": len(ends),
        "log_end_source": ", ".join(sorted({row["source"] for row in ends})),
        **settings,
    }
