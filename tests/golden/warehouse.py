"""A warehouse of the pipeline from the golden data directory, and the rows of its tables."""

import os
import tempfile
from typing import Any, Final

import pyarrow.parquet as pq

from pipeline.build import GOLD, BuildSettings, build
from pipeline.ingest import ingest
from pipeline.log_ends.measure import measurer
from pipeline.silver.schemas import SILVER
from pipeline.warehouse import Warehouse
from tests.archive import pack, unpack
from tests.golden import data_directory
from tests.golden.versions import golden_path, write_json
from tests.pipeline.session import spark_session

ARCHIVE: Final = "warehouse.tar.xz"
CONTENT: Final = "warehouse.json"


def generate(version: str) -> None:
    """Replaces the archive and its description. Needs the golden data directory of this version."""
    with tempfile.TemporaryDirectory(prefix="groupd-golden-") as temporary, spark_session() as spark:
        log_dir, warehouse = unpack_log(version, temporary), Warehouse(os.path.join(temporary, "warehouse"))
        ingest(lambda: spark, log_dir, warehouse)
        build(lambda: spark, warehouse, BuildSettings(measure=measurer(log_dir, None, None)))
        pack(warehouse.root, golden_path(version, ARCHIVE))
        write_json(version, CONTENT, describe(warehouse))


def unpack_log(version: str, directory: str) -> str:
    """The path of a copy of the golden data directory."""
    log_dir = os.path.join(directory, "data")
    os.mkdir(log_dir)
    unpack(golden_path(version, data_directory.ARCHIVE), log_dir)
    return log_dir


def describe(warehouse: Warehouse) -> dict[str, Any]:
    """How many rows each table has, and offset, metadata and lag of each group by partition."""
    metadata = {_place(row): row["metadata"] for row in rows(warehouse, "latest_offsets")}
    offsets: dict[str, dict[str, list[Any]]] = {}
    for row in sorted(rows(warehouse, "lag"), key=_place):
        group, partition = _place(row)
        offsets.setdefault(group, {})[partition] = [row["offset"], metadata[group, partition], row["lag"]]
    return {
        "rows": {name: len(rows(warehouse, name)) for name in (*SILVER, *GOLD)},
        "offsets": offsets,
    }


def rows(warehouse: Warehouse, table: str) -> list[dict[str, Any]]:
    """A table, as any reader of Parquet sees it."""
    found: list[dict[str, Any]] = pq.read_table(warehouse.path(table)).to_pylist()
    return found


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["group"], f"{row['topic']}-{row['partition']}"
