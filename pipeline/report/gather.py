"""Gather the content of the report from the warehouse. Its size is bounded, whatever the size of the tables.

Sums cover all selected groups; details cover only the top groups. Groups are ranked by anomalies, lag, commits and
rebalances, and the best rank in any of these counts.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from pipeline.errors import BadInput
from pipeline.gold.anomalies.anomaly_schema import ANOMALIES
from pipeline.gold.build_info import BUILD_INFO
from pipeline.gold.commit_stats import COMMIT_STATS
from pipeline.gold.group_kinds import CONSUMER, GROUP_KINDS, MIGRATED
from pipeline.gold.group_records import ASSIGNED
from pipeline.gold.lag import LAG
from pipeline.gold.ownership import OWNERSHIP
from pipeline.gold.progress import PROGRESS
from pipeline.gold.rebalance_causes import REBALANCE_CAUSES
from pipeline.gold.rebalance_stats import REBALANCE_STATS
from pipeline.gold.velocity import VELOCITY
from pipeline.report.findings import shown_findings
from pipeline.report.troubles import assignors, troubles
from pipeline.table import Table
from pipeline.warehouse import Warehouse

Row = dict[str, Any]

MAX_GROUPS: Final = 12
MAX_ANOMALIES: Final = 15
MAX_CLIENTS: Final = 6
MAX_PARTITIONS: Final = 8
MAX_KINDS: Final = 20
MAX_REBALANCES: Final = 10
MAX_PLOTTED: Final = 2000
"""The most rows of a group in one plot."""

_MEASURES: Final = ("n_anomalies", "lag", "commits", "n_rebalances")
"""A group that ranks high in one of these is shown."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TABLES: Final = (
    BUILD_INFO,
    VELOCITY,
    PROGRESS,
    LAG,
    GROUP_KINDS,
    REBALANCE_STATS,
    REBALANCE_CAUSES,
    OWNERSHIP,
    COMMIT_STATS,
    ANOMALIES,
)


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

    def within(self, start: str, end: str | None = None) -> Column:
        """Select the rows with an interval [start, end] (end NULL: open) that overlaps the period."""
        condition = sf.lit(True)
        if self.since is not None:
            last = sf.col(start) if end is None else sf.coalesce(end, sf.lit(self.since))
            condition &= last >= sf.lit(self.since)
        if self.until is not None:
            condition &= sf.col(start) < sf.lit(self.until)
        return condition

    def of_groups(self, frame: DataFrame) -> DataFrame:
        """Select the rows of the selected groups."""
        return frame if self.groups is None else frame.where(sf.col("group").isin(*self.groups))


EVERYTHING: Final = Selection()


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


def gather(spark: SparkSession, warehouse: Warehouse, selection: Selection) -> Gathered:
    """Gather the content of the report.

    Raises:
        BadInput: the gold tables are missing or have another version.
    """
    warehouse.check_version()
    whole = {table.name: _gold(spark, warehouse, table) for table in _TABLES}
    tables = {
        name: frame if name == BUILD_INFO.name else selection.of_groups(frame)
        for name, frame in whole.items()
    }
    info = _rows(tables["build_info"])[0]
    first, last = info["first_record_ts"] or _EPOCH, info["last_record_ts"] or _EPOCH
    start = max(first, selection.since) if selection.since else first
    end = max(start, min(last, selection.until) if selection.until else last)
    velocity = tables["velocity"].where(selection.within("minute"))
    rebalances = tables["rebalance_stats"].where(selection.within("record_ts"))
    anomalies = tables["anomalies"].where(selection.within("ts", "until_ts"))
    summaries = _summaries(velocity, rebalances, anomalies, tables).persist()
    try:
        totals = _rows(_totals(summaries, rebalances))[0]
        causes = tables["rebalance_causes"].where(selection.within("record_ts"))
        wrong = _rows(troubles(anomalies, summaries, causes, rebalances))
        top = _most_remarkable(summaries, selection.n_groups)
    finally:
        summaries.unpersist()
    details = {row["group"]: GroupDetails(row) for row in top}
    shown = sf.col("group").isin(*details)
    _fill(details, tables, selection, shown)
    kinds = _rows(anomalies.groupBy("kind").agg(sf.count("*").alias("n")).orderBy(sf.desc("n"), "kind"))
    back = (
        anomalies.where(sf.col("kind") == "offset_rewind").orderBy(sf.desc("amount"), "log_offset").limit(1)
    )
    overall = (
        tables["progress"]
        .where(selection.within("step_ts"))
        .withColumn("name", sf.when(shown, sf.col("group")))
    )
    findings = shown_findings(
        warehouse.silver(spark, "ingest_findings"), whole["velocity"], whole["rebalance_stats"]
    )
    unknown = warehouse.silver(spark, "unknown_records").groupBy("key_type").agg(sf.count("*").alias("n"))
    return Gathered(
        warehouse=warehouse.root,
        selection=selection,
        info=info,
        start=start,
        end=end,
        totals=totals,
        groups=list(details.values()),
        troubles=wrong,
        assignors=_rows(assignors(causes)),
        worst_anomaly=next(iter(_rows(back)), None),
        anomaly_kinds={row["kind"]: row["n"] for row in kinds},
        overall=_rows(overall.groupBy("name", "step_ts").agg(sf.sum("advance").alias("advance"))),
        findings=_rows(findings),
        unknown=_rows(unknown.orderBy("key_type")),
    )


