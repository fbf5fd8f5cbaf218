"""Gather the content of the report from the warehouse. Its size is bounded, whatever the size of the tables.

Sums cover all selected groups; details cover only the top groups. Groups are ranked by anomalies, lag, commits and
rebalances, and the best rank in any of these counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.gold.anomalies.anomaly_schema import ANOMALIES
from pipeline.gold.build_info import BUILD_INFO
from pipeline.gold.commit_stats import COMMIT_STATS
from pipeline.gold.group_kinds import GROUP_KINDS
from pipeline.gold.grouping import Grouping
from pipeline.gold.lag import LAG
from pipeline.gold.ownership import OWNERSHIP
from pipeline.gold.progress import PROGRESS
from pipeline.gold.rebalance_causes import REBALANCE_CAUSES
from pipeline.gold.rebalance_stats import REBALANCE_STATS
from pipeline.gold.velocity import VELOCITY
from pipeline.report.lag_troubles import find_lag_troubles
from pipeline.report.report_tables import (
    EVERYTHING,
    ReportTables,
    Row,
    Selection,
    aggregate,
    rank_within_groups,
    sort_indices,
)
from pipeline.report.summaries import find_most_remarkable, summarise_groups, total_groups
from pipeline.report.troubles import assignors, troubles
from pipeline.silver.schemas import INGEST_FINDINGS, UNKNOWN_RECORDS
from pipeline.table import Table
from pipeline.warehouse import Warehouse

MAX_ANOMALIES: Final = 15
MAX_CLIENTS: Final = 6
MAX_PARTITIONS: Final = 8
MAX_KINDS: Final = 20
MAX_REBALANCES: Final = 10
MAX_FINDINGS: Final = 20
MAX_PLOTTED: Final = 2000
"""The most rows of a group in one plot."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class GroupDetails:
    """A group with details: `summary` as in `Gathered.summaries`, and rows of the tables by name."""

    summary: Row
    progress: list[Row] = field(default_factory=list)
    rebalances: list[Row] = field(default_factory=list)
    causes: list[Row] = field(default_factory=list)
    ownership: list[Row] = field(default_factory=list)
    anomalies: list[Row] = field(default_factory=list)
    clients: list[Row] = field(default_factory=list)
    partitions: list[Row] = field(default_factory=list)
    kinds: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class Gathered:
    """The content of the report."""

    warehouse: str
    selection: Selection
    info: Row
    start: datetime
    end: datetime
    now: datetime
    """The end of the period, or of the last measurement of the lag after it."""
    totals: Row
    groups: list[GroupDetails]
    troubles: list[Row]
    """The problems of groups that `pipeline.report.troubles` finds."""
    assignors: list[Row]
    """The moves by assignor."""
    worst_anomaly: Row | None
    anomaly_kinds: dict[str, int]
    overall: list[Row]
    findings: list[Row]
    """At most 20. Each has the total of its kind in `n_of_kind`."""
    unknown: list[Row]


def gather(warehouse: Warehouse, selection: Selection = EVERYTHING) -> Gathered:
    """Gather the content of the report.

    Raises:
        BadInput: the gold tables are missing or have another version.
    """
    warehouse.check_version()
    with ReportTables(warehouse, selection) as tables:
        return _gather(warehouse, selection, tables)


def _gather(warehouse: Warehouse, selection: Selection, tables: ReportTables) -> Gathered:
    info = next(
        row for rows in tables.gold_chunks(BUILD_INFO, BUILD_INFO.schema.names) for row in rows.to_pylist()
    )
    first, last = info["first_record_ts"] or _EPOCH, info["last_record_ts"] or _EPOCH
    start = max(first, selection.since) if selection.since else first
    end = max(start, min(last, selection.until) if selection.until else last)
    every_rebalance = tables.read(REBALANCE_STATS, is_in_period=False)
    rebalances = selection.select_period(REBALANCE_STATS, every_rebalance)
    anomalies, causes = tables.read(ANOMALIES), tables.read(REBALANCE_CAUSES)
    summaries = summarise_groups(tables, rebalances, every_rebalance, anomalies)
    details = {row["group"]: GroupDetails(row) for row in find_most_remarkable(summaries, selection.n_groups)}
    _fill(details, tables, {"rebalances": rebalances, "causes": causes, "anomalies": anomalies})
    totals = total_groups(summaries, rebalances)
    now = max(filter(None, (end, totals["measured_ts"])))
    return Gathered(
        warehouse=warehouse.root,
        selection=selection,
        info=info,
        start=start,
        end=end,
        now=now,
        totals=totals,
        groups=list(details.values()),
        troubles=troubles(
            anomalies, summaries, causes, rebalances, find_lag_troubles(tables, summaries, now)
        ),
        assignors=assignors(causes),
        worst_anomaly=_find_longest_rewind(anomalies),
        anomaly_kinds=_count_kinds(anomalies),
        overall=_sum_progress(tables, list(details)),
        findings=_select_findings(tables),
        unknown=_count_unknown(tables),
    )


def _count_kinds(anomalies: pa.Table) -> dict[str, int]:
    """Return the number of anomalies of each kind, the most frequent first."""
    counts = {row["values"]: row["counts"] for row in pc.value_counts(anomalies.column("kind")).to_pylist()}
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _find_longest_rewind(anomalies: pa.Table) -> Row | None:
    rewinds = anomalies.filter(pc.equal(anomalies.column("kind"), "offset_rewind"))
    first = sort_indices(rewinds, [("amount", True), ("log_offset", False)])[:1]
    return next(iter(rewinds.take(first).to_pylist()), None)


