"""Summarise each group, and all groups together."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.commit_aggregates import COUNTERS
from pipeline.gold.group_kinds import CONSUMER, GROUP_KINDS, MIGRATED
from pipeline.gold.group_records import ASSIGNED
from pipeline.gold.grouping import Grouping
from pipeline.gold.lag import LAG
from pipeline.gold.velocity import VELOCITY
from pipeline.report.report_tables import ReportTables, Row, aggregate, sort_indices

_MEASURES: Final = ("n_anomalies", "lag", "commits", "n_rebalances")
"""A group that ranks high in one of these is shown."""
_SUMS: Final = (*COUNTERS, "advance", "elapsed_s")
_COUNTS: Final = (
    *COUNTERS, "advance", "n_migrations", "n_rebalances", "n_emptied", "n_anomalies", "n_expiring",
    "n_partitions", "n_measured",
)  # fmt: skip
"""Columns that are 0 for a group without rows."""
_MAX_EMPTY_GROUPS: Final = 100


def summarise_groups(
    tables: ReportTables, rebalances: pa.Table, all_rebalances: pa.Table, anomalies: pa.Table
) -> pa.Table:
    """Return one row for each group, in order of their names.

    Args:
        tables: gold.
        rebalances: rows of `rebalance_stats` within the period.
        all_rebalances: all rows of `rebalance_stats`.
        anomalies: rows of `anomalies` within the period.
    """
    consumed = aggregate(tables.chunks(VELOCITY, ["group", *_SUMS]), ["group"], **dict.fromkeys(_SUMS, "sum"))
    parts = [
        consumed,
        _rebalances(rebalances),
        _present_state(all_rebalances),
        _kinds(tables.read(GROUP_KINDS)),
        aggregate(_lags(tables), ["group"], **_LAG_FUNCTIONS),
        _anomalies(anomalies),
    ]
    # Each part has at most one row for a group.
    united = pa.concat_tables(parts, promote_options="default")
    names = [name for name in united.column_names if name != "group"]
    found = aggregate([united], ["group"], **dict.fromkeys(names, "max"))
    for name in _COUNTS:
        found = found.set_column(found.schema.get_field_index(name), name, found.column(name).fill_null(0))
    return found.take(sort_indices(found, [("group", False)]))


def _rebalances(rows: pa.Table) -> pa.Table:
    pause = pc.if_else(rows.column("pause_spans_empty"), None, rows.column("consumption_pause_ms"))
    columns = {
        "group": rows.column("group"),
        "n_rebalances": _count(pc.equal(rows.column("kind"), "rebalance")),
        "n_emptied": _count(pc.equal(rows.column("kind"), "emptied")),
        "longest_pause_ms": pause,
    }
    return aggregate(
        [pa.table(columns)], ["group"], n_rebalances="sum", n_emptied="sum", longest_pause_ms="max"
    )


def _present_state(rows: pa.Table) -> pa.Table:
    grouping = Grouping(rows, ["group"])
    last = rows.take(grouping.last("log_offset"))
    return pa.table(
        {
            "group": last.column("group"),
            "state_ts": last.column("record_ts"),
            "n_members": last.column("n_members"),
            "ended_by": last.column("ended_by").fill_null(ASSIGNED),
            "protocol": last.column("protocol"),
        }
    )


def _kinds(rows: pa.Table) -> pa.Table:
    grouping = Grouping(rows, ["group"])
    columns = {"group": rows.column("group"), "n": _count(pc.equal(rows.column("ended_by"), MIGRATED))}
    counted = Grouping(pa.table(columns), ["group"]).sum("n")
    return pa.table(
        {
            "group": grouping.groups.column("group"),
            "group_kind": rows.column("kind").take(grouping.last("from_log_offset")),
            "n_migrations": counted,
        }
    )


_LAG_FUNCTIONS: Final = {
    "lag": "sum", "lost": "sum", "n_partitions": "sum", "n_measured": "sum", "unread_since_ts": "min",
    "measured_ts": "max", "last_commit_ts": "max",
}  # fmt: skip


def _lags(tables: ReportTables) -> Iterator[pa.Table]:
    names = ["group", "lag", "lost", "unread_since_ts", "measured_ts", "commit_ts"]
    for rows in tables.chunks(LAG, names):
        counts = {
            "n_partitions": pa.array(np.ones(len(rows), np.int64)),
            "n_measured": _count(rows.column("lag").is_valid()),
        }
        columns = dict(zip(names, rows.columns, strict=True)) | counts
        columns["last_commit_ts"] = columns.pop("commit_ts")
        yield pa.table(columns)


def _anomalies(rows: pa.Table) -> pa.Table:
    columns = {
        "group": rows.column("group"),
        "n_anomalies": pa.array(np.ones(len(rows), np.int64)),
        "n_expiring": _count(pc.equal(rows.column("kind"), "expiring_offsets")),
    }
    return aggregate([pa.table(columns)], ["group"], n_anomalies="sum", n_expiring="sum")


def _count(condition: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return 1 for each row that meets a condition, 0 for each other."""
    return condition.fill_null(False).cast(pa.int64())