def _gold(spark: SparkSession, warehouse: Warehouse, table: Table) -> DataFrame:
    frame = warehouse.gold(spark, table.name)
    for column, _ in table.columns:
        if column not in frame.columns:
            raise BadInput(f"{warehouse.path(table.name)}: has no column {column}: build the tables anew")
    return frame


def _summaries(
    velocity: DataFrame, rebalances: DataFrame, anomalies: DataFrame, tables: dict[str, DataFrame]
) -> DataFrame:
    """Return one row for each group."""
    sums = ("commits", "unmoved_commits", "rewinds", "transactional_commits", "advance")
    consumed = velocity.groupBy("group").agg(
        *(sf.sum(name).alias(name) for name in sums), sf.sum("elapsed_s").alias("elapsed_s")
    )
    joined = rebalances.groupBy("group").agg(
        sf.count_if(sf.col("kind") == "rebalance").alias("n_rebalances"),
        sf.count_if(sf.col("kind") == "emptied").alias("n_emptied"),
        sf.max(sf.when(~sf.col("pause_spans_empty"), sf.col("consumption_pause_ms"))).alias(
            "longest_pause_ms"
        ),
    )
    state = (
        tables["rebalance_stats"]
        .groupBy("group")
        .agg(
            sf.max_by("n_members", "log_offset").alias("n_members"),
            sf.max_by(sf.coalesce("ended_by", sf.lit(ASSIGNED)), "log_offset").alias("ended_by"),
            sf.max_by("protocol", "log_offset").alias("protocol"),
        )
    )
    behind = (
        tables["lag"]
        .groupBy("group")
        .agg(
            sf.sum("lag").alias("lag"),
            sf.sum("lost").alias("lost"),
            sf.count("*").alias("n_partitions"),
            sf.count("lag").alias("n_measured"),
            sf.min("unread_since_ts").alias("unread_since_ts"),
            sf.max("measured_ts").alias("measured_ts"),
            sf.max("commit_ts").alias("last_commit_ts"),
        )
    )
    odd = anomalies.groupBy("group").agg(
        sf.count("*").alias("n_anomalies"),
        sf.count_if(sf.col("kind") == "expiring_offsets").alias("n_expiring"),
    )
    kinds = (
        tables["group_kinds"]
        .groupBy("group")
        .agg(
            sf.max_by("kind", "from_log_offset").alias("group_kind"),
            sf.count_if(sf.col("ended_by") == MIGRATED).alias("n_migrations"),
        )
    )
    parts = (consumed, joined, state, kinds, behind, odd)
    # Each part has at most one row for a group, so a maximum over the union replaces four more expensive joins.
    united = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    names = [name for name in united.columns if name != "group"]
    all_of_them = united.groupBy("group").agg(*(sf.max(name).alias(name) for name in names))
    zero = (
        *sums,
        "n_migrations",
        "n_rebalances",
        "n_emptied",
        "n_anomalies",
        "n_expiring",
        "n_partitions",
        "n_measured",
    )
    return all_of_them.fillna(0, subset=list(zero))


def _most_remarkable(summaries: DataFrame, limit: int) -> list[Row]:
    """Return `limit` groups by their best rank in any measure; groups without a measure come last.

    A group outside of the first `limit` of every measure cannot be among them, so only the others are compared.
    """
    rest = [sf.desc(name) for name in _MEASURES]
    tops = [
        summaries.where(sf.col(name) > 0).orderBy(sf.desc(name), "group").limit(limit) for name in _MEASURES
    ]
    tops.append(summaries.orderBy(*rest, "group").limit(limit))
    found = _rows(reduce(DataFrame.unionByName, tops).distinct())
    places: dict[str, int] = {}
    for name in _MEASURES:
        ranked = sorted((row for row in found if row[name]), key=lambda row: (-row[name], row["group"]))
        for place, row in enumerate(ranked[:limit]):
            places[row["group"]] = min(place, places.get(row["group"], place))

    def order(row: Row) -> tuple[Any, ...]:
        return places.get(row["group"], limit), *(-(row[name] or 0) for name in _MEASURES), row["group"]

    return sorted(found, key=order)[:limit]


