"""The history that a build reads: new commits, the records of groups, and the folds of earlier commits.

`LocalHistory` reads a small history on the driver. `SparkHistory` distributes a larger one over Spark's tasks. Both
make the same pass over it (`pipeline.group_pass`), so the tables do not depend on the choice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.directory import local_path
from pipeline.fold_checkpoint import FoldCheckpoint
from pipeline.gold.build_info import TOTALS
from pipeline.gold.commit_history import COMMIT_COLUMNS, LAST_COMMITS, PARTITION_OF_GROUP
from pipeline.gold.grouping import set_columns
from pipeline.group_pass import PIECES, RECORD_TABLES, GroupPass, pass_rows, piece_tables, run_pass
from pipeline.silver.schemas import COMMITS, INGEST_BATCHES, SILVER
from pipeline.table import Table, rows_of
from pipeline.table_reader import TableReader
from pipeline.warehouse import Warehouse

SCOPE: Final = Table.declare(
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
"""Commits, with the number of new ones that each row stands for, and times of other records (without a group)."""

_TIMED: Final = ("group_generations", "group_epochs")
"""The tables of groups that extend the period of a build."""
_ROWS_OF_A_TASK: Final = 500_000
"""The number of commits that one task sorts in memory."""

TableParts = Iterator[tuple[str, pa.Table]]


class History(Protocol):
    """The input of a build."""

    def scope_rows(self) -> pa.Table:
        """Return rows of SCOPE from which the period and the consumed partitions follow."""

    @contextmanager
    def run(self, turn: GroupPass, n_commits: int, after: FoldCheckpoint | None) -> Iterator[TableParts]:
        """Make the pass over a number of new commits. Yield the names and rows of its tables.

        The folds are in the directory of `after` by then, if it is given.
        """


def is_small(warehouse: Warehouse, below: int) -> bool:
    """Return whether a local warehouse has fewer records than `below` in complete batches."""
    if local_path(warehouse.root) is None:
        return False
    with TableReader(warehouse) as reader:
        chunks = reader.silver_chunks(INGEST_BATCHES, ["n_records"])
        return sum(sum(chunk.column("n_records").to_pylist()) for chunk in chunks) < below


class LocalHistory:
    """The whole history of a local warehouse, in memory. It has no folds."""

    def __init__(self, warehouse: Warehouse) -> None:
        with TableReader(warehouse) as reader:
            commits = pa.concat_tables(reader.silver_chunks(COMMITS, COMMIT_COLUMNS))
            self._records = {name: reader.silver(SILVER[name]) for name in RECORD_TABLES}
        self._commits = commits.sort_by("log_offset")

    def scope_rows(self) -> pa.Table:
        times = {name: self._commits.column("record_ts") for name in ("first_record_ts", "last_record_ts")}
        parts = [set_columns(self._commits, n=np.ones(len(self._commits), np.int64), **times)]
        for name in _TIMED:
            column = self._records[name].column("record_ts")
            parts.append(pa.table({"first_record_ts": column, "last_record_ts": column}))
        return pa.concat_tables(SCOPE.select(part) for part in parts)

    @contextmanager
    def run(self, turn: GroupPass, n_commits: int, after: FoldCheckpoint | None) -> Iterator[TableParts]:
        assert after is None, "so few records have no folds"
        records = {name: rows_of(table) for name, table in self._records.items()}
        yield iter(turn.run_locally(records, self._commits).items())


class SparkHistory:
    """The batches of a warehouse through `through_batch`, of which `before` has the folds of the first ones."""

    def __init__(
        self, spark: SparkSession, warehouse: Warehouse, through_batch: int, before: FoldCheckpoint | None
    ) -> None:
        self._spark = spark
        self._warehouse = warehouse
        self._records = {name: warehouse.silver(spark, name, through_batch) for name in RECORD_TABLES}
        self._folds = (
            None if before is None else spark.read.schema(PIECES).parquet(warehouse.path(before.place))
        )
        done = 0 if before is None else before.through_batch
        self._commits = warehouse.silver(spark, COMMITS.name, through_batch)
        self._commits = self._commits.where(sf.col("ingest_batch") > done)

    def scope_rows(self) -> pa.Table:
        times = [self._records[name].select("record_ts") for name in _TIMED]
        parts = [self._commits.select(*PARTITION_OF_GROUP, "log_offset", "tombstone", "record_ts"), *times]
        whole = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
        query = whole.groupBy(*PARTITION_OF_GROUP).agg(
            sf.max_by("tombstone", "log_offset").alias("tombstone"),
            sf.max("log_offset").alias("log_offset"),
            sf.min("record_ts").alias("first_record_ts"),
            sf.max("record_ts").alias("last_record_ts"),
            sf.count("log_offset").alias("n"),
        )
        found = [SCOPE.select(query.toArrow())]
        if self._folds is not None:
            kept = self._folds.where(sf.col("name").isin(TOTALS.name, LAST_COMMITS.name))
            found += [set_columns(SCOPE.select(table), n=_zeros(table)) for _, table in piece_tables(kept)]
        return pa.concat_tables(found)

    @contextmanager
    def run(self, turn: GroupPass, n_commits: int, after: FoldCheckpoint | None) -> Iterator[TableParts]:
        rows: DataFrame = pass_rows(self._commits, self._records, self._folds)
        partitions = int(self._spark.conf.get("spark.sql.shuffle.partitions") or 1)
        result = run_pass(rows, max(partitions, n_commits // _ROWS_OF_A_TASK), turn)
        result = result.persist(StorageLevel.DISK_ONLY)
        try:
            if after is None:
                result.write.format("noop").mode("overwrite").save()
            else:
                result.where("bucket is not null").write.parquet(self._warehouse.path(after.place))
            yield piece_tables(result.where("bucket is null"))
        finally:
            result.unpersist()


def _zeros(table: pa.Table) -> pa.Array:
    return pa.array(np.zeros(len(table), np.int64))