def find_most_remarkable(summaries: pa.Table, limit: int) -> list[Row]:
    """Return `limit` groups by their best rank in any measure; groups without a measure come last.

    A group outside of the first `limit` of every measure cannot be among them, so only the others are compared.
    """
    order = [(name, True) for name in _MEASURES]
    chosen = set(sort_indices(summaries, order)[:limit].to_pylist())
    for measure in order:
        chosen.update(sort_indices(summaries, [measure])[:limit].to_pylist())
    found: list[Row] = summaries.take(pa.array(sorted(chosen), pa.int64())).to_pylist()
    places: dict[str, int] = {}
    for name in _MEASURES:
        ranked = sorted((row for row in found if row[name]), key=lambda row: (-row[name], row["group"]))
        for place, row in enumerate(ranked[:limit]):
            places[row["group"]] = min(place, places.get(row["group"], place))

    def rank(row: Row) -> tuple[Any, ...]:
        return places.get(row["group"], limit), *(-(row[name] or 0) for name in _MEASURES), row["group"]

    return sorted(found, key=rank)[:limit]


def total_groups(summaries: pa.Table, rebalances: pa.Table) -> Row:
    """Return sums, counts and extremes over all groups.

    Args:
        summaries: as `summarise_groups` returns them.
        rebalances: rows of `rebalance_stats` within the period.
    """

    def count_greater(name: str, than: int = 0) -> int:
        return int(pc.sum(pc.greater(summaries.column(name), than)).as_py() or 0)

    sums = ("commits", "unmoved_commits", "rewinds", "transactional_commits", "advance", "lag", "lost",
            "n_rebalances", "n_emptied", "n_anomalies", "n_partitions", "n_measured", "n_migrations")  # fmt: skip
    n_members, groups = summaries.column("n_members"), summaries.column("group")
    empty = groups.filter(pc.equal(n_members, 0))
    totals: Row = {name: pc.sum(summaries.column(name)).as_py() or 0 for name in sums}
    totals |= {
        "n_groups": len(summaries),
        "n_committing": count_greater("commits"),
        "n_rebalancing": count_greater("n_rebalances"),
        "n_with_members": count_greater("n_members"),
        "n_empty": len(empty),
        "n_simple": n_members.null_count,
        "n_consumer_groups": len(groups.filter(pc.equal(summaries.column("group_kind"), CONSUMER))),
        "n_odd": count_greater("n_anomalies"),
        "n_expiring": count_greater("n_expiring"),
        "unread_since_ts": pc.min(summaries.column("unread_since_ts")).as_py(),
        "measured_ts": pc.max(summaries.column("measured_ts")).as_py(),
        "empty_groups": empty[:_MAX_EMPTY_GROUPS].to_pylist(),
    }
    totals["longest_pause_group"], totals["longest_pause_ms"] = _greatest(summaries, "longest_pause_ms")
    totals["busiest_group"], totals["busiest_commits"] = _greatest(summaries, "commits")
    totals["busiest_advance"] = _greatest(summaries, "commits", "advance")[0]
    totals["idlest_group"], totals["idlest_commits"] = _greatest(summaries, "unmoved_commits")
    totals["laggard"], totals["laggard_lag"] = _greatest(summaries, "lag")
    totals["restless_group"], totals["restless_rebalances"] = _greatest(summaries, "n_rebalances")
    for name in ("sync_ms", "convergence_ms"):
        known = rebalances.column(name).drop_null().to_numpy()
        totals[f"median_{name}"] = float(np.median(known)) if len(known) else None
        totals[f"longest_{name}"] = int(known.max()) if len(known) else None
    return totals


def _greatest(summaries: pa.Table, measure: str, column: str = "group") -> tuple[Any, Any]:
    """Return a column of the first group with the greatest value of a measure, and that value."""
    greatest = pc.max(summaries.column(measure))
    if not greatest.is_valid:
        return None, None
    place = pc.index(summaries.column(measure), greatest).as_py()
    return summaries.column(column)[place].as_py(), greatest.as_py()
