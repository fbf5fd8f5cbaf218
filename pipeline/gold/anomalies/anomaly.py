"""Give the rows of one kind of anomaly the columns of all kinds."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from pipeline.gold.anomalies.anomaly_schema import ANOMALIES
from pipeline.gold.group_records import Row
from pipeline.gold.grouping import set_columns


def anomalies(kind: str, rows: pa.Table, **columns: Any) -> pa.Table:
    """Return ANOMALIES of a kind from the columns of `rows` and further columns by name."""
    names = pa.array([kind] * len(rows), pa.string())
    return ANOMALIES.select(set_columns(rows, **columns, kind=names))


def anomaly_rows(kind: str, rows: Iterable[Row]) -> pa.Table:
    """Return ANOMALIES of a kind from rows with some of the columns; times are microseconds."""
    return ANOMALIES.from_rows([row | {"kind": kind} for row in rows])
