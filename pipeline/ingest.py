"""Ingest new log records into the silver tables exactly once.

Spark's Structured Streaming stores the log offsets of each batch in the checkpoint before the batch runs, and its
completion afterwards. An interrupted batch runs again with the same offsets and adds only the missing rows: a table
that already has rows of that batch keeps them. `ingest_batches` gets its row last.

A batch is read once. Most of it is commits, which the workers write as they decode them. Spark caches the small
rest and feeds the other tables from it. In a warehouse that is reachable only by Hadoop's file systems, Spark
writes the commits in a separate read.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from pipeline.commit_files import WRITTEN
from pipeline.decode.rows import COMMIT, CONSUMER_GROUP, FINDING, GROUP, KINDS, UNKNOWN
from pipeline.directory import local_path
from pipeline.errors import BadInput
from pipeline.lock import INGEST, alone
from pipeline.log_ends.measure import snapshot_taker
from pipeline.log_ends.snapshot import TakeSnapshot
from pipeline.log_files import LogFiles
from pipeline.merging import merge
from pipeline.progress import OnProgress, follow_progress
from pipeline.segments import find_partitions
from pipeline.silver.consumer_groups import (
    consumer_members,
    group_epochs,
    group_expressions,
    member_epochs,
    member_partitions,
)
from pipeline.silver.schemas import COMMITS, SILVER
from pipeline.silver.transform import (
    assignments,
    commits,
    group_generations,
    ingest_findings,
    members,
    unknown_records,
)
from pipeline.source import COMMITS_TO_PROPERTY, FORMAT, KINDS_PROPERTY, is_up_to_date, register
from pipeline.stream_checkpoint import read_last_offset
from pipeline.warehouse import CHECKPOINT, Warehouse

POLL_S: Final = 5
ONE_FILE_ROWS: Final = 100_000
"""Up to this number of rows a batch writes one file for each table other than commits."""

Transform = Callable[[DataFrame, int], DataFrame]

_OF_KIND: Final[dict[str, dict[str, Transform]]] = {
    GROUP: {
        "group_generations": group_generations,
        "members": members,
        "assignments": assignments,
    },
    CONSUMER_GROUP: {
        "group_epochs": group_epochs,
        "consumer_members": consumer_members,
        "member_epochs": member_epochs,
        "member_partitions": member_partitions,
        "group_expressions": group_expressions,
    },
    UNKNOWN: {"unknown_records": unknown_records},
    FINDING: {"ingest_findings": ingest_findings},
}
assert {name for tables in _OF_KIND.values() for name in tables} == SILVER.keys() - {
    "commits",
    "ingest_batches",
}


class Ingested(NamedTuple):
    """The additions of one run."""

    batches: int
    records: int
    bytes: int


def ingest(
    get_spark: Callable[[], SparkSession],
    log_dir: str,
    warehouse: Warehouse,
    *,
    max_bytes: int | None = None,
    follow: bool = False,
    take_snapshot: TakeSnapshot | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> Ingested:
    """Add the log records since the last run to the silver tables.

    An interrupted run loses nothing: the next run continues at its position. A run without `follow` reads the log
    up to the time of the snapshot and keeps the snapshot for the build.

    Args:
        get_spark: starts Spark; not called if the log has no additions.
        max_bytes: the approximate number of log bytes in a batch.
        follow: whether to continue until `stop` is set.
        take_snapshot: measures the log ends; by default from the directory.
        stop: ends the run early.
        on_progress: called after each batch.

    Raises BadInput for an unusable log or warehouse."""
    files = LogFiles(log_dir)
    find_partitions(files)
    warehouse.create()
    with alone(warehouse, INGEST):
        identity = log_identity(files)
        if identity is not None:
            warehouse.bind(identity)
        warehouse.prepare()
        snapshot = None if follow else (take_snapshot or snapshot_taker(log_dir, None))()
        merge(warehouse)  # postponed while a build was running
        options = {"path": log_dir, "findings": "true"}
        if max_bytes is not None:
            options["max_bytes"] = str(max_bytes)
        if snapshot is not None and snapshot.offsets_log is not None:
            options["until"] = json.dumps(snapshot.offsets_log)
        done = Ingested(0, 0, 0)
        if follow or not is_up_to_date(options, read_last_offset(warehouse)):
            done = _stream(get_spark(), options, warehouse, stop or threading.Event(), on_progress, follow)
        if snapshot is not None and not (stop is not None and stop.is_set()):
            warehouse.write_snapshot(snapshot)
        return done


def _stream(
    spark: SparkSession,
    options: dict[str, str],
    warehouse: Warehouse,
    stop: threading.Event,
    on_progress: OnProgress | None,
    follow: bool,
) -> Ingested:
    """Run the streaming query until it has read the log or, with `follow`, until `stop` is set."""
    register(spark)
    records: dict[int, int] = {}
    before = max(warehouse.complete_batches(), default=0)
    last = [before]

    def add(rows: DataFrame, batch_id: int) -> None:
        ingest_batch = batch_id + 1
        if ingest_batch <= last[0]:  # the batch is complete, but Spark did not record that
            return
        records[batch_id] = add_batch(warehouse, rows, ingest_batch)
        last[0] = ingest_batch
        merge(warehouse)

    stream = spark.readStream.format(FORMAT).options(**options)
    stream = stream.option("tasks", str(spark.sparkContext.defaultParallelism))
    writer = stream.load().writeStream.foreachBatch(add)
    writer = writer.option("checkpointLocation", warehouse.path(CHECKPOINT))
    query = (
        writer.trigger(processingTime=f"{POLL_S} seconds") if follow else writer.trigger(availableNow=True)
    ).start()
    try:
        total = follow_progress(query, records, stop, on_progress)
    except StreamingQueryException as error:
        raise _in_plain_words(error) from error
    finally:
        query.stop()
    return Ingested(last[0] - before, total.records, total.bytes)


def _in_plain_words(error: StreamingQueryException) -> Exception:
    """Convert an error of the pipeline from one of Spark's processes, which arrives as text."""
    for line in str(error).splitlines():
        for name in ("BadInput", "Damaged", "LogChanged"):
            mark = f"{name}: "
            if f".{mark}" in line or line.startswith(mark):
                return BadInput(line.partition(mark)[2].strip())
    return error


