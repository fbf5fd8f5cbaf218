"""Columns of a table, the texts of their cells, and the lines of a table without colours."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from coordinator.core.message_text import printable

EMPTY_CELL: Final = "-"
"""The text of a cell without a value, so that each row has a word in every column."""
_GAP: Final = "  "
_MAX_CELL: Final = 1000


class Column(NamedTuple):
    """A column of a table."""

    title: str
    is_number: bool = False
    """Whether cells are aligned to the right."""
    wraps: bool = False
    """Whether a terminal may wrap cells."""
    is_optional: bool = False
    """Whether a narrow terminal omits the column."""
    style: Callable[[str], str] = lambda _: ""
    """Returns the style of a cell by its text."""


def format_cell(value: object) -> str:
    """Return the text of a cell, without control characters of clients."""
    text = "" if value is None else printable(str(value), _MAX_CELL)
    return text or EMPTY_CELL


def format_rows(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table. The first one has the titles."""
    cells = [[column.title.upper() for column in columns], *map(list, rows)]
    widths = [max(map(len, texts)) for texts in zip(*cells, strict=True)]
    return [
        _GAP.join(
            text.rjust(width) if column.is_number else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in cells
    ]
