"""The checkpoint of earlier builds, and whether the next one may continue from it."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pipeline.fold_checkpoint import VERSION, FoldCheckpoint, delete_unused_folds, read_checkpoint
from pipeline.warehouse import FOLDS, Warehouse

CHECKPOINT = FoldCheckpoint(VERSION, f"{FOLDS}/one", 3, 5)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    made = Warehouse(str(tmp_path / "warehouse"))
    made.create()
    made.complete_batch(3, 1)
    for name in ("one", "two"):
        made.directory.create(f"{FOLDS}/{name}")
    return made


def says(warehouse: Warehouse, text: str) -> None:
    warehouse.directory.write(f"{FOLDS}/current.json", text.encode())


def test_a_build_continues_from_the_last_checkpoint(warehouse: Warehouse) -> None:
    assert read_checkpoint(warehouse) is None
    says(warehouse, json.dumps(CHECKPOINT._asdict()))
    assert read_checkpoint(warehouse) == CHECKPOINT
    delete_unused_folds(warehouse)
    assert read_checkpoint(warehouse) == CHECKPOINT
    assert warehouse.directory.names(FOLDS) == ["current.json", "one"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1}',
        json.dumps(CHECKPOINT._replace(version=VERSION + 1)._asdict()),
        json.dumps(CHECKPOINT._replace(through_batch=4)._asdict()),
        json.dumps(CHECKPOINT._replace(place=f"{FOLDS}/gone")._asdict()),
    ],
    ids=["empty", "list", "too-little", "other-version", "beyond-silver", "gone"],
)
def test_a_checkpoint_of_other_content_is_ignored(warehouse: Warehouse, text: str) -> None:
    says(warehouse, text)
    assert read_checkpoint(warehouse) is None
