"""The directory of tables: where they lie, which version wrote them, and how readers never see half of one.

    _groupd_warehouse.json                     which format this is
    _checkpoint/                               how far the log has been read
    _staging/                                  what an ingest is writing
    _scratch/                                  what a build is writing, or computes once for many tables
    _folds/                                    what builds keep of the commits, see `pipeline.folding`
    _log_ends.json                             the snapshot of the last ingest, see `pipeline.log_ends.snapshot`
    <silver table>/ingest_batch=<n>/*.parquet  rows of one batch; batch 0 has none, only the schema
    <gold table>/<gold table>.parquet          one file

Everything is written in `_staging` or `_scratch` and renamed in. A silver table gains a batch by the rename of a
directory; a gold table is one file, so that the rename of a file replaces it whole: who lists the directory before
and opens the file after reads the new table, not half of two.

Small batches are made one as they become many, see `pipeline.merging`.

The tables of a batch are renamed in one after the other, `ingest_batches` last: rows of a batch that it does not
list belong to a batch that is not all there yet. `silver` leaves them out.

Readers of Parquet ignore names that begin with an underscore.
"""

import io
import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.directory import directory_at, local_path
from pipeline.errors import BadInput
from pipeline.log_ends.snapshot import FILE as SNAPSHOT
from pipeline.log_ends.snapshot import Snapshot
from pipeline.silver.schemas import INGEST_BATCHES, SILVER
from pipeline.table import Table, arrow_type

VERSION: Final = 2
FORMAT: Final = "groupd warehouse"
MARKER: Final = "_groupd_warehouse.json"
CHECKPOINT: Final = "_checkpoint"
STAGING: Final = "_staging"
SCRATCH: Final = "_scratch"
FOLDS: Final = "_folds"
BUILD_INFO_NAME: Final = "build_info"
"""The gold table that a build publishes last."""
EMPTY_BATCH: Final = 0
"""The batch of every silver table that only says what its columns are."""

EMPTY_FILE: Final = "columns.parquet"
BATCH_FILE: Final = "batch.parquet"

_SUFFIX: Final = ".parquet"


