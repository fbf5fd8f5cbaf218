"""A table for a terminal: as wide as it is, with colours."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from coordinator.cli.control.table import Column


def terminal_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Table:
    """What rich prints. Nothing in a cell is taken for markup."""
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False, header_style="dim"
    )
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.is_figure else "left",
            no_wrap=not column.folds,
            overflow="fold" if column.folds else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(text, column.style(text)) for text, column in zip(row, columns, strict=True)))
    return table
