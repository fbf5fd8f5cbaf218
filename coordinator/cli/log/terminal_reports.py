"""Tables and blocks of `groupd log verify`, `repair` and `stats` on a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from coordinator.cli.log.finding_reports import VerifiedLog, describe_finding, sum_totals
from coordinator.cli.log.log_statistics import COLUMNS, LogStats, RecordCount, sort_by_bytes
from coordinator.cli.log.repair_reports import RepairOutcome, format_loss_place, format_loss_reason
from coordinator.cli.output_streams import Output
from coordinator.cli.rich_output import create_console
from coordinator.core.message_text import printable
from storage.inspection.log_findings import FindingEffect, LogFinding
from storage.inspection.log_reader import LogListing

_LABEL_CELLS: Final = 20
_MIN_NAME_CELLS: Final = 20
_COLUMN_GAP: Final = "  "
_MAX_TITLE: Final = 200


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


def format_log_title(log: LogListing) -> str:
    """Return the name of a log in a table."""
    if log.name is not None:
        return str(log.name)
    return printable(log.directory if log.is_whole else log.segments[0].path, _MAX_TITLE)


def create_labelled_table(
    rows: Iterable[tuple[str, str, str]], *, indent: str = "", label_cells: int = 0
) -> Table:
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
    console.print(create_labelled_table(rows, indent="  ", label_cells=_LABEL_CELLS))
    console.print()


_EFFECT_STYLES: Final = {
    FindingEffect.STOPS_LOAD: "red",
    FindingEffect.FAILS_READS: "red",
    FindingEffect.CUT_AT_START: "yellow",
    FindingEffect.MISLEADS_READS: "yellow",
    FindingEffect.REBUILT: "cyan",
    FindingEffect.TAKEN_BACK: "yellow",
    FindingEffect.STOPS_START: "red",
}


class FindingBlockReport:
    """A `FindingReport` for a terminal."""

    def __init__(self, output: Output) -> None:
        self._console = create_console(output)

    def print_finding(self, log: LogListing, finding: LogFinding) -> None:
        text = describe_finding(finding)
        style = _EFFECT_STYLES[finding.effect]
        print_block(
            self._console,
            text.where,
            [
                (finding.kind.value, style, f"{text.what}{text.at}"),
                (finding.effect.value, style, text.meaning),
                ("repair", "dim", text.repair),
            ],
        )

    def print_summary(self, logs: Sequence[VerifiedLog]) -> None:
        sums = sum_totals(logs)
        count, *figures_of_all = sums.values()
        rows: list[tuple[str | int, ...]] = [
            (
                format_log_title(verified.log),
                len(verified.log.segments),
                verified.totals.batches,
                verified.totals.records,
                verified.totals.bytes,
                verified.findings,
            )
            for verified in logs
            if verified.findings
        ]
        rows.append((f"all logs ({count:,})", *figures_of_all))
        print_number_table(self._console, ("log", *list(sums)[1:]), rows)
        self._console.print()
        self._console.print(
            Text("sound", "bold green") if not sums["findings"] else Text("not sound", "bold red")
        )


_MAX_TEXT: Final = 2000


class RepairTableReport:
    """A `RepairReport` for a terminal."""

    def __init__(self, output: Output) -> None:
        self._console = create_console(output)
        self._logs: list[RepairOutcome] = []

    def print_outcome(self, repaired: RepairOutcome) -> None:
        self._logs.append(repaired)
        for loss in repaired.result.losses:
            what = printable(f"{loss.length} bytes lost, {format_loss_reason(loss)}", _MAX_TEXT)
            print_block(
                self._console, printable(format_loss_place(loss), _MAX_TEXT), [(loss.kind.value, "red", what)]
            )
        for path in repaired.damaged:
            print_block(self._console, printable(path, _MAX_TEXT), [("kept", "dim", "unchanged")])

    def print_summary(self) -> None:
        rows: list[tuple[str | int, ...]] = [
            (format_log_title(repaired.log), *_list_figures(repaired), repaired.result.log_end_offset)
            for repaired in self._logs
            if repaired.result.losses or repaired.damaged
        ]
        sums = [sum(column) for column in zip(*map(_list_figures, self._logs), strict=True)]
        rows.append((f"all logs ({len(self._logs):,})", *sums, ""))
        titles = ("log", "batches", "records", "bytes kept", "bytes lost", "ends at offset")
        print_number_table(self._console, titles, rows)
        if not any(repaired.result.losses for repaired in self._logs):
            self._console.print()
            self._console.print(Text("nothing was lost", "bold green"))


def _list_figures(repaired: RepairOutcome) -> tuple[int, ...]:
    return repaired.batches, repaired.records, repaired.bytes, repaired.lost_bytes


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


def _list_summary(stats: LogStats) -> Iterator[tuple[str, str, str]]:
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
