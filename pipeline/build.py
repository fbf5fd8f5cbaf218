"""Deriving every gold table from silver.

Of a log, nearly all is commits. These are folded: a build reads the ones that are new, goes on with what earlier
builds kept of the others, and keeps that (`pipeline.folding`). What else is in the log is little, and looked at
whole each time. So is gold, which is made of both: each table replaces its predecessor when it is done.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from pipeline.folding import KEEP_FROM, Folded, GroupTables, clear, folded
from pipeline.gold.anomalies.abandoned_group import abandoned_group
from pipeline.gold.anomalies.anomaly_schema import ANOMALIES
from pipeline.gold.anomalies.expiring_offsets import expiring_offsets
from pipeline.gold.anomalies.flapping_group import flapping_group
from pipeline.gold.anomalies.mixed_commits import mixed_commits
from pipeline.gold.anomalies.offset_rewind import offset_rewind
from pipeline.gold.anomalies.outside_ownership import outside_ownership
from pipeline.gold.anomalies.rebalance_storm import rebalance_storm
from pipeline.gold.anomalies.regular_leaving import regular_leaving
from pipeline.gold.anomalies.slow_revocation import slow_revocation
from pipeline.gold.anomalies.stuck_partition import stuck_partition
from pipeline.gold.build_info import BUILD_INFO, build_info
from pipeline.gold.commit_stats import COMMIT_STATS, commit_stats
from pipeline.gold.consumer_history import (
    EVENTS,
    consumer_history,
    consumer_ownership,
    consumer_rebalances,
    consumer_standing,
    revocations,
)
from pipeline.gold.group_kinds import GROUP_KINDS, group_kinds
from pipeline.gold.lag import LAG, lag
from pipeline.gold.latest_offsets import LATEST_OFFSETS, latest_offsets
from pipeline.gold.log_end_offsets import LOG_END_OFFSETS
from pipeline.gold.ownership import OWNERSHIP, ownership
from pipeline.gold.progress import PROGRESS, progress
from pipeline.gold.rebalance_causes import REBALANCE_CAUSES, rebalance_causes
from pipeline.gold.rebalance_stats import REBALANCE_STATS, rebalance_stats
from pipeline.gold.velocity import VELOCITY, velocity
from pipeline.lock import BUILD, alone, reading
from pipeline.log_ends.cluster import SOURCE as LIVE
from pipeline.log_ends.file import SOURCE as FILE
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.measure import Measure, measure_nothing
from pipeline.log_ends.snapshot import Snapshot
from pipeline.progress import Step
from pipeline.table import Table
from pipeline.warehouse import Warehouse
from storage.topic_partition import TopicPartition

GOLD: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        LATEST_OFFSETS,
        LOG_END_OFFSETS,
        LAG,
        VELOCITY,
        PROGRESS,
        GROUP_KINDS,
        OWNERSHIP,
        REBALANCE_STATS,
        REBALANCE_CAUSES,
        COMMIT_STATS,
        ANOMALIES,
        BUILD_INFO,
    )
}
"""By name, in the order in which they are built; `build_info` is last and says that the others are there."""

N_STEPS: Final = len(GOLD) + 1
"""Of a build: the commits, and each table."""

RETENTION_MINUTES: Final = 10080


class Silver(NamedTuple):
    """The silver tables that gold is made from."""

    commits: DataFrame
    group_generations: DataFrame
    members: DataFrame
    assignments: DataFrame
    group_epochs: DataFrame
    consumer_members: DataFrame
    member_epochs: DataFrame
    member_partitions: DataFrame
    group_expressions: DataFrame


class Built(NamedTuple):
    """One table as it was built."""

    name: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How to build.

    `measure`: where log ends come from. `retention_minutes`: `offsets.retention.minutes` of the cluster, which
    says when offsets expire. `full`: all commits are folded anew, as if nothing was kept of earlier builds; the
    tables are the same. `keep_from`: from how many records on what is folded is kept for the next build.
    `on_step` is called before the commits are folded and before each table, `on_table` after each table.
    """

    measure: Measure = measure_nothing
    retention_minutes: int = RETENTION_MINUTES
    full: bool = False
    keep_from: int = KEEP_FROM
    on_step: Callable[[Step], None] = lambda _: None
    on_table: Callable[[Built], None] = lambda _: None


def build(spark: SparkSession, warehouse: Warehouse, settings: BuildSettings = BuildSettings()) -> None:
    """Replaces all gold tables of a warehouse. Raises BadInput, when another build is at it and from `measure`, in
    both cases before any table is replaced."""
    warehouse.check_version()
    with alone(warehouse, BUILD) as is_alone, reading(warehouse):
        if is_alone:
            warehouse.clear_scratch()
            clear(warehouse)
        _build(spark, warehouse, settings)


