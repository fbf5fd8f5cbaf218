"""Results as text: tables in the terminal and in RESULTS.md."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.neighbours import Neighbours
from benchmarks.process import machine

RESULTS: Final = Path(__file__).with_name("RESULTS.md")


@dataclass
class Report:
    """The answer to one question: how it was measured, and a table."""

    title: str
    method: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    """What is held to bounds, by the names that the benchmark's FIGURES lists: medians, and ratios of them."""
    absent: list[str] = field(default_factory=list)
    """Figures that lack their peer."""

    def markdown(self) -> str:
        """The report as a section of RESULTS.md."""
        lines = [f"## {self.title}", "", self.method, ""]
        lines += [_row(self.columns), _row(["---"] * len(self.columns))]
        lines += [_row(row) for row in self.rows]
        return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def spread(values: Sequence[float], form: str) -> str:
    """Median and range: `132k (128k to 139k)` for form "k"; else `form` is a format specification."""
    if form == "k":
        low, middle, high = (f"{v / 1000:.0f}k" for v in (min(values), median(values), max(values)))
    else:
        low, middle, high = (format(v, form) for v in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"


def write_result(report: Report, neighbours: Neighbours) -> None:
    """Replace the section of this report in RESULTS.md, keep the others.

    In: what else the machine did since before anything was measured.
    """
    sections: dict[str, str] = {}
    if RESULTS.exists():
        for section in RESULTS.read_text().split("\n## ")[1:]:
            sections[section.partition("\n")[0]] = "## " + section.rstrip("\n") + "\n"
    stamp = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}; {neighbours}."
    sections[report.title] = report.markdown() + f"\nMeasured {stamp}\n"
    introduction = (
        "# What groupd costs\n\n"
        "Written by `make bench`. Compare the ratios: peers run in turn with groupd, in the same run, on the "
        "same machine; absolute figures move with the machine. A figure is a median, with the lowest and "
        "highest of the rounds in brackets. CPU time is the server process alone, all threads, user and "
        "system, as the kernel counts it. On a machine that does other work at the same time (see the load "
        "average) caches are cold and everything costs more, short requests most of all. Where a hypervisor takes "
        "the processors away meanwhile (time that is *stolen*), everything costs up to three times as much.\n\n"
    )
    RESULTS.write_text(introduction + "\n".join(sections.values()))
