"""Ingest: what is new in the log becomes rows of the silver tables, exactly once.

Spark's Structured Streaming keeps in the checkpoint which log offsets each batch covers, before it is run, and that
it is done, after. A batch that was interrupted is run again with the same offsets, and adds what is missing of it:
a table whose rows of that batch are there already keeps them. `ingest_batches` gets its row last.

A batch is read once: its commits, nearly all of it, are written by the workers that decode them, and the rest,
which is little, is kept by Spark and feeds the other tables. In a warehouse that only Hadoop's file systems reach,
Spark writes the commits, in a reading of their own.
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
from pipeline.source import COMMITS_TO_PROPERTY, FORMAT, KINDS_PROPERTY, register
from pipeline.warehouse import CHECKPOINT, Warehouse

POLL_S: Final = 5
ONE_FILE_ROWS: Final = 100_000
"""Of all tables but the commits, up to which a batch makes one file of each."""

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
    """What one run added."""

    batches: int
    records: int
    bytes: int


def ingest(
    spark: SparkSession,
    log_dir: str,
    warehouse: Warehouse,
    *,
    max_bytes: int | None = None,
    follow: bool = False,
    take_snapshot: TakeSnapshot | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> Ingested:
    """Adds to the silver tables what came to the log since the last time.

    In: the log's directory or URL; bytes of the log in a batch, about; whether to go on until `stop` is set, which
    also ends a run early; how to measure where logs end, by default in the directory. A run that does not follow
    the log reads it up to the instant of that measurement, which it keeps for the build. Raises BadInput. Ended in
    any way at any time, the next run takes up where it was.
    """
    files = LogFiles(log_dir)
    find_partitions(files)
    warehouse.create()
    with alone(warehouse, INGEST):
        identity = log_identity(files)
        if identity is not None:
            warehouse.bind(identity)
        warehouse.prepare()
        register(spark)
        merge(warehouse)  # what could not be while a build was running
        stream = spark.readStream.format(FORMAT).option("findings", "true")
        stream = stream.option("tasks", str(spark.sparkContext.defaultParallelism))
        if max_bytes is not None:
            stream = stream.option("max_bytes", str(max_bytes))
        snapshot = None if follow else (take_snapshot or snapshot_taker(log_dir, None))()
        if snapshot is not None and snapshot.offsets_log is not None:
            stream = stream.option("until", json.dumps(snapshot.offsets_log))

        records: dict[int, int] = {}
        last = [max(warehouse.complete_batches(), default=0)]
        before = last[0]

        def add(rows: DataFrame, batch_id: int) -> None:
            ingest_batch = batch_id + 1
            if ingest_batch <= last[0]:  # all there, but Spark was not told so any more
                return
            records[batch_id] = add_batch(warehouse, rows, ingest_batch)
            last[0] = ingest_batch
            merge(warehouse)

        writer = stream.load(log_dir).writeStream.foreachBatch(add)
        writer = writer.option("checkpointLocation", warehouse.path(CHECKPOINT))
        query = (
            writer.trigger(processingTime=f"{POLL_S} seconds")
            if follow
            else writer.trigger(availableNow=True)
        ).start()
        try:
            total = follow_progress(query, records, stop or threading.Event(), on_progress)
        except StreamingQueryException as error:
            raise _in_plain_words(error) from error
        finally:
            query.stop()
        if snapshot is not None and not (stop is not None and stop.is_set()):
            warehouse.write_snapshot(snapshot)
        return Ingested(last[0] - before, total.records, total.bytes)


def _in_plain_words(error: StreamingQueryException) -> Exception:
    """What the pipeline itself raised in one of Spark's processes comes back as text."""
    for line in str(error).splitlines():
        for name in ("BadInput", "Damaged", "LogChanged"):
            mark = f"{name}: "
            if f".{mark}" in line or line.startswith(mark):
                return BadInput(line.partition(mark)[2].strip())
    return error


def log_identity(files: LogFiles) -> str | None:
    """Whose log it is, from `meta.properties` beside or above it; None when nobody says."""
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
    """Adds the rows of the next batch to all silver tables, or what is missing of them. Out: its records."""
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
    """The rows that are no commits, computed once, how many there are of each kind, and the rows of each file that
    was written to `commits_to` meanwhile.
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
        with _reading(spark, others):  # should Spark have lost what it kept
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
    """In jobs of this thread, lets the source produce rows of these kinds alone, and write commits elsewhere."""
    context = spark.sparkContext
    context.setLocalProperty(KINDS_PROPERTY, ",".join(kinds))
    context.setLocalProperty(COMMITS_TO_PROPERTY, commits_to)  # type: ignore[arg-type]  # None removes it
    try:
        yield
    finally:
        context.setLocalProperty(KINDS_PROPERTY, None)  # type: ignore[arg-type]
        context.setLocalProperty(COMMITS_TO_PROPERTY, None)  # type: ignore[arg-type]