class Warehouse:
    """The tables below one path or URL."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.directory = directory_at(root)

    def path(self, relative: str) -> str:
        """A place in the warehouse, as Spark takes it."""
        return self.directory.path(relative)

    # Its version

    def check_version(self) -> None:
        """Raises BadInput unless this is a warehouse that this version of the pipeline wrote."""
        if not self.directory.exists(MARKER):
            reason = "is no warehouse" if self.directory.exists("") else "does not exist"
            raise BadInput(f"{self.path('')}: {reason}: ingest a log first")
        self._properties()

    def check_before_spark(self, *, needs_gold: bool = False) -> None:
        """Raise BadInput for a local warehouse that a command cannot use: Spark takes seconds to start.

        `needs_gold`: whether the command reads gold tables.
        """
        if local_path(self.root) is None:
            return
        self.check_version()
        if needs_gold:
            self._check_gold(BUILD_INFO_NAME)

    def create(self) -> None:
        """Makes an empty warehouse of a missing or empty directory; an existing one is checked.

        Raises BadInput for a directory of other files or a warehouse of another version.
        """
        if self.directory.exists(MARKER):
            self._properties()
            return
        others = [name for name in self.directory.names("") if not name.startswith((MARKER, ".", STAGING))]
        if others:
            raise BadInput(
                f"{self.path('')}: is no warehouse, but holds {others[0]}: give an empty directory"
            )
        self.directory.create("")
        self._write_properties({})

    def _write_properties(self, properties: dict[str, Any]) -> None:
        text = json.dumps({"format": FORMAT, "version": VERSION, **properties}, indent=1)
        self.directory.write(MARKER, text.encode() + b"\n")

    def _properties(self) -> dict[str, Any]:
        path = self.path(MARKER)
        try:
            properties = json.loads(self.directory.read(MARKER))
        except ValueError as error:
            raise BadInput(f"{path}: is damaged: {error}") from error
        if not isinstance(properties, dict) or properties.get("format") != FORMAT:
            raise BadInput(f"{path}: is not the marker of a warehouse")
        version = properties.get("version")
        if version != VERSION:
            raise BadInput(f"{path}: written as version {version}, only {VERSION} can be read: ingest anew")
        return properties

    def bind(self, log_identity: str) -> None:
        """Remembers whose log is ingested; raises BadInput if it was another one before."""
        properties = self._properties()
        known = properties.get("log")
        if known is None:
            self._write_properties({"log": log_identity})
        elif known != log_identity:
            raise BadInput(f"{self.path('')}: holds the log of {known}, not of {log_identity}")

    # The instant of its commits

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Remembers the snapshot up to which the complete batches hold all commits."""
        self.directory.write(SNAPSHOT, snapshot.to_json(max(self.complete_batches(), default=0)))

    def snapshot(self, through_batch: int) -> Snapshot | None:
        """The snapshot up to which the batches up to this one hold all commits; None where no ingest took one, or a
        later ingest, which followed the log or was interrupted, has added batches. Raises BadInput.
        """
        if not self.directory.exists(SNAPSHOT):
            return None
        try:
            return Snapshot.from_json(self.directory.read(SNAPSHOT), through_batch)
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{self.path(SNAPSHOT)}: is damaged: delete it and ingest again") from error

    # Reading

    def silver(self, spark: SparkSession, name: str, through_batch: int | None = None) -> DataFrame:
        """A silver table, of complete batches only, up to one of them; empty when nothing was ingested."""
        table = SILVER[name]
        last = max(self.complete_batches(), default=0) if through_batch is None else through_batch
        if not last:
            return table.empty(spark)
        frame = spark.read.schema(table.ddl).parquet(self.path(name)).select(*dict(table.columns))
        return frame.where(sf.col("ingest_batch").between(1, last))

    def gold(self, spark: SparkSession, name: str, ddl: str | None = None) -> DataFrame:
        """A gold table as it was last built; raises BadInput when it was not. Spark need not look for the columns
        where somebody knows them."""
        self._check_gold(name)
        reader = spark.read if ddl is None else spark.read.schema(ddl)
        return reader.parquet(self.path(name))

    # What a build needs for a while

    def clear_scratch(self) -> None:
        """Removes what an interrupted build left; for one who knows that no other build is running."""
        self.directory.delete(SCRATCH)

    def _check_gold(self, name: str) -> None:
        if not self.directory.exists(name):
            raise BadInput(f"{self.path(name)}: does not exist: build the tables first")

    def gold_file(self, name: str) -> str:
        """Return the place of the only file of a gold table, in a directory that exists then. A file that is
        renamed to it replaces the table: readers see the old one or the new one."""
        self.directory.create(name)
        return f"{name}/{name}{_SUFFIX}"

    # Adding silver

    def prepare(self) -> None:
        """Before an ingest: clears what an interrupted one left, and gives each table its schema.

        Raises BadInput when there are batches but no checkpoint, as they would all come again.
        """
        self.directory.delete(STAGING)
        if self.complete_batches() and not self.directory.names(CHECKPOINT):
            raise BadInput(f"{self.path(CHECKPOINT)}: is gone, so nobody knows what is ingested: ingest anew")
        for name, table in SILVER.items():
            target = batch_path(name, EMPTY_BATCH)
            if not self.directory.exists(target):
                staging = f"{STAGING}/{name}-{EMPTY_BATCH}"
                self.directory.create(staging)
                self.directory.write(f"{staging}/{EMPTY_FILE}", parquet_file(table, []))
                self.directory.create(name)
                self.directory.rename(staging, target)

    def complete_batches(self) -> list[int]:
        """The numbers of the batches that are all there, in order."""
        names = (name.partition("=")[2] for name in self.directory.names(INGEST_BATCHES.name))
        return [
            batch for batch in sorted(int(name) for name in names if name.isdigit()) if batch != EMPTY_BATCH
        ]

    def has_batch(self, name: str, ingest_batch: int) -> bool:
        """Whether a silver table has the rows of a batch."""
        return self.directory.exists(batch_path(name, ingest_batch))

    def stage(self, name: str, ingest_batch: int) -> str:
        """A new directory for the files of a batch, to be published."""
        staging = self._new_staging(name, ingest_batch)
        self.directory.create(staging)
        return staging

    def publish(self, name: str, ingest_batch: int, staging: str, files: Collection[str]) -> None:
        """Makes some files of a staging directory the rows of a batch; others that lie there are removed."""
        if not files:
            self.directory.delete(staging)
            return
        for file in self.directory.names(staging):
            if file not in files:
                self.directory.delete(f"{staging}/{file}")
        self.directory.create(name)
        self.directory.rename(staging, batch_path(name, ingest_batch))

    def add_batch(self, name: str, ingest_batch: int, frame: DataFrame) -> None:
        """Adds the rows of one batch to a silver table, unless they are there from an interrupted run.

        In: a frame of the table's columns; `ingest_batch` of its rows is that of the call.
        """
        if self.has_batch(name, ingest_batch):
            return
        staging = self._new_staging(name, ingest_batch)
        frame.drop("ingest_batch").write.parquet(self.path(staging))
        files = [file for file in self.directory.names(staging) if is_data(file)]
        self.publish(name, ingest_batch, staging, files)

    def complete_batch(self, ingest_batch: int, n_records: int) -> None:
        """Says that a batch is all there."""
        row = {"ingested_ts": datetime.now(UTC), "n_records": n_records}
        staging = self.stage(INGEST_BATCHES.name, ingest_batch)
        self.directory.write(f"{staging}/{BATCH_FILE}", parquet_file(INGEST_BATCHES, [row]))
        self.publish(INGEST_BATCHES.name, ingest_batch, staging, [BATCH_FILE])

    def _new_staging(self, name: str, ingest_batch: int) -> str:
        return f"{STAGING}/{name}-{ingest_batch}-{uuid4().hex}"

    def rows_in_batch(self, spark: SparkSession, name: str, ingest_batch: int) -> int:
        """How many rows a silver table has of a batch that it has."""
        return spark.read.parquet(self.path(batch_path(name, ingest_batch))).count()


def parquet_file(table: Table, rows: list[dict[str, Any]]) -> bytes:
    """A Parquet file of some rows of a silver table; without any, it only says what the columns are."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, parquet_schema(table)), file)
    return file.getvalue()


def parquet_schema(table: Table) -> pa.Schema:
    """Of the files of a silver table: the batch is in the names of their directories."""
    return pa.schema(
        [pa.field(name, arrow_type(kind)) for name, kind in table.columns if name != "ingest_batch"]
    )


def batch_path(name: str, ingest_batch: int) -> str:
    """Where the rows of a batch lie, of a silver table."""
    return f"{name}/ingest_batch={ingest_batch}"


def is_data(file: str) -> bool:
    """Whether a file of a table holds rows."""
    return file.endswith(_SUFFIX) and not file.startswith((".", "_"))
