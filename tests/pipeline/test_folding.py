"""A build that goes on with what earlier ones kept gives the tables of one that reads everything."""

import random
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.build import GOLD, BuildSettings, Built, build
from pipeline.log_ends import LogEnd, Period
from pipeline.warehouse import FOLDS, Warehouse
from storage.topic_partition import TopicPartition
from tests.pipeline.hand_made import HandMade, at, fill
from tests.pipeline.silver_tables import in_order

pytestmark = pytest.mark.timeout(300)

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


def history(spark: SparkSession) -> HandMade:
    """Everything that may happen to commits, in an order and at times of chance. Later records are further apart,
    so that the steps of the plots grow."""
    made, generations, seconds = HandMade(spark), dict.fromkeys("ghi", 0), 0.0
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


def log_ends(partitions: Collection[TopicPartition], period: Period) -> list[LogEnd]:
    middle_ms = (period.start_ms + period.end_ms) // 2
    return [LogEnd(*one, at_ms, 0, 8, "file") for one in partitions for at_ms in (middle_ms, period.end_ms)]


def test_builds_in_between_change_nothing_wherever_the_log_was_cut(
    spark: SparkSession, warehouse: Warehouse
) -> None:
    made = history(spark)
    cuts = [0, *sorted(random.sample(range(1, RECORDS), 2)), RECORDS]
    settings = BuildSettings(measure=log_ends)
    for number, (first, following) in enumerate(pairwise(cuts), 1):
        fill(spark, warehouse, made.piece(first, following), number)
        build(spark, warehouse, settings)
    step_by_step = gold(warehouse)
    build(spark, warehouse, BuildSettings(measure=log_ends, full=True))
    assert gold(warehouse) == step_by_step, cuts
    assert all(step_by_step[name] for name in GOLD), "the history tells too little"


def test_a_build_that_ends_anywhere_costs_the_next_one_nothing_but_time(
    spark: SparkSession, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = history(spark)
    fill(spark, warehouse, made.piece(0, 200), 1)
    build(spark, warehouse)
    fill(spark, warehouse, made.piece(200, RECORDS), 2)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(warehouse.directory, "write", fail)  # what says which folds count
        with pytest.raises(KeyboardInterrupt):
            build(spark, warehouse)
    with pytest.raises(KeyboardInterrupt):
        build(spark, warehouse, BuildSettings(on_table=fail))
    build(spark, warehouse)
    gone_on = gold(warehouse)
    assert len(list(Path(warehouse.path(FOLDS)).iterdir())) == 2, "what is kept, and its name"
    (Path(warehouse.path(FOLDS)) / "current.json").unlink()
    build(spark, warehouse)
    assert gold(warehouse) == gone_on


def test_only_new_batches_are_read(spark: SparkSession, warehouse: Warehouse) -> None:
    """What is folded already is not looked at again: the build does not miss the files of the first batch."""
    made = history(spark)
    fill(spark, warehouse, made.piece(0, 250), 1)
    build(spark, warehouse)
    before = gold(warehouse)["build_info"][0]["commits"]
    for file in Path(warehouse.path("commits")).glob("ingest_batch=1/*.parquet"):
        file.write_bytes(b"")
    fill(spark, warehouse, made.piece(250, RECORDS), 2)
    told: list[Built] = []
    build(spark, warehouse, BuildSettings(on_table=told.append))
    assert {built.name for built in told} == set(GOLD)
    assert gold(warehouse)["build_info"][0]["commits"] > before
