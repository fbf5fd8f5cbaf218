"""The directory of tables: its layout, its version, and atomic updates for readers.

    _groupd_warehouse.json                     the version of the format
    _checkpoint/                               how far the log has been read
    _staging/                                  the output of a running ingest
    _scratch/                                  the output and shared intermediate results of a running build
    _folds/                                    aggregates of commits that builds keep, see `pipeline.folding`
    _log_ends.json                             the snapshot of the last ingest, see `pipeline.log_ends.snapshot`
    <silver table>/ingest_batch=<n>/*.parquet  rows of one batch; batch 0 is empty and has only the schema
    <gold table>/<gold table>.parquet          one file

Writers use `_staging` or `_scratch` and rename the result into place. A silver table gains a batch by the rename of
a directory. A gold table is a single file, so its rename replaces the whole table: a reader that listed the
directory before and opens the file afterwards reads the complete new table.

`pipeline.merging` merges many small batches into one.

The tables of a batch are renamed one after the other, `ingest_batches` last. A batch that it does not list is
incomplete, and `silver` leaves its rows out.

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
"""The batch of every silver table that contains only the schema."""

EMPTY_FILE: Final = "columns.parquet"
BATCH_FILE: Final = "batch.parquet"

_SUFFIX: Final = ".parquet"


class Warehouse:
    """The tables below one path or URL."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.directory = directory_at(root)

    def path(self, relative: str) -> str:
        """Return the path of a file of the warehouse in Spark's form."""
        return self.directory.path(relative)

    # Version

    def check_version(self) -> None:
        """Check the version of the warehouse.

        Raises:
            BadInput: the directory is not a warehouse, or has another version.
        """
        if not self.directory.exists(MARKER):
            reason = "is not a warehouse" if self.directory.exists("") else "does not exist"
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
            self.check_gold(BUILD_INFO_NAME)

    def create(self) -> None:
        """Create an empty warehouse in a missing or empty directory, or check an existing one.

        Raises:
            BadInput: the directory has other files, or the warehouse another version.
        """
        if self.directory.exists(MARKER):
            self._properties()
            return
        others = [name for name in self.directory.names("") if not name.startswith((MARKER, ".", STAGING))]
        if others:
            raise BadInput(
                f"{self.path('')}: is not a warehouse, but has {others[0]}: use an empty directory"
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
            raise BadInput(
                f"{path}: has version {version}, but this version of groupd reads only {VERSION}: ingest again"
            )
        return properties

    def bind(self, log_identity: str) -> None:
        """Record the identity of the ingested log.

        Raises:
            BadInput: the warehouse belongs to another log.
        """
        properties = self._properties()
        known = properties.get("log")
        if known is None:
            self._write_properties({"log": log_identity})
        elif known != log_identity:
            raise BadInput(f"{self.path('')}: holds the log of {known}, not of {log_identity}")

    # The snapshot of the commits

    def write_snapshot(self, snapshot: Snapshot) -> None:
        """Store the snapshot up to which the complete batches contain all commits."""
        self.directory.write(SNAPSHOT, snapshot.to_json(max(self.complete_batches(), default=0)))

    def snapshot(self, through_batch: int) -> Snapshot | None:
        """Return the snapshot up to which the batches through `through_batch` contain all commits. Return None if
        no ingest took one, or if a later ingest that followed the log or was interrupted has added batches.

        Raises:
            BadInput: the file is malformed.
        """
        if not self.directory.exists(SNAPSHOT):
            return None
        try:
            return Snapshot.from_json(self.directory.read(SNAPSHOT), through_batch)
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{self.path(SNAPSHOT)}: is damaged: delete it and ingest again") from error

    # Reads

    def silver(self, spark: SparkSession, name: str, through_batch: int | None = None) -> DataFrame:
        """Return the complete batches of a silver table through `through_batch`; empty before the first ingest."""
        table = SILVER[name]
        last = max(self.complete_batches(), default=0) if through_batch is None else through_batch
        if not last:
            return table.empty(spark)
        frame = spark.read.schema(table.ddl).parquet(self.path(name)).select(*dict(table.columns))
        return frame.where(sf.col("ingest_batch").between(1, last))

    def gold(self, spark: SparkSession, name: str, ddl: str | None = None) -> DataFrame:
        """Return a gold table as last built. With `ddl`, Spark does not need to infer the columns.

        Raises:
            BadInput: the table was not built.
        """
        self.check_gold(name)
        reader = spark.read if ddl is None else spark.read.schema(ddl)
        return reader.parquet(self.path(name))

    def batch_directories(self, name: str) -> list[str]:
        """Return the directories of a silver table that contain the rows of complete batches, in order."""
        last = max(self.complete_batches(), default=EMPTY_BATCH)
        numbers = sorted(int(each.partition("=")[2]) for each in self.directory.names(name) if "=" in each)
        return [batch_path(name, number) for number in numbers if EMPTY_BATCH < number <= last]

    def data_files(self, place: str) -> list[str]:
        """Return the names of the Parquet files in a directory of a table."""
        return [name for name in self.directory.names(place) if is_data(name)]

    # Temporary files of a build

    def clear_scratch(self) -> None:
        """Remove the files of an interrupted build. The caller must hold the build lock."""
        self.directory.delete(SCRATCH)

    def check_gold(self, name: str) -> None:
        """Raise BadInput unless a gold table was built."""
        if not self.directory.exists(name):
            raise BadInput(f"{self.path(name)}: does not exist: build the tables first")

    def gold_file(self, name: str) -> str:
        """Return the path of a gold table's only file and create its directory. Renaming a file to it replaces the
        table atomically for readers.
        """
        self.directory.create(name)
        return f"{name}/{name}{_SUFFIX}"

    # Adding silver batches

    def prepare(self) -> None:
        """Prepare an ingest: remove the files of an interrupted one and give each table its schema.

        Raises:
            BadInput: there are batches but no checkpoint, so that all records would be ingested again.
        """
        self.directory.delete(STAGING)
        if self.complete_batches() and not self.directory.names(CHECKPOINT):
            raise BadInput(
                f"{self.path(CHECKPOINT)}: does not exist, so the ingested records are unknown: ingest again"
            )
        for name, table in SILVER.items():
            target = batch_path(name, EMPTY_BATCH)
            if not self.directory.exists(target):
                staging = f"{STAGING}/{name}-{EMPTY_BATCH}"
                self.directory.create(staging)
                self.directory.write(f"{staging}/{EMPTY_FILE}", parquet_file(table, []))
                self.directory.create(name)
                self.directory.rename(staging, target)

    def complete_batches(self) -> list[int]:
        """Return the numbers of the complete batches in order."""
        names = (name.partition("=")[2] for name in self.directory.names(INGEST_BATCHES.name))
        return [
            batch for batch in sorted(int(name) for name in names if name.isdigit()) if batch != EMPTY_BATCH
        ]

    def has_batch(self, name: str, ingest_batch: int) -> bool:
        """Return whether a silver table has the rows of a batch."""
        return self.directory.exists(batch_path(name, ingest_batch))

    def stage(self, name: str, ingest_batch: int) -> str:
        """Return a new staging directory for the files of a batch."""
        staging = self._new_staging(name, ingest_batch)
        self.directory.create(staging)
        return staging

    def publish(self, name: str, ingest_batch: int, staging: str, files: Collection[str]) -> None:
        """Publish files of a staging directory as the rows of a batch and remove its other files."""
        if not files:
            self.directory.delete(staging)
            return
        for file in self.directory.names(staging):
            if file not in files:
                self.directory.delete(f"{staging}/{file}")
        self.directory.create(name)
        self.directory.rename(staging, batch_path(name, ingest_batch))

    def add_batch(self, name: str, ingest_batch: int, frame: DataFrame) -> None:
        """Add the rows of one batch to a silver table, unless an interrupted run has added them.

        `frame` has the table's columns, with this `ingest_batch` in every row.
        """
        if self.has_batch(name, ingest_batch):
            return
        staging = self._new_staging(name, ingest_batch)
        frame.drop("ingest_batch").write.parquet(self.path(staging))
        files = [file for file in self.directory.names(staging) if is_data(file)]
        self.publish(name, ingest_batch, staging, files)

    def complete_batch(self, ingest_batch: int, n_records: int) -> None:
        """Mark a batch as complete."""
        row = {"ingested_ts": datetime.now(UTC), "n_records": n_records}
        staging = self.stage(INGEST_BATCHES.name, ingest_batch)
        self.directory.write(f"{staging}/{BATCH_FILE}", parquet_file(INGEST_BATCHES, [row]))
        self.publish(INGEST_BATCHES.name, ingest_batch, staging, [BATCH_FILE])

    def _new_staging(self, name: str, ingest_batch: int) -> str:
        return f"{STAGING}/{name}-{ingest_batch}-{uuid4().hex}"

    def rows_in_batch(self, spark: SparkSession, name: str, ingest_batch: int) -> int:
        """Return the number of rows of an existing batch in a silver table."""
        return spark.read.parquet(self.path(batch_path(name, ingest_batch))).count()


def parquet_file(table: Table, rows: list[dict[str, Any]]) -> bytes:
    """Return a Parquet file of rows of a silver table; without rows it contains only the schema."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, parquet_schema(table)), file)
    return file.getvalue()


def parquet_schema(table: Table) -> pa.Schema:
    """Return the schema of a silver table's files. The directory names contain the batch."""
    return pa.schema(
        [pa.field(name, arrow_type(kind)) for name, kind in table.columns if name != "ingest_batch"]
    )


def batch_path(name: str, ingest_batch: int) -> str:
    """Return the directory of a batch in a silver table."""
    return f"{name}/ingest_batch={ingest_batch}"


def is_data(file: str) -> bool:
    """Return whether a file of a table contains rows."""
    return file.endswith(_SUFFIX) and not file.startswith((".", "_"))
