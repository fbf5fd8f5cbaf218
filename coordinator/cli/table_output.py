"""Tables and labelled values on standard output: plain for programs, coloured through rich for people."""

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.cli.output_streams import Output
from coordinator.cli.text_table import Column, format_rows

_GAP: Final = "  "


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], output: Output) -> None:
    """Print a table of cells from `format_cell`."""
    if output.is_for_people:
        from coordinator.cli.rich_output import create_console, create_terminal_table

        console = create_console(output)
        console.print(create_terminal_table(columns, rows, console.width))
    else:
        print("\n".join(format_rows(columns, rows)))


def print_fields(fields: Iterable[tuple[str, str]], output: Output) -> None:
    """Print labels with their values, which may have several lines."""
    found = list(fields)
    width = max(len(label) for label, _ in found)
    for label, text in found:
        if output.is_colored:
            from coordinator.cli.rich_output import DIM_TEMPLATE, highlight_line

            print(f"{DIM_TEMPLATE % label.ljust(width)}{_GAP}{highlight_line(text)}")
        else:
            print(f"{label.ljust(width)}{_GAP}{text}")
