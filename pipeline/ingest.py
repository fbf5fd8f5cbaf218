"""Ingest: what is new in the log becomes rows of the silver tables, exactly once.

Spark's Structured Streaming keeps in the checkpoint which log offsets each batch covers, before it is run, and that
it is done, after. A batch that was interrupted is run again with the same offsets, and adds what is missing of it:
a table whose rows of that batch are there already keeps them. `ingest_batches` gets its row last.

A batch is read twice: for the commits, which are nearly all of it and pass through at once, and for the rest,
which is little, is kept by Spark and feeds the other tables. The second reading decodes no further than it takes
to see that a record is a commit.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from pipeline.decode.rows import COMMIT, FINDING, GROUP, KINDS, UNKNOWN
from pipeline.directory import local_path
from pipeline.errors import BadInput
from pipeline.log_files import LogFiles
from pipeline.progress import OnProgress, follow_progress
from pipeline.segments import find_partitions
from pipeline.silver import COMMITS, INGEST_BATCHES, SILVER
from pipeline.silver.transform import (
    assignments,
    commits,
    group_generations,
    ingest_findings,
    members,
    unknown_records,
)
from pipeline.source import FORMAT, KINDS_PROPERTY, register
from pipeline.warehouse import CHECKPOINT, Warehouse

POLL_S: Final = 5
LOCK: Final = "_lock"
ONE_FILE_ROWS: Final = 100_000
"""Of all tables but the commits, up to which a batch makes one file of each."""

Transform = Callable[[DataFrame, int], DataFrame]

_OF_KIND: Final[dict[str, dict[str, Transform]]] = {
    GROUP: {
        "group_generations": group_generations,
        "members": members,
        "assignments": assignments,
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
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> Ingested:
    """Adds to the silver tables what came to the log since the last time.

    In: the log's directory or URL; bytes of the log in a batch, about; whether to go on until `stop` is set, which
    also ends a run early. Raises BadInput. Ended in any way at any time, the next run takes up where it was.
    """
    files = LogFiles(log_dir)
    find_partitions(files)
    warehouse.create()
    with _alone(warehouse):
        identity = log_identity(files)
        if identity is not None:
            warehouse.bind(identity)
        warehouse.prepare()
        register(spark)
        before = len(warehouse.complete_batches())
        stream = spark.readStream.format(FORMAT).option("findings", "true")
        stream = stream.option("tasks", str(spark.sparkContext.defaultParallelism))
        if max_bytes is not None:
            stream = stream.option("max_bytes", str(max_bytes))

        records: dict[int, int] = {}

        def add(rows: DataFrame, batch_id: int) -> None:
            records[batch_id] = add_batch(warehouse, rows, batch_id + 1)

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
        return Ingested(len(warehouse.complete_batches()) - before, total.records, total.bytes)


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


@contextmanager
def _alone(warehouse: Warehouse) -> Iterator[None]:
    """Holds a local warehouse against other ingests; elsewhere Spark's checkpoint notices a second one."""
    path = local_path(warehouse.path(LOCK))
    if path is None:
        yield
        return
    with open(path, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BadInput(f"{warehouse.path('')}: another ingest is running") from error
        yield


def add_batch(warehouse: Warehouse, rows: DataFrame, ingest_batch: int) -> int:
    """Adds the rows of one batch to all silver tables, or what is missing of them. Out: its records."""
    spark = rows.sparkSession
    if ingest_batch in warehouse.complete_batches():
        return 0
    with _only(spark, [COMMIT]):
        records = _add_commits(warehouse, spark, rows, ingest_batch)
    others = [kind for kind in KINDS if kind != COMMIT]
    with _only(spark, others):
        rest = kept = rows.where(sf.col("kind").isin(others)).persist()
        try:
            counts = {row["kind"]: int(row["count"]) for row in rest.groupBy("kind").count().collect()}
            if sum(counts.values()) <= ONE_FILE_ROWS:
                rest = rest.coalesce(1)
            for kind, tables in _OF_KIND.items():
                for name, transform in tables.items() if counts.get(kind) else ():
                    warehouse.add_batch(name, ingest_batch, transform(rest, ingest_batch))
        finally:
            kept.unpersist()
    records += counts.get(GROUP, 0) + counts.get(UNKNOWN, 0)
    done = spark.range(1, numPartitions=1).select(
        sf.lit(ingest_batch).alias("ingest_batch"), sf.lit(records).alias("n_records")
    )
    done = done.withColumn("ingested_ts", sf.current_timestamp())
    warehouse.add_batch(INGEST_BATCHES.name, ingest_batch, INGEST_BATCHES.shape(done))
    return records


def _add_commits(warehouse: Warehouse, spark: SparkSession, rows: DataFrame, ingest_batch: int) -> int:
    name = COMMITS.name
    counted = Observation()
    observed = rows.where(sf.col("kind") == COMMIT).observe(counted, sf.count(sf.lit(1)).alias("rows"))
    if warehouse.add_batch(name, ingest_batch, commits(observed, ingest_batch)):
        return int(counted.get["rows"])
    return warehouse.rows_in_batch(spark, name, ingest_batch)


@contextmanager
def _only(spark: SparkSession, kinds: list[str]) -> Iterator[None]:
    """Lets the source produce rows of these kinds alone, in jobs of this thread."""
    context = spark.sparkContext
    context.setLocalProperty(KINDS_PROPERTY, ",".join(kinds))
    try:
        yield
    finally:
        context.setLocalProperty(KINDS_PROPERTY, None)  # type: ignore[arg-type]
