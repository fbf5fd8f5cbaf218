"""Derive all gold tables of a warehouse from silver.

A build determines the period and the consumed partitions, measures log ends, and makes one pass over the history
(`pipeline.group_pass`), which yields the rows of every group. `pipeline.gold.across_groups` derives the tables that
span groups from parts of these. A build does not read commits of earlier builds again, because it keeps their folds
(`pipeline.fold_checkpoint`). Each complete table replaces its predecessor.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from pipeline.fold_checkpoint import (
    FoldCheckpoint,
    delete_unused_folds,
    read_checkpoint,
    replace_checkpoint,
)
from pipeline.gold.across_groups import AcrossGroups
from pipeline.gold.anomalies.anomaly_schema import ANOMALIES
from pipeline.gold.build_info import BUILD_INFO, RECORD_TOTALS, TOTALS, build_info
from pipeline.gold.commit_history import PARTITION_OF_GROUP
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
from pipeline.group_pass import GroupPass, encode_rows
from pipeline.history import History, LocalHistory, SparkHistory, is_small
from pipeline.lock import BUILD, alone, reading
from pipeline.log_ends.cluster import SOURCE as LIVE
from pipeline.log_ends.file import SOURCE as FILE
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.measure import Measure, measure_nothing
from pipeline.log_ends.snapshot import Snapshot
from pipeline.progress import Step
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
    the same. `keep_from`: the number of records from which Spark makes the pass and folds are kept. `on_step` is
    called before the pass and before each table, `on_table` after each table.
    """

    measure: Measure = measure_nothing
    retention_minutes: int = RETENTION_MINUTES
    full: bool = False
    keep_from: int = KEEP_FROM
    on_step: Callable[[Step], None] = lambda _: None
    on_table: Callable[[Built], None] = lambda _: None


def build(
    get_spark: Callable[[], SparkSession], warehouse: Warehouse, settings: BuildSettings = BuildSettings()
) -> None:
    """Replace all gold tables of a warehouse. Start Spark with `get_spark` unless the history is small.

    Raises:
        BadInput: another build is running, or `measure` failed; no table has changed.
    """
    warehouse.check_version()
    with alone(warehouse, BUILD) as is_alone, reading(warehouse):
        if is_alone:
            warehouse.clear_scratch()
            delete_unused_folds(warehouse)
        _build(get_spark, warehouse, settings)


def _build(get_spark: Callable[[], SparkSession], warehouse: Warehouse, settings: BuildSettings) -> None:
    settings.on_step(Step(1, N_STEPS, "history"))
    through_batch = max(warehouse.complete_batches(), default=0)
    before = None if settings.full else read_checkpoint(warehouse)
    is_kept = before is not None or not is_small(warehouse, settings.keep_from)
    history: History = (
        SparkHistory(get_spark(), warehouse, through_batch, before) if is_kept else LocalHistory(warehouse)
    )
    scope = _find_scope(history.scope_rows())
    period = scope.period
    taken = warehouse.snapshot(through_batch)
    snapshot = taken or Snapshot(period.end_ms, {})
    measured = list(settings.measure(scope.partitions, period, snapshot)) if scope.partitions else []
    # Records later than the snapshot come from a clock that was ahead. It must not age other groups.
    last_ms = period.end_ms if taken is None else min(period.end_ms, taken.instant_ms)
    as_of_ms = max([last_ms, *(end.at_ms for end in measured if end.source == LIVE)])
    moment = Moment(as_of_ms * 1000, period.step_s, settings.retention_minutes)
    ends = LOG_END_OFFSETS.from_rows(_row(end) for end in measured)
    after = FoldCheckpoint.create(through_batch, grain_s(period.step_s)) if is_kept else None
    turn = GroupPass(moment, encode_rows(ends), grain_s(period.step_s), is_kept)
    with history.run(turn, scope.n_commits, after) as found:
        replace_checkpoint(warehouse, after)
        with TableFiles(warehouse) as files:
            _write_tables(found, files, measured, snapshot, moment)
            _publish(files, warehouse, settings)


class _Scope(NamedTuple):
    """The extent of a build."""

    period: Period
    """From the first to the last record; a single instant without records."""
    partitions: list[TopicPartition]
    """The partitions with a committed offset."""
    n_commits: int
    """The number of commits to read."""


def _find_scope(rows: pa.Table) -> _Scope:
    """Determine the scope from rows of `pipeline.history.SCOPE`."""
    last = rows.take(Grouping(rows, PARTITION_OF_GROUP).last("log_offset"))
    consumed = Grouping(last.filter(pc.invert(last.column("tombstone"))), ("topic", "partition")).groups
    times_ms = [pc.min(rows.column("first_record_ts")), pc.max(rows.column("last_record_ts"))]
    start_ms, end_ms = (0 if time.value is None else time.value // 1000 for time in times_ms)
    return _Scope(
        Period(start_ms, end_ms, step_length_s((end_ms - start_ms) / 1000)),
        [TopicPartition(row["topic"], row["partition"]) for row in consumed.to_pylist()],
        int(pc.sum(rows.column("n")).as_py() or 0),
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
