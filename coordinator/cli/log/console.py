"""What a terminal, or a pager that shows colours, is shown of logs: tables, blocks of text."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator.net.peer import printable
from storage.inspection.directory_reader import LogFiles

_LABEL_CELLS: Final = 20
_LEAST_NAME_CELLS: Final = 20
_COLUMN_GAP: Final = "  "
_MAX_TITLE: Final = 200


def print_figures(console: Console, titles: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
    """A table of what is named in the first column, with figures in the others.

    On a narrow terminal names are wrapped, figures never: there the terminal wraps the rows.
    """
    texts = [[cell if isinstance(cell, str) else f"{cell:,}" for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(titles, *texts, strict=True)]
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False, pad_edge=False, header_style="dim"
    )
    table.add_column(titles[0], overflow="fold", style="bold")
    for title in titles[1:]:
        table.add_column(title, justify="right", no_wrap=True)
    for row in texts:
        table.add_row(*map(Text, row))
    least = min(widths[0], _LEAST_NAME_CELLS) + sum(len(_COLUMN_GAP) + width for width in widths[1:])
    cells = console.width
    console.width = max(cells, least)
    console.print(table)
    console.width = cells


def title_of(log: LogFiles) -> str:
    """What to call a log in a table."""
    if log.name is not None:
        return str(log.name)
    return printable(log.directory if log.is_whole else log.segments[0].path, _MAX_TITLE)


def labelled(rows: Iterable[tuple[str, str, str]], *, indent: str = "", label_cells: int = 0) -> Table:
    """Texts behind their labels, which have styles; the texts are wrapped."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=label_cells)
    table.add_column(overflow="fold")
    for label, style, text in rows:
        table.add_row(Text(indent).append(label, style), Text(text))
    return table


def print_block(console: Console, heading: str, rows: Iterable[tuple[str, str, str]]) -> None:
    """Labelled texts under a heading, which stays in one piece so that it can be copied."""
    console.print(Text(heading, "bold"), soft_wrap=True)
    console.print(labelled(rows, indent="  ", label_cells=_LABEL_CELLS))
    console.print()
