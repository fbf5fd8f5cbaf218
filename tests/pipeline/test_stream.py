"""The stream reader, driven as by Spark but without Spark: each record is in one batch, for every split."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.log_directory import LogDirectory
from tests.pipeline.long_logs import add_transactions, counted, example_log
from tests.pipeline.random_logs import Log
from tests.pipeline.test_decode import Rows

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.decode.rows import SCHEMA
from pipeline.source import ConsumerOffsets, OffsetsLogStreamReader

PASSING = {"torn_tail", "open_transaction"}
Offset = dict[str, Any]


@pytest.fixture(scope="module")
def written() -> dict[int, Log]:
    """Two partitions: everything that may lie in one, and transactions of every kind."""
    logs = {7: example_log(3, batches=24), 8: Log()}
    add_transactions(logs[8])
    return logs


def new_reader(made: LogDirectory, max_bytes: int | None) -> OffsetsLogStreamReader:
    """As a new process would have it."""
    options = {"path": made.path, "findings": "true", "tasks": "2"}
    if max_bytes is not None:
        options["max_bytes"] = str(max_bytes)
    reader: DataSourceStreamReader = ConsumerOffsets(options).streamReader(from_arrow_schema(SCHEMA))
    assert isinstance(reader, OffsetsLogStreamReader)
    reader.prepareForTriggerAvailableNow()
    return reader


def stored(offset: Offset) -> Offset:
    """An offset as it comes back from a checkpoint."""
    text: Offset = json.loads(json.dumps(offset))
    return text


def batch_of(reader: OffsetsLogStreamReader, start: Offset, end: Offset) -> Rows:
    """The rows of a batch, in order."""
    planned = reader.partitions(stored(start), stored(end))
    rows = [row for task in planned for batch in reader.read(task) for row in batch.to_pylist()]
    return in_order(rows)


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"], repr(row)))


@pytest.mark.parametrize("max_bytes", [None, 300, 1500, 6000])
@pytest.mark.parametrize("seed", range(2))
def test_any_split_into_runs_and_batches_gives_every_row_once(
    written: dict[int, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, max_bytes: int | None
) -> None:
    chance = random.Random(f"{seed} {max_bytes}")
    monkeypatch.setattr("pipeline.walk._SETTLE_S", 0)  # there is no concurrent writer
    made = LogDirectory(tmp_path / "data")
    upto = dict.fromkeys(written, 0)
    offset: Offset | None = None
    rows: Rows = []
    while any(upto[number] < len(log.batches) for number, log in written.items()):
        for number, log in written.items():
            upto[number] = min(len(log.batches), upto[number] + chance.randrange(12))
            torn = log.batches[upto[number]][:70] if upto[number] < len(log.batches) else b""
            # A reader meets a torn batch at the end while the daemon writes.
            made.write(number, [*log.batches[: upto[number]], torn][: upto[number] + 1], per_segment=5)
        reader = new_reader(made, max_bytes)
        start = reader.initialOffset() if offset is None else offset
        while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
            batch = batch_of(reader, start, end)
            if chance.random() < 0.3:  # killed before the batch was done: a new process makes it again
                reader = new_reader(made, max_bytes)
                assert batch_of(reader, start, end) == batch
            rows += batch
            start = stored(end)
        offset = start
    records = [row for row in rows if row["kind"] != "finding"]
    assert in_order(records) == in_order(
        [row for number, log in written.items() for row in counted(log, number)]
    )
    lasting = [row for row in rows if row["kind"] == "finding" and row["finding"] not in PASSING]
    assert {row["finding"] for row in lasting} <= {"gap", "aborted_transaction"}
