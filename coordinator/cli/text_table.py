"""Rows in columns: as they are for programs, laid out and coloured for a terminal."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from coordinator.cli.output_streams import Output
from coordinator.core.message_text import printable

EMPTY_CELL: Final = "-"
"""What stands in a cell that has nothing to say, so that every row has as many words as there are columns."""
_GAP: Final = "  "
_MAX_CELL: Final = 1000


class Column(NamedTuple):
    """A column: its title; whether its cells are figures, aligned right; whether a terminal may wrap them;
    whether a narrow terminal may omit it; the style of a cell, by its text."""

    title: str
    is_number: bool = False
    wraps: bool = False
    is_optional: bool = False
    style: Callable[[str], str] = lambda _: ""


def format_cell(value: object) -> str:
    """Return the text of a cell for a value. Text of clients cannot control a terminal."""
    text = "" if value is None else printable(str(value), _MAX_CELL)
    return text or EMPTY_CELL


def format_rows(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, the first with the titles."""
    cells = [[column.title.upper() for column in columns], *map(list, rows)]
    widths = [max(map(len, texts)) for texts in zip(*cells, strict=True)]
    return [
        _GAP.join(
            text.rjust(width) if column.is_number else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in cells
    ]


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], output: Output) -> None:
    """Print a table of cells from `format_cell`."""
    if output.is_for_people:
        from coordinator.cli.rich_output import create_console, create_terminal_table

        console = create_console(output)
        console.print(create_terminal_table(columns, rows, console.width))
    else:
        print("\n".join(format_rows(columns, rows)))


def print_fields(fields: Iterable[tuple[str, str]], output: Output) -> None:
    """Format labels with their values, which may have several lines."""
    found = list(fields)
    width = max(len(label) for label, _ in found)
    for label, text in found:
        if output.is_colored:
            from coordinator.cli.rich_output import DIM_TEMPLATE, highlight_line

            print(f"{DIM_TEMPLATE % label.ljust(width)}{_GAP}{highlight_line(text)}")
        else:
            print(f"{label.ljust(width)}{_GAP}{text}")