def log_identity(files: LogFiles) -> str | None:
    """Return the log's cluster id and node id from `meta.properties` beside or above it; None if unknown."""
    for directory in (files.root, os.path.dirname(files.root), os.path.dirname(os.path.dirname(files.root))):
        path = f"{directory}/meta.properties"
        entry = files.entry(path)
        if entry is None or entry.is_directory:
            continue
        with files.open(path) as file:
            text = file.read(min(entry.size_bytes, 1 << 16), 0).decode("utf-8", "replace")
        known = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        if "cluster.id" in known:
            node = known.get("node.id", known.get("broker.id", "?"))
            return f"cluster {known['cluster.id']} node {node}"
    return None


def add_batch(warehouse: Warehouse, rows: DataFrame, ingest_batch: int) -> int:
    """Add the missing rows of the next batch to all silver tables. Return the number of its records."""
    name, records, staging = COMMITS.name, 0, None
    if warehouse.has_batch(name, ingest_batch):
        records = warehouse.rows_in_batch(rows.sparkSession, name, ingest_batch)
    elif local_path(warehouse.root) is None:
        records = _add_commits(warehouse, rows, ingest_batch)
    else:
        staging = warehouse.stage(name, ingest_batch)
    with _kept(rows, None if staging is None else warehouse.path(staging)) as (rest, counts, files):
        if staging is not None:
            records = sum(files.values())
            warehouse.publish(name, ingest_batch, staging, files.keys())
        if sum(counts.values()) <= ONE_FILE_ROWS:
            rest = rest.coalesce(1)
        for kind, tables in _OF_KIND.items():
            for table, transform in tables.items() if counts.get(kind) else ():
                warehouse.add_batch(table, ingest_batch, transform(rest, ingest_batch))
    records += sum(n for kind, n in counts.items() if kind != FINDING)
    warehouse.complete_batch(ingest_batch, records)
    return records


@contextmanager
def _kept(
    rows: DataFrame, commits_to: str | None
) -> Iterator[tuple[DataFrame, dict[str, int], dict[str, int]]]:
    """Cache the rows other than commits.

    Returns the rows, their number by kind, and the rows of each file that the same pass wrote to `commits_to`.
    """
    spark = rows.sparkSession
    others = [kind for kind in KINDS if kind != COMMIT]
    kept = rows.persist()
    try:
        file = sf.when(sf.col("kind") == WRITTEN, sf.struct("path", "position"))
        with _reading(spark, others, commits_to):
            found = kept.groupBy("kind").agg(sf.count("*").alias("n"), sf.collect_list(file).alias("files"))
            counts = {row["kind"]: row for row in found.collect()}
        written = counts.pop(WRITTEN).files if WRITTEN in counts else []
        files = {file["path"]: int(file["position"]) for file in written}
        with _reading(spark, others):  # in case Spark lost the cached rows
            yield kept, {kind: int(row["n"]) for kind, row in counts.items()}, files
    finally:
        kept.unpersist()


def _add_commits(warehouse: Warehouse, rows: DataFrame, ingest_batch: int) -> int:
    counted = Observation()
    observed = rows.where(sf.col("kind") == COMMIT).observe(counted, sf.count(sf.lit(1)).alias("rows"))
    with _reading(rows.sparkSession, [COMMIT]):
        warehouse.add_batch(COMMITS.name, ingest_batch, commits(observed, ingest_batch))
    return int(counted.get["rows"])


@contextmanager
def _reading(spark: SparkSession, kinds: list[str], commits_to: str | None = None) -> Iterator[None]:
    """Limit the source to these kinds and let it write commits to `commits_to`, for jobs of this thread."""
    context = spark.sparkContext
    context.setLocalProperty(KINDS_PROPERTY, ",".join(kinds))
    context.setLocalProperty(COMMITS_TO_PROPERTY, commits_to)  # type: ignore[arg-type]  # None removes it
    try:
        yield
    finally:
        context.setLocalProperty(KINDS_PROPERTY, None)  # type: ignore[arg-type]
        context.setLocalProperty(COMMITS_TO_PROPERTY, None)  # type: ignore[arg-type]
