"""A table for a terminal: as wide as it is, with colours."""

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from coordinator.cli.control.table import Column

_LEAST_FOLDED: Final = 12
_GAP: Final = 1


def terminal_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], cells: int) -> Table:
    """What rich prints on a terminal that is so wide. Nothing in a row is taken for markup."""
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, _GAP, 0, 0), show_edge=False, pad_edge=False, header_style="dim"
    )
    numbers = _shown(columns, rows, cells)
    for column in (columns[number] for number in numbers):
        table.add_column(
            Text(column.title),
            justify="right" if column.is_figure else "left",
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(row[number], columns[number].style(row[number])) for number in numbers))
    return table


def _shown(columns: Sequence[Column], rows: Sequence[Sequence[str]], cells: int) -> list[int]:
    """The columns that there is room for, by number. The last of those that may go goes first."""
    numbers = list(range(len(columns)))
    widths = [_least_width(column, [row[number] for row in rows]) for number, column in enumerate(columns)]
    for number in reversed(numbers.copy()):
        if sum(widths[shown] + 2 * _GAP for shown in numbers) <= cells:
            break
        if columns[number].may_go:
            numbers.remove(number)
    return numbers


def _least_width(column: Column, texts: Sequence[str]) -> int:
    width = max(map(cell_len, (column.title, *texts)))
    return min(width, _LEAST_FOLDED) if column.folds else width
