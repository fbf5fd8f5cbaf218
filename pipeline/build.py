"""Derive all gold tables of a warehouse from silver.

A build determines the period and the consumed partitions, measures log ends, and makes one pass over the history
(`pipeline.group_pass`), which yields the rows of every group. `pipeline.gold.across_groups` derives the tables that
span groups from parts of these. A build does not read commits of earlier builds again, because it keeps their folds
(`pipeline.fold_checkpoint`). Each complete table replaces its predecessor.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.fold_checkpoint import (
    FoldCheckpoint,
    delete_unused_folds,
    read_checkpoint,
    replace_checkpoint,
)
from pipeline.gold.across_groups import AcrossGroups
from pipeline.gold.anomalies.anomaly_schema import ANOMALIES
from pipeline.gold.build_info import BUILD_INFO, RECORD_TOTALS, TOTALS, build_info
from pipeline.gold.commit_history import LAST_COMMITS, PARTITION_OF_GROUP
from pipeline.gold.commit_stats import COMMIT_STATS
from pipeline.gold.group_kinds import GROUP_KINDS
from pipeline.gold.group_tables import Moment
from pipeline.gold.grouping import Grouping
from pipeline.gold.lag import LAG
from pipeline.gold.latest_offsets import LATEST_OFFSETS
from pipeline.gold.log_end_offsets import LOG_END_OFFSETS
from pipeline.gold.ownership import OWNERSHIP
from pipeline.gold.progress import PROGRESS, grain_s, step_length_s
from pipeline.gold.rebalance_causes import REBALANCE_CAUSES
from pipeline.gold.rebalance_stats import REBALANCE_STATS
from pipeline.gold.velocity import VELOCITY
from pipeline.group_pass import (
    PIECES,
    RECORD_TABLES,
    GroupPass,
    encode_rows,
    pass_rows,
    piece_tables,
    run_pass,
)
from pipeline.lock import BUILD, alone, reading
from pipeline.log_ends.cluster import SOURCE as LIVE
from pipeline.log_ends.file import SOURCE as FILE
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.measure import Measure, measure_nothing
from pipeline.log_ends.snapshot import Snapshot
from pipeline.progress import Step
from pipeline.silver.schemas import COMMITS
from pipeline.table import Table
from pipeline.table_files import TableFiles
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
"""The tables by name in build order. `build_info` is last and marks the others as complete."""

N_STEPS: Final = len(GOLD) + 1
"""The number of steps of a build: the pass over the history, and each table."""

RETENTION_MINUTES: Final = 10080


KEEP_FROM: Final = 200_000
"""The number of records."""

_SCOPE: Final = Table.declare(
    "scope",
    """
    log_partition int
    group string
    topic string
    partition int
    log_offset bigint
    tombstone boolean
    first_record_ts timestamp
    last_record_ts timestamp
    n bigint
    """,
)
"""The last commit of each group and partition, as needed before the pass, and periods."""

_ROWS_OF_A_TASK: Final = 500_000
"""The number of commits that one task sorts in memory."""


class Built(NamedTuple):
    """A built table."""

    name: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """The settings of a build.

    `measure`: returns log ends. `retention_minutes`: `offsets.retention.minutes` of the cluster, which determines
    the expiry of offsets. `full`: fold all commits again instead of reusing folds of earlier builds; the tables are
    the same. `keep_from`: the number of records from which folds are kept for the next build. `on_step` is called
    before the commits are folded and before each table, `on_table` after each table.
    """

    measure: Measure = measure_nothing
    retention_minutes: int = RETENTION_MINUTES
    full: bool = False
    keep_from: int = KEEP_FROM
    on_step: Callable[[Step], None] = lambda _: None
    on_table: Callable[[Built], None] = lambda _: None


def build(spark: SparkSession, warehouse: Warehouse, settings: BuildSettings = BuildSettings()) -> None:
    """Replace all gold tables of a warehouse.

    Raises:
        BadInput: another build is running, or `measure` failed; no table has changed.
    """
    warehouse.check_version()
    with alone(warehouse, BUILD) as is_alone, reading(warehouse):
        if is_alone:
            warehouse.clear_scratch()
            delete_unused_folds(warehouse)
        _build(spark, warehouse, settings)


def _build(spark: SparkSession, warehouse: Warehouse, settings: BuildSettings) -> None:
    settings.on_step(Step(1, N_STEPS, "history"))
    through_batch = max(warehouse.complete_batches(), default=0)
    records = {name: warehouse.silver(spark, name, through_batch) for name in RECORD_TABLES}
    before = None if settings.full else read_checkpoint(warehouse)
    folds = None if before is None else spark.read.schema(PIECES).parquet(warehouse.path(before.place))
    done = 0 if before is None else before.through_batch
    commits = warehouse.silver(spark, COMMITS.name, through_batch).where(sf.col("ingest_batch") > done)

    scope = _find_scope(commits, records, folds)
    period = scope.period
    snapshot = warehouse.snapshot(through_batch) or Snapshot(period.end_ms, {})
    measured = list(settings.measure(scope.partitions, period, snapshot)) if scope.partitions else []
    as_of_ms = max([period.end_ms, *(end.at_ms for end in measured if end.source == LIVE)])
    moment = Moment(as_of_ms * 1000, period.step_s, settings.retention_minutes)

    is_kept = before is not None or scope.n_commits >= settings.keep_from
    after = FoldCheckpoint.create(through_batch, grain_s(period.step_s)) if is_kept else None
    ends = LOG_END_OFFSETS.from_rows(_row(end) for end in measured)
    turn = GroupPass(moment, encode_rows(ends), grain_s(period.step_s), is_kept)
    tasks = max(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), scope.n_commits // _ROWS_OF_A_TASK)
    result = run_pass(pass_rows(commits, records, folds), tasks, turn).persist(StorageLevel.DISK_ONLY)
    try:
        if after is None:
            result.write.format("noop").mode("overwrite").save()
        else:
            result.where("bucket is not null").write.parquet(warehouse.path(after.place))
        replace_checkpoint(warehouse, after)
        with TableFiles(warehouse) as files:
            _write_tables(piece_tables(result.where("bucket is null")), files, measured, snapshot, moment)
            _publish(files, warehouse, settings)
    finally:
        result.unpersist()


class _Scope(NamedTuple):
    """The extent of a build."""

    period: Period
    """From the first to the last record; a single instant without records."""
    partitions: list[TopicPartition]
    """The partitions with a committed offset."""
    n_commits: int
    """The number of commits to read."""


def _find_scope(commits: DataFrame, records: Mapping[str, DataFrame], folds: DataFrame | None) -> _Scope:
    """Determine the scope with one query and from the folds of earlier commits."""
    times = [records[name].select("record_ts") for name in ("group_generations", "group_epochs")]
    parts = [commits.select(*PARTITION_OF_GROUP, "log_offset", "tombstone", "record_ts"), *times]
    whole = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    query = whole.groupBy(*PARTITION_OF_GROUP).agg(
        sf.max_by("tombstone", "log_offset").alias("tombstone"),
        sf.max("log_offset").alias("log_offset"),
        sf.min("record_ts").alias("first_record_ts"),
        sf.max("record_ts").alias("last_record_ts"),
        sf.count("log_offset").alias("n"),
    )
    found = [_SCOPE.select(query.toArrow())]
    if folds is not None:
        kept = folds.where(sf.col("name").isin(TOTALS.name, LAST_COMMITS.name))
        found += [_SCOPE.select(table) for _, table in piece_tables(kept)]
    rows = pa.concat_tables(found)
    last = rows.take(Grouping(rows, PARTITION_OF_GROUP).last("log_offset"))
    consumed = Grouping(last.filter(pc.invert(last.column("tombstone"))), ("topic", "partition")).groups
    times_ms = [pc.min(rows.column("first_record_ts")), pc.max(rows.column("last_record_ts"))]
    start_ms, end_ms = (0 if time.value is None else time.value // 1000 for time in times_ms)
    return _Scope(
        Period(start_ms, end_ms, step_length_s((end_ms - start_ms) / 1000)),
        [TopicPartition(row["topic"], row["partition"]) for row in consumed.to_pylist()],
        int(pc.sum(found[0].column("n")).as_py() or 0),
    )


def _row(end: LogEnd) -> dict[str, object]:
    return end._asdict() | {"at_ts": end.at_ms * 1000}


def _write_tables(
    found: Iterable[tuple[str, pa.Table]],
    files: TableFiles,
    measured: list[LogEnd],
    snapshot: Snapshot,
    moment: Moment,
) -> None:
    """Write the rows of every gold table to its file."""
    across = AcrossGroups()
    for name, rows in found:
        if name in GOLD:
            files.append(GOLD[name], rows)
        across.add(name, rows)
    end_rows = [_row(end) for end in measured]
    files.append(LOG_END_OFFSETS, LOG_END_OFFSETS.from_rows(end_rows))
    for table, rows in across.tables(moment.as_of_us):
        files.append(table, rows)
    lag_ms = _instant_of_lag(measured, snapshot)
    info = build_info(
        across.rows(TOTALS.table),
        across.rows(RECORD_TOTALS),
        end_rows,
        built_ts=int(time.time() * 1000) * 1000,
        as_of_ts=moment.as_of_us,
        lag_ts=None if lag_ms is None else lag_ms * 1000,
        step_s=moment.step_s,
        retention_minutes=moment.retention_minutes,
    )
    files.append(BUILD_INFO, BUILD_INFO.from_rows([info]))


def _publish(files: TableFiles, warehouse: Warehouse, settings: BuildSettings) -> None:
    for number, table in enumerate(GOLD.values(), start=2):
        began_s = time.monotonic()
        settings.on_step(Step(number, N_STEPS, table.name))
        n_rows = files.publish(table, warehouse.gold_file(table.name))
        settings.on_table(Built(table.name, n_rows, time.monotonic() - began_s))


def _instant_of_lag(measured: list[LogEnd], snapshot: Snapshot) -> int | None:
    """Return the time of the snapshot, or of the last measurement in a file, which has its own times."""
    if not measured:
        return None
    return max((end.at_ms for end in measured if end.source == FILE), default=snapshot.instant_ms)
