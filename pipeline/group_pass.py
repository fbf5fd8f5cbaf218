"""The one pass over the history: everything that concerns one group alone.

One shuffle brings the commits of a group together with its other records and the folds of its earlier
commits. In each task one function turns them into rows of many tables. Spark carries these rows as pieces of
Arrow:

    bucket  of the groups in it, or NULL where the next build does not need the piece
    name    of the table
    rows    an Arrow stream of at most PIECE_ROWS rows

A task reads commits in log order, in chunks: a group may be larger than memory.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from pipeline.gold.commit_folds import IN_STEPS, CommitFolder
from pipeline.gold.commit_history import COMMIT_COLUMNS, writers
from pipeline.gold.group_records import Row
from pipeline.gold.group_tables import Moment, group_tables
from pipeline.gold.grouping import Grouping
from pipeline.gold.progress import lengthen_steps
from pipeline.silver.schemas import COMMITS, SILVER
from pipeline.table import Table

PIECES: Final = "bucket int, name string, rows binary"
BUCKETS: Final = 64
"""Of groups. A kept fold lies in pieces by bucket, so this is the greatest number of tasks that share a pass."""
PIECE_ROWS: Final = 1 << 16
CHUNK_ROWS: Final = 500_000

_ARROW_PIECES: Final = pa.schema([("bucket", pa.int32()), ("name", pa.string()), ("rows", pa.binary())])
_COMMITS_TABLE: Final = Table(
    "commits", tuple((name, dict(COMMITS.columns)[name]) for name in COMMIT_COLUMNS)
)
_RECORDS: Final = pa.schema(
    [("log_partition", pa.int32()), ("group", pa.string()), ("log_offset", pa.int64())]
)
_BEFORE_ALL: Final = -1
_OPTIONAL: Final = {"name": "string", "record": "string", "rows": "binary"}
RECORD_TABLES: Final = (
    "group_generations", "members", "assignments", "group_epochs", "consumer_members", "member_epochs",
    "member_partitions", "group_expressions",
)  # fmt: skip
"""The silver tables of groups."""
_OMITTED: Final = ("ingest_batch", "value_version")


def pass_rows(new_commits: DataFrame, records: Mapping[str, DataFrame], folds: DataFrame | None) -> DataFrame:
    """Return what the pass reads, before the shuffle.

    In: commits of silver that no build has folded; the silver tables of groups, by name; PIECES of kept folds. Rows
    other than commits have the name of their table, and come before all commits (`place`).
    """
    parts = [
        new_commits.select(
            _bucket(), sf.col("log_offset").alias("place"), *(f"`{name}`" for name in COMMIT_COLUMNS)
        )
    ]
    for name, frame in records.items():
        parts.append(
            frame.select(
                _bucket(),
                sf.lit(_BEFORE_ALL).cast("bigint").alias("place"),
                "group",
                sf.lit(name).alias("name"),
                sf.to_json(sf.struct(*_json_columns(name))).alias("record"),
            )
        )
    if folds is not None:
        parts.append(
            folds.select("bucket", sf.lit(_BEFORE_ALL).cast("bigint").alias("place"), "name", "rows")
        )
    whole = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)
    return whole.withColumns(
        {name: sf.lit(None).cast(kind) for name, kind in _OPTIONAL.items() if name not in whole.columns}
    )


def _bucket() -> Column:
    return sf.pmod(sf.hash("group"), sf.lit(BUCKETS)).alias("bucket")


def _json_columns(name: str) -> list[Column]:
    """Times as microseconds."""
    return [
        sf.unix_micros(column).alias(column) if kind == "timestamp" else sf.col(column)
        for column, kind in SILVER[name].columns
        if column not in _OMITTED
    ]


def run_pass(rows: DataFrame, tasks: int, turn: "GroupPass") -> DataFrame:
    """Return the PIECES that `turn` makes of `pass_rows`, in so many tasks."""
    shuffled = rows.repartition(tasks, "bucket").sortWithinPartitions("place")
    return shuffled.mapInArrow(turn.run, PIECES)


@dataclass(frozen=True)
class GroupPass:
    """The function of a task. `log_ends`: a piece of gold `log_end_offsets`, of all partitions. `grain_s`:
    the step in which folds are kept, in seconds. `keeps_folds`: whether the next build needs them."""

    moment: Moment
    log_ends: bytes
    grain_s: int
    keeps_folds: bool

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn the rows of some groups, in order, into PIECES."""
        folder: CommitFolder | None = None
        groups = _Groups()
        for chunk in _chunks(batches):
            is_commit = pc.is_null(chunk.column("name"))
            groups.read(chunk.filter(pc.invert(is_commit)))
            commits = chunk.filter(is_commit)
            if len(commits):
                folder = folder or groups.folder(self.grain_s)
                groups.learn_buckets(commits)
                folder.add(_COMMITS_TABLE.select(commits))
        folds = (folder or groups.folder(self.grain_s)).result()
        if self.keeps_folds:
            for name, table in folds.items():
                yield from groups.pieces(name, table)
        for name, table in self._tables(folds, groups.records).items():
            yield from pieces(name, table)

    def run_locally(self, records: dict[str, list[Row]], commits: pa.Table) -> dict[str, pa.Table]:
        """Return the tables of some groups, by name.

        Args:
            records: rows of RECORD_TABLES, by the name of the table, times as microseconds.
            commits: COMMIT_COLUMNS in log order.
        """
        groups = _Groups(records)
        folder = groups.folder(self.grain_s)
        if len(commits):
            folder.add(_COMMITS_TABLE.select(commits))
        return self._tables(folder.result(), records)

    def _tables(self, folds: dict[str, pa.Table], records: dict[str, list[Row]]) -> dict[str, pa.Table]:
        for fold in IN_STEPS:
            folds[fold.name] = lengthen_steps(fold, folds[fold.name], self.moment.step_s)
        return group_tables(folds, records, read_piece(self.log_ends), self.moment)


