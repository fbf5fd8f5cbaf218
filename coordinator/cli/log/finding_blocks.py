"""What `groupd log verify` shows to a person: a block a finding, and a table of the logs in question."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from coordinator.cli.log.console import print_block, print_figures, title_of
from coordinator.cli.log.finding_form import words_of
from coordinator.cli.log.finding_report import VerifiedLog, sums_of
from coordinator.cli.output import Output
from coordinator.cli.rich_console import console_of
from storage.inspection.directory_reader import LogFiles
from storage.inspection.findings import Effect, Finding

_EFFECT_STYLES: Final = {
    Effect.STOPS_LOAD: "red",
    Effect.FAILS_READS: "red",
    Effect.CUT_AT_START: "yellow",
    Effect.MISLEADS_READS: "yellow",
    Effect.REBUILT: "cyan",
    Effect.TAKEN_BACK: "yellow",
    Effect.STOPS_START: "red",
}


class BlockReport:
    """A `FindingReport` for a terminal."""

    def __init__(self, output: Output) -> None:
        self._console = console_of(output)

    def say(self, log: LogFiles, finding: Finding) -> None:
        words = words_of(finding)
        style = _EFFECT_STYLES[finding.effect]
        print_block(
            self._console,
            words.where,
            [
                (finding.kind.value, style, f"{words.what}{words.at}"),
                (finding.effect.value, style, words.meaning),
                ("repair", "dim", words.repair),
            ],
        )

    def sum_up(self, logs: Sequence[VerifiedLog]) -> None:
        sums = sums_of(logs)
        count, *figures_of_all = sums.values()
        rows: list[tuple[str | int, ...]] = [
            (
                title_of(verified.log),
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
        print_figures(self._console, ("log", *list(sums)[1:]), rows)
        self._console.print()
        self._console.print(
            Text("sound", "bold green") if not sums["findings"] else Text("not sound", "bold red")
        )
