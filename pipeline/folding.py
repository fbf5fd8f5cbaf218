"""What a build keeps of the commits, so that the next one reads only those that are new.

    _folds/current.json     which of the directories counts, and what is in it
    _folds/<name>/<fold>/   Parquet: the folds of all commits up to a batch, and the last commits

A directory is written whole before `current.json` names it, by one rename, and is never changed. A build that is
killed leaves the old one in force, and its own, which the next build removes. Where nothing is kept, or by another
version of the folds, or when asked to, all commits are folded from the first one on. Of a small log nothing is
kept.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import Final, NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from pipeline.gold.anomalies.mixed_commits import MIXTURES
from pipeline.gold.anomalies.offset_rewind import REWINDS
from pipeline.gold.anomalies.outside_ownership import UNOWNED
from pipeline.gold.anomalies.stuck_partition import HABITS
from pipeline.gold.build_info import TOTALS
from pipeline.gold.cells import cells
from pipeline.gold.commit_history import LAST_COMMITS, commit_history, last_commits, with_writers, writers
from pipeline.gold.commit_stats import CLIENTS
from pipeline.gold.group_records import GROUP
from pipeline.gold.progress import CONSUMED, POSITIONS, grain_s, in_longer_steps, step_length_s
from pipeline.gold.rebalance_stats import COMMITS_AFTER
from pipeline.gold.velocity import MINUTES
from pipeline.kept import CURRENT, VERSION, Kept, kept
from pipeline.log_ends.log_end import Period
from pipeline.warehouse import FOLDS, Warehouse

KEEP_FROM: Final = 200_000
"""Records."""

_TASKS: Final = "spark.sql.shuffle.partitions"
_WHOLE_KEYS: Final = "spark.sql.requireAllClusterKeysForCoPartition"
_ROWS_A_TASK: Final = 500_000
"""Of commits, in a shuffle: what one task sorts in memory."""


class GroupTables(NamedTuple):
    """Silver tables of classic groups."""

    group_generations: DataFrame
    members: DataFrame
    assignments: DataFrame


class Folded(NamedTuple):
    """All commits, folded."""

    period: Period
    """Of all records, from the first to the last; a single instant when there is none."""
    last_commits: DataFrame
    minutes: DataFrame
    consumed: DataFrame
    positions: DataFrame
    commits_after: DataFrame
    clients: DataFrame
    unowned: DataFrame
    habits: DataFrame
    totals: DataFrame
    rewinds: DataFrame
    mixtures: DataFrame


OF_CELLS: Final = (MINUTES, CONSUMED, POSITIONS, COMMITS_AFTER, CLIENTS, UNOWNED, HABITS, TOTALS)
OF_ODD_COMMITS: Final = (REWINDS, MIXTURES)
ALL: Final = (*OF_CELLS, *OF_ODD_COMMITS)
IN_STEPS: Final = (CONSUMED, POSITIONS)
assert [fold.name for fold in ALL] == list(Folded._fields[2:])


def clear(warehouse: Warehouse) -> None:
    """Removes what interrupted builds left; for one who knows that no other build is running."""
    current = kept(warehouse)
    for name in warehouse.directory.names(FOLDS):
        place = f"{FOLDS}/{name}"
        if place != CURRENT and (current is None or place != current.place):
            warehouse.directory.delete(place)


@contextmanager
def folded(
    spark: SparkSession, warehouse: Warehouse, commits: DataFrame, groups: GroupTables, others: list[DataFrame],
    through_batch: int, *, from_the_first: bool = False, keep_from: int = KEEP_FROM,
) -> Iterator[Folded]:  # fmt: skip
    """All commits up to a batch, folded; what is new of them is read, and kept for the next time.

    In: silver `commits` and tables of groups up to that batch, further ones whose records count for the period;
    whether to fold anew what was folded before; from how many records on what is folded is kept: to fold a few anew
    takes less than to write it down. What the frames read is there for as long as the context lasts.
    """
    replaced = kept(warehouse)
    before = None if from_the_first else replaced
    so_far = {} if before is None else _read(spark, warehouse, before)
    done = 0 if before is None else before.through_batch
    new = commits.where(sf.col("ingest_batch") > done)
    period = _period([new, groups.group_generations, *others], so_far.get(TOTALS.name))
    grain = grain_s(period.step_s)
    if before is not None and before.grain_s != grain:
        for fold in IN_STEPS:
            so_far[fold.name] = in_longer_steps(fold, so_far[fold.name], grain)
    now = before
    with ExitStack() as stack:
        if before is None or before.through_batch != through_batch or before.grain_s != grain:
            records = _records(spark, warehouse, done)
            with _in_tasks(spark, records):
                so_far = stack.enter_context(_gone_on(spark, warehouse, new, groups, so_far, grain))
                now = None
                if before is not None or records >= keep_from:
                    now = Kept(VERSION, f"{FOLDS}/{uuid4().hex}", through_batch, grain)
                    so_far = _keep(spark, warehouse, so_far, now)
        if grain != period.step_s:
            for fold in IN_STEPS:
                so_far[fold.name] = in_longer_steps(fold, so_far[fold.name], period.step_s)
        yield Folded(period, so_far[LAST_COMMITS.name], *(so_far[fold.name] for fold in ALL))
    if replaced is not None and replaced != now:
        if now is None:
            warehouse.directory.delete(CURRENT)
        warehouse.directory.delete(replaced.place)


@contextmanager
def _gone_on(
    spark: SparkSession,
    warehouse: Warehouse,
    new: DataFrame,
    groups: GroupTables,
    so_far: dict[str, DataFrame],
    grain: int,
) -> Iterator[dict[str, DataFrame]]:
    """The last commits and all folds, with what is new, as long as the context lasts."""
    records, last = groups.group_generations, so_far.get(LAST_COMMITS.name, LAST_COMMITS.empty(spark))
    owners = writers(groups.members, groups.assignments)
    summary = cells(commit_history(new, records, last), grain)
    is_odd = (sf.col("rewinds") > 0) | (sf.col("mixed_commits") > 0)
    counter = Observation()
    observed = summary.observe(counter, sf.count_if(is_odd).alias("odd"))
    with warehouse.written_down(spark, "cells", observed) as made:
        groups_of_odd = sf.broadcast(made.where(is_odd).select(*GROUP).distinct())
        their_commits = new.join(groups_of_odd, list(GROUP), "left_semi")
        odd = commit_history(their_commits, records, last).where("is_rewind or is_mixed")
        if not counter.get["odd"]:
            odd = odd.where(sf.lit(False))  # Spark does not look for them then
        with (
            warehouse.written_down(spark, "cells", with_writers(made, owners)) as written,
            warehouse.written_down(spark, "odd_commits", with_writers(odd, owners)) as odd_ones,
        ):
            frames = {LAST_COMMITS.name: last_commits(new, made, last)}
            frames |= {fold.name: fold.of(written, so_far.get(fold.name)) for fold in OF_CELLS}
            frames |= {fold.name: fold.of(odd_ones, so_far.get(fold.name)) for fold in OF_ODD_COMMITS}
            yield frames


def _keep(
    spark: SparkSession, warehouse: Warehouse, frames: dict[str, DataFrame], now: Kept
) -> dict[str, DataFrame]:
    """Writes them down for the next build. Out: the same, as they were written."""
    for name, frame in frames.items():
        frame.write.parquet(warehouse.path(f"{now.place}/{name}"))
    warehouse.directory.write(CURRENT, json.dumps(now._asdict()).encode() + b"\n")
    return _read(spark, warehouse, now)


def _read(spark: SparkSession, warehouse: Warehouse, which: Kept) -> dict[str, DataFrame]:
    names = (LAST_COMMITS.name, *(fold.name for fold in ALL))
    return {name: spark.read.parquet(warehouse.path(f"{which.place}/{name}")) for name in names}


def _period(tables: list[DataFrame], totals: DataFrame | None) -> Period:
    times = [table.select("record_ts") for table in tables]
    if totals is not None:
        times += [totals.select(name) for name in ("first_record_ts", "last_record_ts")]
    row = (
        reduce(DataFrame.union, times)
        .agg(
            sf.min(sf.unix_millis("record_ts")).alias("start"),
            sf.max(sf.unix_millis("record_ts")).alias("end"),
        )
        .collect()[0]
    )
    start_ms, end_ms = row["start"] or 0, row["end"] or 0
    return Period(start_ms, end_ms, step_length_s((end_ms - start_ms) / 1000))


def _records(spark: SparkSession, warehouse: Warehouse, after_batch: int) -> int:
    batches = warehouse.silver(spark, "ingest_batches").where(sf.col("ingest_batch") > after_batch)
    return int(batches.agg(sf.coalesce(sf.sum("n_records"), sf.lit(0))).collect()[0][0])


@contextmanager
def _in_tasks(spark: SparkSession, rows: int) -> Iterator[None]:
    """Lets a shuffle of so many rows have tasks small enough for any memory, and rows that lie together by group
    stay there: a join by group and more is then no shuffle of its own."""
    tasks = max(int(spark.conf.get(_TASKS) or 1), rows // _ROWS_A_TASK)
    settings = {_TASKS: str(tasks), _WHOLE_KEYS: "false"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            assert was is not None
            spark.conf.set(name, was)
