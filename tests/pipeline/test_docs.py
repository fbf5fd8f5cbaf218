"""The page on the tables lists the columns of the code."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
SECTION = re.compile(r"^### `(\w+)`$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (\w+) \| ([^|]+?) \| ([^|]*?) ?\| (.+) \|$", re.MULTILINE)


def documented() -> dict[str, list[tuple[str, str]]]:
    """The columns of each table on the page, as (name, type)."""
    tables = {}
    for name, text in SECTION.findall(PAGE.read_text()):
        (block,) = (block for block in text.split("\n\n") if block.startswith("| column |"))
        columns = [(column, kind.replace("\\", "")) for column, kind, _, _ in ROW.findall(block)]
        tables[name] = columns[1:]
    return tables


def test_every_table_is_documented_column_by_column() -> None:
    pytest.importorskip("pyspark")
    from pipeline.build import GOLD
    from pipeline.silver.schemas import SILVER

    declared = {name: list(table.columns) for name, table in (SILVER | GOLD).items()}
    assert documented() == declared


def test_times_have_a_zone_and_lengths_a_unit() -> None:
    text = PAGE.read_text()
    for column, kind, unit, _ in ROW.findall(text):
        if kind == "timestamp":
            assert unit == "UTC", column
        suffix = column.rpartition("_")[2]
        if suffix in {"ms", "s"}:
            assert unit.partition("/")[2] or unit == suffix, column