def _totals(summaries: DataFrame, rebalances: DataFrame) -> DataFrame:
    """Return one row for all groups together."""
    sums = (
        "commits", "unmoved_commits", "rewinds", "transactional_commits", "advance", "lag", "lost",
        "n_rebalances", "n_emptied", "n_anomalies", "n_partitions", "n_measured",
    )  # fmt: skip
    quickest = rebalances.agg(
        sf.median("sync_ms").alias("median_sync_ms"),
        sf.max("sync_ms").alias("longest_sync_ms"),
        sf.median("convergence_ms").alias("median_convergence_ms"),
        sf.max("convergence_ms").alias("longest_convergence_ms"),
    )
    return summaries.agg(
        sf.count("*").alias("n_groups"),
        *(sf.coalesce(sf.sum(name), sf.lit(0)).alias(name) for name in sums),
        sf.count_if(sf.col("commits") > 0).alias("n_committing"),
        sf.count_if(sf.col("n_rebalances") > 0).alias("n_rebalancing"),
        sf.count_if(sf.col("n_members") > 0).alias("n_with_members"),
        sf.count_if(sf.col("n_members") == 0).alias("n_empty"),
        sf.count_if(sf.col("n_members").isNull()).alias("n_simple"),
        sf.count_if(sf.col("group_kind") == CONSUMER).alias("n_consumer_groups"),
        sf.sum("n_migrations").alias("n_migrations"),
        sf.count_if(sf.col("n_anomalies") > 0).alias("n_odd"),
        sf.count_if(sf.col("n_expiring") > 0).alias("n_expiring"),
        sf.max("longest_pause_ms").alias("longest_pause_ms"),
        sf.max_by("group", "longest_pause_ms").alias("longest_pause_group"),
        sf.max_by("group", "commits").alias("busiest_group"),
        sf.max("commits").alias("busiest_commits"),
        sf.max_by("advance", "commits").alias("busiest_advance"),
        sf.max_by("group", "unmoved_commits").alias("idlest_group"),
        sf.max("unmoved_commits").alias("idlest_commits"),
        sf.max_by("group", "lag").alias("laggard"),
        sf.max("lag").alias("laggard_lag"),
        sf.max_by("group", "n_rebalances").alias("restless_group"),
        sf.max("n_rebalances").alias("restless_rebalances"),
        sf.min("unread_since_ts").alias("unread_since_ts"),
        sf.max("measured_ts").alias("measured_ts"),
        sf.slice(
            sf.array_sort(sf.collect_set(sf.when(sf.col("n_members") == 0, sf.col("group")))), 1, 100
        ).alias("empty_groups"),
    ).crossJoin(quickest)


def _fill(
    details: dict[str, GroupDetails], tables: dict[str, DataFrame], selection: Selection, shown: Column
) -> None:
    """Add the rows of the groups with details."""
    within = {
        "progress": selection.within("step_ts"),
        "rebalance_stats": selection.within("record_ts"),
        "rebalance_causes": selection.within("record_ts"),
        "ownership": selection.within("from_ts", "to_ts"),
        "anomalies": selection.within("ts", "until_ts"),
    }
    chosen: dict[str, tuple[str, list[Column | str], int]] = {
        "progress": ("progress", ["step_ts"], 100 * MAX_PLOTTED),
        "rebalance_stats": ("rebalances", [sf.desc("log_offset")], MAX_PLOTTED),
        "rebalance_causes": ("causes", [sf.desc("log_offset")], MAX_PLOTTED),
        "ownership": ("ownership", [sf.desc("from_log_offset")], MAX_PLOTTED),
        "anomalies": ("anomalies", [sf.desc("ts"), "log_offset"], MAX_ANOMALIES),
        "group_kinds": ("kinds", ["from_log_offset"], MAX_KINDS),
        "commit_stats": ("clients", [sf.desc("commits")], MAX_CLIENTS),
        "lag": ("partitions", [sf.desc("lag"), "topic", "partition"], MAX_PARTITIONS),
    }
    for table, (attribute, order, limit) in chosen.items():
        frame = tables[table].where(shown & within.get(table, sf.lit(True)))
        place = sf.row_number().over(Window.partitionBy("group").orderBy(*order))
        ranked = frame.withColumn("place", place).where(sf.col("place") <= limit)
        for group, rows in _by_group(_rows(ranked.orderBy("group", "place"))).items():
            setattr(details[group], attribute, rows)


def _by_group(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["group"]].append(row)
    return found


def _rows(frame: DataFrame) -> list[Row]:
    rows: list[Row] = frame.toArrow().to_pylist()
    return rows