def _sum_progress(tables: ReportTables, shown: list[str]) -> list[Row]:
    """Return the advance by step and group; `name` is None for all groups without details together."""

    def chunks() -> Iterator[pa.Table]:
        for rows in tables.chunks(PROGRESS, ["group", "step_ts", "advance"]):
            group = rows.column("group")
            name = pc.if_else(pc.is_in(group, pa.array(shown, pa.string())), group, None)
            yield rows.drop_columns(["group"]).append_column("name", name)

    found: list[Row] = aggregate(chunks(), ["name", "step_ts"], advance="sum").to_pylist()
    return found


_DETAILS: Final[dict[str, tuple[Table, list[tuple[str, bool]], int]]] = {
    "progress": (PROGRESS, [("step_ts", False)], 100 * MAX_PLOTTED),
    "rebalances": (REBALANCE_STATS, [("log_offset", True)], MAX_PLOTTED),
    "causes": (REBALANCE_CAUSES, [("log_offset", True)], MAX_PLOTTED),
    "ownership": (OWNERSHIP, [("from_log_offset", True)], MAX_PLOTTED),
    "anomalies": (ANOMALIES, [("ts", True), ("log_offset", False)], MAX_ANOMALIES),
    "kinds": (GROUP_KINDS, [("from_log_offset", False)], MAX_KINDS),
    "clients": (COMMIT_STATS, [("commits", True)], MAX_CLIENTS),
    "partitions": (LAG, [("lag", True), ("topic", False), ("partition", False)], MAX_PARTITIONS),
}
"""By attribute of GroupDetails: the table, the order of its rows and their greatest number."""


def _fill(details: dict[str, GroupDetails], tables: ReportTables, known: dict[str, pa.Table]) -> None:
    """Add the rows of the groups with details. `known`: tables that are in memory, by attribute."""
    shown = pa.array(list(details), pa.string())
    for attribute, (table, order, limit) in _DETAILS.items():
        if attribute in known:
            rows = known[attribute].filter(pc.is_in(known[attribute].column("group"), shown))
        else:
            rows = tables.read(table, groups=list(details))
        for group, own in rank_within_groups(rows, order, limit).items():
            setattr(details[group], attribute, own)


def _select_findings(tables: ReportTables) -> list[Row]:
    """Return at most MAX_FINDINGS findings in the order of their discovery, each with the number of its kind in
    `n_of_kind`.

    The first ones of every kind come before the later ones of any, because aborted transactions may be many. An
    open transaction is left out if it has ended since: then ingest has read a record after its first offset.
    """
    columns = [name for name in INGEST_FINDINGS.schema.names if name != "ingest_batch"]
    rows = pa.concat_tables(tables.silver_chunks(INGEST_FINDINGS, columns))
    rows = rows.filter(pc.invert(_are_over(rows, _find_read_offsets(tables, rows))))
    order = [("found_ts", False), ("log_partition", False), ("first_offset", False)]
    rows = rows.take(sort_indices(rows, order))
    by_kind = Grouping(rows, ["kind"])
    places = np.zeros(len(rows), np.int64)
    for code in range(len(by_kind)):
        own = np.flatnonzero(by_kind.codes == code)
        places[own] = np.arange(len(own))
    chosen = np.sort(np.argsort(places, kind="stable")[:MAX_FINDINGS])
    found: list[Row] = rows.take(pa.array(chosen)).to_pylist()
    counts = by_kind.count()
    return [
        row | {"n_of_kind": int(counts[by_kind.codes[place]])}
        for row, place in zip(found, chosen, strict=True)
    ]


def _find_read_offsets(tables: ReportTables, findings: pa.Table) -> pa.Table:
    """Return the last read offset of each log partition, as far as the tables show."""
    columns = ["log_partition", "last_log_offset"]
    aborted = findings.filter(pc.equal(findings.column("kind"), "aborted_transaction"))
    parts = [
        aggregate(tables.gold_chunks(table, columns), ["log_partition"], last_log_offset="max")
        for table in (VELOCITY, REBALANCE_STATS)
    ]
    parts.append(
        pa.table(
            {
                "log_partition": aborted.column("log_partition"),
                "last_log_offset": aborted.column("first_offset"),
            }
        )
    )
    return aggregate(parts, ["log_partition"], last_log_offset="max")


def _are_over(findings: pa.Table, read: pa.Table) -> pa.Array:
    """Return for each finding whether it is an open transaction that has ended."""
    last = dict(zip(*(column.to_pylist() for column in read.columns), strict=True))
    is_over = [
        kind == "open_transaction" and (last.get(number) or -1) >= first
        for kind, number, first in zip(
            *(findings.column(name).to_pylist() for name in ("kind", "log_partition", "first_offset")),
            strict=True,
        )
    ]
    return pa.array(is_over, pa.bool_())


def _count_unknown(tables: ReportTables) -> list[Row]:
    """Return the number of unknown records of each key type."""
    chunks = (
        rows.append_column("n", pa.array(np.ones(len(rows), np.int64)))
        for rows in tables.silver_chunks(UNKNOWN_RECORDS, ["key_type"])
    )
    counts = aggregate(chunks, ["key_type"], n="sum")
    found: list[Row] = counts.take(sort_indices(counts, [("key_type", False)])).to_pylist()
    return found
