"""What `groupd log repair` shows to a person: a block a loss, and a table of the logs in question."""

from typing import Final

from rich.text import Text

from coordinator.cli.log.console import print_block, print_figures, title_of
from coordinator.cli.log.repair_report import Repaired, where_of, why_of
from coordinator.cli.output import Output
from coordinator.cli.rich_console import console_of
from coordinator.net.peer import printable

_MAX_TEXT: Final = 2000


class TableReport:
    """A `RepairReport` for a terminal."""

    def __init__(self, output: Output) -> None:
        self._console = console_of(output)
        self._logs: list[Repaired] = []

    def say(self, repaired: Repaired) -> None:
        self._logs.append(repaired)
        for loss in repaired.result.losses:
            what = printable(f"{loss.length} bytes lost, {why_of(loss)}", _MAX_TEXT)
            print_block(self._console, printable(where_of(loss), _MAX_TEXT), [(loss.kind.value, "red", what)])
        for path in repaired.damaged:
            print_block(self._console, printable(path, _MAX_TEXT), [("kept", "dim", "as it was")])

    def sum_up(self) -> None:
        rows: list[tuple[str | int, ...]] = [
            (title_of(repaired.log), *_figures(repaired), repaired.result.log_end_offset)
            for repaired in self._logs
            if repaired.result.losses or repaired.damaged
        ]
        sums = [sum(column) for column in zip(*map(_figures, self._logs), strict=True)]
        rows.append((f"all logs ({len(self._logs):,})", *sums, ""))
        titles = ("log", "batches", "records", "bytes kept", "bytes lost", "ends at offset")
        print_figures(self._console, titles, rows)
        if not any(repaired.result.losses for repaired in self._logs):
            self._console.print()
            self._console.print(Text("nothing was lost", "bold green"))


def _figures(repaired: Repaired) -> tuple[int, ...]:
    return repaired.batches, repaired.records, repaired.bytes, repaired.lost_bytes