def _build(spark: SparkSession, warehouse: Warehouse, settings: BuildSettings) -> None:
    through_batch = max(warehouse.complete_batches(), default=0)
    silver = Silver(*(warehouse.silver(spark, name, through_batch) for name in Silver._fields))
    groups = GroupTables(silver.group_generations, silver.members, silver.assignments)
    others = [silver.group_epochs]
    settings.on_step(Step(1, N_STEPS, "commits"))
    with (
        folded(
            spark,
            warehouse,
            silver.commits,
            groups,
            others,
            through_batch,
            from_the_first=settings.full,
            keep_from=settings.keep_from,
        ) as commits,
        warehouse.written_down(spark, EVENTS.name, consumer_history(silver._asdict())) as consumers,
    ):
        period = commits.period
        latest = latest_offsets(commits.last_commits)
        snapshot = warehouse.snapshot(through_batch) or Snapshot(period.end_ms, {})
        measured = _measure(latest, period, snapshot, settings.measure)
        now_ms = max([period.end_ms, *(end.at_ms for end in measured if end.source == LIVE)])

        def put(table: Table, frame: DataFrame) -> DataFrame:
            began = time.monotonic()
            settings.on_step(Step(list(GOLD).index(table.name) + 2, N_STEPS, table.name))
            counter = Observation()
            warehouse.replace_gold(table.name, frame.observe(counter, sf.count(sf.lit(1)).alias("rows")))
            settings.on_table(Built(table.name, counter.get["rows"], time.monotonic() - began))
            return warehouse.gold(spark, table.name, table.ddl)

        latest = put(LATEST_OFFSETS, latest)
        ends = put(LOG_END_OFFSETS, _ends_frame(spark, measured))
        _build_rest(
            silver,
            latest,
            commits,
            consumers,
            ends,
            _Now(period, now_ms, _instant_of_lag(measured, snapshot), settings.retention_minutes),
            put,
        )


class _Now(NamedTuple):
    """When this is."""

    period: Period
    now_ms: int
    lag_ms: int | None
    """Of which instant the lag is, None where no log end is known."""
    retention_minutes: int

    @property
    def ts(self) -> Column:
        return sf.timestamp_millis(sf.lit(self.now_ms))

    @property
    def lag_ts(self) -> Column:
        return sf.timestamp_millis(sf.lit(self.lag_ms).cast("bigint"))


def _build_rest(
    silver: Silver,
    latest: DataFrame,
    commits: Folded,
    consumers: DataFrame,
    ends: DataFrame,
    now: _Now,
    put: Callable[[Table, DataFrame], DataFrame],
) -> None:
    records, members = silver.group_generations, silver.members
    behind = put(LAG, lag(latest, ends))
    put(VELOCITY, velocity(commits.minutes))
    put(PROGRESS, progress(commits.consumed, commits.positions, ends, now.period.step_s))
    put(GROUP_KINDS, group_kinds(records, silver.group_epochs))
    holdings = consumer_ownership(consumers, latest, silver.group_epochs)
    owners = put(OWNERSHIP, ownership(records, members, silver.assignments, holdings))
    rebalances = put(
        REBALANCE_STATS,
        rebalance_stats(records, members, commits.commits_after, consumer_rebalances(consumers)),
    )
    causes = put(REBALANCE_CAUSES, rebalance_causes(silver._asdict()))
    put(COMMIT_STATS, commit_stats(commits.clients))
    kinds = [
        offset_rewind(commits.rewinds),
        outside_ownership(commits.unowned, records, members),
        mixed_commits(commits.mixtures),
        stuck_partition(commits.habits, behind, owners, now.ts),
        slow_revocation(revocations(consumers), now.ts),
        rebalance_storm(rebalances),
        flapping_group(rebalances),
        regular_leaving(causes),
        abandoned_group(rebalances, behind, ends, now.ts),
        expiring_offsets(
            latest, records, members, consumer_standing(consumers), now.retention_minutes, now.ts
        ),
    ]
    put(ANOMALIES, reduce(DataFrame.unionByName, kinds))
    info = build_info(
        commits.totals,
        records,
        ends,
        built_ts=sf.timestamp_millis(sf.lit(int(time.time() * 1000))),
        as_of_ts=now.ts,
        lag_ts=now.lag_ts,
        step_s=now.period.step_s,
        retention_minutes=now.retention_minutes,
    )
    put(BUILD_INFO, info)


def _measure(latest: DataFrame, period: Period, snapshot: Snapshot, measure: Measure) -> list[LogEnd]:
    found = latest.select("topic", "partition").distinct().collect()
    partitions = [TopicPartition(row["topic"], row["partition"]) for row in found]
    return list(measure(partitions, period, snapshot)) if partitions else []


def _instant_of_lag(measured: list[LogEnd], snapshot: Snapshot) -> int | None:
    """That of the snapshot; of a file, which was made at another time, that of its last measurement."""
    if not measured:
        return None
    return max((end.at_ms for end in measured if end.source == FILE), default=snapshot.instant_ms)


def _ends_frame(spark: SparkSession, measured: list[LogEnd]) -> DataFrame:
    table = pa.Table.from_pylist(
        [end._asdict() for end in measured],
        pa.schema(
            [
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("at_ms", pa.int64()),
                ("log_start_offset", pa.int64()),
                ("log_end_offset", pa.int64()),
                ("source", pa.string()),
            ]
        ),
    )
    frame = spark.createDataFrame(table)
    return LOG_END_OFFSETS.shape(frame.withColumn("at_ts", sf.timestamp_millis("at_ms")))
