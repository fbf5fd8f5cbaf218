"""The parts of gold tables that span groups: topic names and stuck partitions."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from pipeline.gold.anomalies.anomaly import anomaly_rows
from pipeline.gold.anomalies.anomaly_schema import ANOMALIES
from pipeline.gold.anomalies.stuck_partition import REACHES, STANDSTILLS, stuck_partition
from pipeline.gold.build_info import RECORD_TOTALS, TOTALS
from pipeline.gold.group_records import Row
from pipeline.gold.group_tables import TOPIC_NAMES
from pipeline.gold.ownership import HOLDINGS, OWNERSHIP, ownership
from pipeline.table import Table, rows_of

_PARTS: Final = {
    table.name: table
    for table in (HOLDINGS, TOPIC_NAMES, STANDSTILLS, REACHES.table, TOTALS.table, RECORD_TOTALS)
}


class AcrossGroups:
    """Collects the parts from all tasks of the pass."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.Table]] = {name: [] for name in _PARTS}

    def add(self, name: str, rows: pa.Table) -> None:
        """Add rows of a table if it is a part."""
        if name in self._parts:
            self._parts[name].append(rows)

    def rows(self, table: Table) -> list[Row]:
        """Return all rows of a part."""
        return rows_of(self._whole(table))

    def _whole(self, table: Table) -> pa.Table:
        return pa.concat_tables([table.no_rows(), *self._parts[table.name]])

    def tables(self, as_of_us: int) -> Iterator[tuple[Table, pa.Table]]:
        """Return rows of gold tables at the reference time."""
        owned = ownership(self._whole(HOLDINGS), self._topic_names())
        yield OWNERSHIP, owned
        reaches = REACHES.combine([self._whole(REACHES.table)])
        stuck = stuck_partition(self.rows(STANDSTILLS), rows_of(reaches), rows_of(owned), as_of_us)
        yield ANOMALIES, anomaly_rows("stuck_partition", stuck)

    def _topic_names(self) -> dict[str, str]:
        """Return the least name of each id: a topic has one name, but a log may have topics of two clusters."""
        pairs = sorted(((row["topic_id"], row["topic"]) for row in self.rows(TOPIC_NAMES)), reverse=True)
        return dict(pairs)
