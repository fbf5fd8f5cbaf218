"""Tables and blocks of `groupd log verify`, `repair` and `stats` on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from coordinator.cli.log.log_report import LabelledText, ReportEntry, ReportSummary
from coordinator.cli.log.log_statistics import COLUMNS, LogStats, RecordCount, sort_by_bytes
from coordinator.cli.output_streams import Output
from coordinator.cli.rich_output import create_console
from coordinator.core.message_text import printable

_LABEL_CELLS: Final = 20
_MIN_NAME_CELLS: Final = 20
_COLUMN_GAP: Final = "  "


def print_number_table(console: Console, titles: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
    """Build a table with names in the first column and figures in the others.

    On a narrow terminal the table wraps names. The terminal wraps rows whose figures do not fit.
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
    least = min(widths[0], _MIN_NAME_CELLS) + sum(len(_COLUMN_GAP) + width for width in widths[1:])
    cells = console.width
    console.width = max(cells, least)
    console.print(table)
    console.width = cells


def create_labelled_table(rows: Iterable[LabelledText], *, indent: str = "", label_cells: int = 0) -> Table:
    """Create a table of labels with styles and texts. The texts are wrapped."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=label_cells)
    table.add_column(overflow="fold")
    for label, style, text in rows:
        table.add_row(Text(indent).append(label, style), Text(text))
    return table


class TerminalReport:
    """A `LogReport` for a terminal: a block for each entry, and a table."""

    def __init__(self, output: Output) -> None:
        self._console = create_console(output)

    def print_entry(self, entry: ReportEntry) -> None:
        if entry.rows:
            # A heading stays in one piece so that it can be copied.
            self._console.print(Text(entry.heading, "bold"), soft_wrap=True)
            self._console.print(create_labelled_table(entry.rows, indent="  ", label_cells=_LABEL_CELLS))
            self._console.print()

    def print_summary(self, summary: ReportSummary) -> None:
        print_number_table(self._console, summary.titles, summary.rows)
        if summary.verdict is not None:
            self._console.print()
            self._console.print(Text(*summary.verdict))


_MAX_NAME: Final = 200


def print_stats_tables(stats: LogStats, top: int, output: Output) -> None:
    """Print the statistics as tables, with the largest groups and without single logs."""
    console = create_console(output)
    console.print(create_labelled_table(_list_summary(stats)))
    groups = sort_by_bytes(stats.record_counter.groups)
    for title, counts in (
        ("type", sort_by_bytes(stats.record_counter.types)),
        (f"group ({min(top, len(groups))} of {len(groups)})", groups[:top]),
    ):
        if counts:
            console.print()
            print_number_table(console, (title, *COLUMNS.values()), map(_format_row, counts))


def _format_row(counted: tuple[str, RecordCount]) -> Sequence[str | int]:
    name, count = counted
    return printable(name, _MAX_NAME), *(getattr(count, column) for column in COLUMNS)


def _list_summary(stats: LogStats) -> Iterator[LabelledText]:
    total, offsets = stats.total, stats.record_counter.offsets
    fields = total.fields()
    yield "logs", "dim", f"{len(stats.logs):,}, with {stats.segments:,} segments"
    yield "size", "dim", f"{decimal(total.bytes)} ({total.bytes:,} bytes)"
    yield "records", "dim", f"{total.records:,} in {total.batches:,} batches"
    if total.first_ms is not None:
        yield "time", "dim", f"{fields['first_time']} to {fields['last_time']}".replace("T", " ")
    if total.codecs:
        shares = ", ".join(f"{codec} {one['share']:.1%}" for codec, one in fields["codecs"].items())
        yield "codecs", "dim", f"{shares} of the bytes"
    if offsets.records:
        live = f"{offsets.live_keys:,} live keys, {offsets.tombstones:,} tombstones"
        share = offsets.superseded_records / offsets.records
        yield "offsets", "dim", f"{live}, {share:.1%} of the records superseded"
    if total.bad_bytes:
        yield "damage", "red", f"{total.bad_bytes:,} bytes skipped; run groupd log verify for the causes"
