"""Results as text: tables in the terminal and in RESULTS.md."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.bounds import Judged, Verdict
from benchmarks.neighbours import STOLEN, Neighbours
from benchmarks.process import machine

RESULTS: Final = Path(__file__).with_name("RESULTS.md")


class Absolute(str):
    """A cell that says what something took on this machine: nothing where others had its processors meanwhile.

    All other cells are names, sizes, or ratios of interleaved pairs, which count on any machine.
    """

    __slots__ = ()


INTRODUCTION: Final = (
    "# What groupd costs\n\n"
    "Written by `make bench`. Compare the ratios: peers run in turn with groupd, in the same run, on the "
    "same machine; absolute figures move with the machine. A figure is a median, with the lowest and "
    "highest of the rounds in brackets. CPU time is the server process alone, all threads, user and "
    "system, as the kernel counts it. On a machine that does other work at the same time (see the load "
    "average) caches are cold and everything costs more, short requests most of all. Where a hypervisor takes "
    "the processors away meanwhile (time that is *stolen*), everything costs up to three times as much; from "
    f"{STOLEN:.0%} on only sizes and ratios of interleaved pairs are kept. What lies outside of its bounds "
    "(bounds.toml), targets that are not reached included, is named below each table.\n\n"
)
_ONLY_RATIOS: Final = (
    "only sizes and ratios of interleaved pairs are kept, and those scatter more than on a quiet machine."
)


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
    """Figures that lack their peer, or the version of Python that their bounds are of."""

    unsettled: list[str] = field(default_factory=list)
    """Servers that were still getting faster or slower when they were measured."""

    def markdown(self, stolen: float) -> str:
        """Return the report as a section of RESULTS.md. `stolen` is the share of stolen processor time, 0 to 1."""
        lines = [f"## {self.title}", "", self.method, ""]
        if self.unsettled:
            lines += [f"Never settled while it was warmed up: {'; '.join(self.unsettled)}.", ""]
        is_stolen = stolen > STOLEN
        if is_stolen:
            lines += [f"**{stolen:.0%} of the processors' time was stolen:** {_ONLY_RATIOS}", ""]
        lines += [_row(self.columns), _row(["---"] * len(self.columns))]
        lines += [_row([_shown(cell, is_stolen) for cell in row]) for row in self.rows]
        return "\n".join(lines) + "\n"


def _shown(cell: str, is_stolen: bool) -> str:
    return "(stolen)" if is_stolen and cell and isinstance(cell, Absolute) else cell


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def spread(values: Sequence[float], form: str) -> str:
    """Median and range: `132k (128k to 139k)` for form "k"; else `form` is a format specification."""
    if form == "k":
        low, middle, high = (f"{v / 1000:.0f}k" for v in (min(values), median(values), max(values)))
    else:
        low, middle, high = (format(v, form) for v in (min(values), median(values), max(values)))
    return f"{middle} ({low} to {high})"


def write_result(report: Report, neighbours: Neighbours, judged: Sequence[Judged]) -> None:
    """Replace this report's section of RESULTS.md. `neighbours` are the other processes of the machine during the
    measurement, and `judged` are the verdicts on the figures.
    """
    sections: dict[str, str] = {}
    if RESULTS.exists():
        for section in RESULTS.read_text().split("\n## ")[1:]:
            sections[section.partition("\n")[0]] = "## " + section.rstrip("\n") + "\n"
    stamp = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}; {neighbours}."
    missed = [f"- {one}\n" for one in judged if one.verdict is not Verdict.INSIDE]
    told = "\nNot inside of their bounds:\n\n" + "".join(missed) if missed else ""
    sections[report.title] = report.markdown(neighbours.stolen) + told + f"\nMeasured {stamp}\n"
    RESULTS.write_text(INTRODUCTION + "\n".join(sections.values()))
