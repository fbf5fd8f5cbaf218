"""What earlier builds kept, and whether it may be gone on with."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pipeline.folding import clear
from pipeline.kept import VERSION, Kept, kept
from pipeline.warehouse import FOLDS, Warehouse

KEPT = Kept(VERSION, f"{FOLDS}/one", 3, 5)


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


def test_what_a_build_says_it_kept_is_gone_on_with(warehouse: Warehouse) -> None:
    assert kept(warehouse) is None
    says(warehouse, json.dumps(KEPT._asdict()))
    assert kept(warehouse) == KEPT
    clear(warehouse)
    assert kept(warehouse) == KEPT
    assert warehouse.directory.names(FOLDS) == ["current.json", "one"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 1}',
        json.dumps(KEPT._replace(version=VERSION + 1)._asdict()),
        json.dumps(KEPT._replace(through_batch=4)._asdict()),
        json.dumps(KEPT._replace(place=f"{FOLDS}/gone")._asdict()),
    ],
    ids=["empty", "list", "too-little", "other-version", "beyond-silver", "gone"],
)
def test_what_is_not_as_this_version_writes_it_is_nothing(warehouse: Warehouse, text: str) -> None:
    says(warehouse, text)
    assert kept(warehouse) is None