class _Groups:
    """The data of a task about its groups besides new commits."""

    def __init__(self, records: dict[str, list[Row]] | None = None) -> None:
        self.records = records or {}
        self._folds: dict[str, list[pa.Table]] = {}
        self._buckets: dict[str, int] = {}

    def read(self, rows: pa.Table) -> None:
        """Add records, and pieces of folds."""
        for row in rows.select(["bucket", "name", "record", "rows"]).to_pylist():
            name = row["name"]
            if row["record"] is None:
                table = read_piece(row["rows"])
                self._folds.setdefault(name, []).append(table)
                if "group" in table.column_names:
                    groups = pc.unique(table.column("group")).to_pylist()
                    self._buckets |= dict.fromkeys(groups, row["bucket"])
                continue
            columns = dict.fromkeys(column for column, _ in SILVER[name].columns)
            self.records.setdefault(name, []).append(columns | json.loads(row["record"]))

    def learn_buckets(self, commits: pa.Table) -> None:
        """Remember the buckets of groups that commit."""
        found = Grouping(commits, ("group", "bucket")).groups
        self._buckets |= zip(*(found.column(name).to_pylist() for name in ("group", "bucket")), strict=True)

    def folder(self, step_s: int) -> CommitFolder:
        """Return what folds their commits, once all else is read."""
        found = self.records.get("group_generations", [])
        arrays = [pa.array([row[field.name] for row in found], field.type) for field in _RECORDS]
        owners = writers(self.records.get("members", []), self.records.get("assignments", []))
        so_far = {name: pa.concat_tables(parts) for name, parts in self._folds.items()}
        return CommitFolder(pa.table(arrays, schema=_RECORDS), owners, so_far, step_s)

    def pieces(self, name: str, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Return the rows of a fold as PIECES by bucket. Rows that name no group may lie in any bucket of the
        task."""
        if "group" not in table.column_names:
            yield from pieces(name, table, min(self._buckets.values(), default=0))
            return
        groups = pc.dictionary_encode(table.column("group").combine_chunks())
        of_group = pa.array([self._buckets[group] for group in groups.dictionary.to_pylist()], pa.int32())
        of_row = of_group.take(groups.indices)
        for bucket in pc.unique(of_row).to_pylist():
            yield from pieces(name, table.filter(pc.equal(of_row, bucket)), bucket)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= CHUNK_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def pieces(name: str, table: pa.Table, bucket: int | None = None) -> Iterator[pa.RecordBatch]:
    """Return the rows of a table as PIECES, none for a table without rows."""
    for start in range(0, len(table), PIECE_ROWS):
        row = [[bucket], [name], [encode_rows(table.slice(start, PIECE_ROWS))]]
        arrays = [pa.array(values, kind) for values, kind in zip(row, _ARROW_PIECES.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW_PIECES)


def encode_rows(table: pa.Table) -> bytes:
    """Return the rows of a table as a piece has them."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    encoded: bytes = sink.getvalue().to_pybytes()
    return encoded


def read_piece(rows: bytes) -> pa.Table:
    """Return the rows of a piece."""
    with pa.ipc.open_stream(rows) as stream:
        table: pa.Table = stream.read_all()
    return table


def piece_tables(pieces: DataFrame) -> Iterator[tuple[str, pa.Table]]:
    """Return the name and the rows of each piece, one after the other."""
    for row in pieces.select("name", "rows").toLocalIterator():
        yield row["name"], read_piece(bytes(row["rows"]))
