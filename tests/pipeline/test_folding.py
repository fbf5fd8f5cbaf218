"""An incremental build gives the same tables as a full one."""

import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.build import GOLD, BuildSettings, Built, build
from pipeline.log_ends.log_end import LogEnd, Period
from pipeline.log_ends.snapshot import Snapshot
from pipeline.warehouse import FOLDS, Warehouse
from storage.topic_partition import TopicPartition
from tests.pipeline.hand_made import HandMade, at, fill
from tests.pipeline.silver_tables import in_order

pytestmark = pytest.mark.timeout(600)

RECORDS = 300
Tables = dict[str, list[dict[str, Any]]]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path / "warehouse"))


def gold(warehouse: Warehouse) -> Tables:
    """All gold tables, but for when they were built."""
    found = {name: pq.read_table(warehouse.path(name)).to_pylist() for name in GOLD}
    for row in found["build_info"]:
        del row["built_ts"]
    return {name: in_order(rows) for name, rows in found.items()}


def history() -> HandMade:
    """Everything that may happen to commits, in an order and at times of chance. Later records are further apart,
    so that the steps of the plots grow."""
    made, generations, seconds = HandMade(), dict.fromkeys("ghi", 0), 0.0
    for number in range(RECORDS):
        group, partition = random.choice("ghij"), random.randrange(3)
        seconds += random.random() * (2 if number < RECORDS / 2 else 300)
        happens = random.random()
        if happens < 0.08 and group in generations:
            generations[group] += 1
            members = random.choice([{}, {"a1": [("t", 0), ("t", 1)]}, {"a1": [("t", 0)], "b@s": [("t", 1)]}])
            made.generation(group, generations[group], members, seconds)
        elif happens < 0.11 and group in generations:
            made.deleted(group, seconds)
        else:
            made.commit(
                group,
                "t",
                partition,
                random.choice([None, 3, 3, *range(12)]),
                max(0, seconds - random.randrange(90)),
                topic_id=random.choice([None, None, "A", "B"]),
                producer_id=random.choice([None, None, 5]),
                record_ts=at(seconds),
            )
    return made


def log_ends(partitions: Collection[TopicPartition], period: Period, _: Snapshot) -> list[LogEnd]:
    middle_ms = (period.start_ms + period.end_ms) // 2
    return [LogEnd(*one, at_ms, 0, 8, "file") for one in partitions for at_ms in (middle_ms, period.end_ms)]


def test_builds_in_between_change_nothing_wherever_the_log_was_cut_or_they_were_killed(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, cut = history(), random.randrange(100, RECORDS - 50)
    settings = BuildSettings(measure=log_ends, keep_from=0)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    fill(warehouse, made.piece(0, cut), 1)
    with pytest.raises(KeyboardInterrupt):  # all commits are folded, no table is there
        build(lambda: spark, warehouse, BuildSettings(measure=log_ends, on_table=fail, keep_from=0))
    fill(warehouse, made.piece(cut, RECORDS), 2)
    with monkeypatch.context() as patched:
        patched.setattr(warehouse.directory, "write", fail)  # the file that records the valid folds
        with pytest.raises(KeyboardInterrupt):
            build(lambda: spark, warehouse, settings)

    files = {path: path.read_bytes() for path in Path(warehouse.path("commits")).glob("*=1/*.parquet")}
    for path in files:
        path.write_bytes(b"")  # the build does not read folded files again
    told: list[Built] = []
    build(lambda: spark, warehouse, BuildSettings(measure=log_ends, on_table=told.append))
    assert {built.name for built in told} == set(GOLD)
    gone_on = gold(warehouse)
    assert all(gone_on[name] for name in GOLD), "the history tells too little"
    assert len(list(Path(warehouse.path(FOLDS)).iterdir())) == 2, "what is kept, and its name"

    for path, data in files.items():
        path.write_bytes(data)
    build(lambda: spark, warehouse, BuildSettings(measure=log_ends, full=True))
    assert gold(warehouse) == gone_on, cut
    assert not list(Path(warehouse.path(FOLDS)).iterdir()), "so little is not kept"
