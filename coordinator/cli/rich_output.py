"""Output on a terminal through rich: the console, tables, highlighted lines."""

import re
import sys
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from coordinator.cli.control.event_line import STATE_STYLES
from coordinator.cli.output_streams import Output
from coordinator.cli.text_table import Column


def create_console(output: Output) -> Console:
    """Return rich's console for an output, with the present width of the terminal."""
    return Console(
        file=sys.stdout,
        force_terminal=output.is_terminal,
        color_system="standard" if output.is_colored else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def create_template(style: str) -> str:
    """Return a template that colours a text, with the sixteen colours of every terminal."""
    return Style.parse(style).render("%s", color_system=ColorSystem.STANDARD)


_PATTERN_STYLES: Final = {
    "number": (r"(?<!\S)#\d+(?!\S)", "bold"),
    "time": (r"\b\d\d:\d\d:\d\d(?:\.\d{3})?\b", "dim"),
    "bad": (r"\b(?:session expired|expired|evicted|fenced|failed|lost by|no owner|unowned|never)\b", "red"),
    "hint": (r"^ *(?:hint|also):", "cyan"),
    "duration": (r"(?<![\w.])\+?\d+(?:\.\d+)? (?:ms|s|min|h|d)\b", "yellow"),
    "held": (r"\b(?:frozen|holding|held)\b", "magenta"),
}
"""Patterns of highlighted text other than states, with their styles."""
_PATTERN: Final = re.compile(
    "|".join(
        [
            rf"\b(?:{'|'.join(STATE_STYLES)})\b",
            *(f"(?P<{name}>{words})" for name, (words, _) in _PATTERN_STYLES.items()),
        ]
    )
)
_TEMPLATES: Final = {name: create_template(style) for name, (_, style) in _PATTERN_STYLES.items()}
DIM_TEMPLATE: Final = create_template("dim")
_STATE_TEMPLATES: Final = {state: create_template(style) for state, style in STATE_STYLES.items()}


def highlight_line(line: str) -> str:
    """Return a line with colours. It must not contain control characters."""
    return _PATTERN.sub(_color_match, line)


def _color_match(found: re.Match[str]) -> str:
    text = found[0]
    return (_STATE_TEMPLATES.get(text) or _TEMPLATES[str(found.lastgroup)]) % text


_MIN_WRAPPED_CELLS: Final = 12
_GAP: Final = 1


def create_terminal_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], cells: int) -> Table:
    """Return a table for a terminal. Text of rows is never interpreted as markup."""
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, _GAP, 0, 0), show_edge=False, pad_edge=False, header_style="dim"
    )
    numbers = _select_columns(columns, rows, cells)
    for column in (columns[number] for number in numbers):
        table.add_column(
            Text(column.title),
            justify="right" if column.is_number else "left",
            no_wrap=not column.wraps,
            overflow="fold" if column.wraps else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(row[number], columns[number].style(row[number])) for number in numbers))
    return table


def _select_columns(columns: Sequence[Column], rows: Sequence[Sequence[str]], cells: int) -> list[int]:
    """Return the numbers of the columns that fit. The last optional column is dropped first."""
    numbers = list(range(len(columns)))
    widths = [_find_min_width(column, [row[number] for row in rows]) for number, column in enumerate(columns)]
    for number in reversed(numbers.copy()):
        if sum(widths[shown] + 2 * _GAP for shown in numbers) <= cells:
            break
        if columns[number].is_optional:
            numbers.remove(number)
    return numbers


def _find_min_width(column: Column, texts: Sequence[str]) -> int:
    width = max(map(cell_len, (column.title, *texts)))
    return min(width, _MIN_WRAPPED_CELLS) if column.wraps else width
