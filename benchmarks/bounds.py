"""The bounds of figures (bounds.toml) and the verdicts on measurements.

A ratio to a peer within one run is valid on any machine. So are sizes and counts of bytecodes (of one Python
version), files, functions or context switches. An absolute time is not valid if the hypervisor stole processor time
meanwhile.
"""

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from benchmarks.neighbours import STOLEN

BOUNDS: Final = Path(__file__).with_name("bounds.toml")
_SIZES_AND_COUNTS: Final = frozenset({"bytes", "bytecodes", "files", "functions", "MB", "switches"})
_KEYS: Final = frozenset({"at_least", "at_most", "peer", "unit", "why"})


class BadBounds(Exception):
    """bounds.toml is malformed. The text names the entry."""


class Verdict(StrEnum):
    """The verdict on a figure."""

    INSIDE = "inside"
    OUTSIDE = "OUTSIDE"
    MISSING = "MISSING"
    STOLEN = "not judged: time was stolen"
    NO_PEER = "not judged: no peer"
    OTHER_PYTHON = "not judged: another version of Python"

    @property
    def is_failure(self) -> bool:
        """Whether it makes the command fail."""
        return self in (Verdict.OUTSIDE, Verdict.MISSING)


@dataclass(frozen=True)
class Bound:
    """The bounds of a figure: a ratio to `peer`, or without a peer a value in `unit`."""

    benchmark: str
    figure: str
    peer: str | None
    unit: str | None
    at_least: float | None
    at_most: float | None
    why: str

    def __str__(self) -> str:
        sides = [
            f"{words} {value:g}"
            for words, value in (("at least", self.at_least), ("at most", self.at_most))
            if value is not None
        ]
        return " and ".join(sides) + ("" if self.unit is None else f" {self.unit}")

    def holds(self, value: float) -> bool:
        """Return whether a figure is within the bounds, inclusive."""
        return (self.at_least is None or self.at_least <= value) and (
            self.at_most is None or value <= self.at_most
        )

    @property
    def is_moved_by_theft(self) -> bool:
        """Return whether stolen time changes the figure."""
        return self.peer is None and self.unit not in _SIZES_AND_COUNTS


@dataclass(frozen=True)
class Judged:
    """A bound and the measured figure, or None if it was not measured."""

    bound: Bound
    value: float | None
    verdict: Verdict
    stolen: float
    """The share of processor time that was stolen during the measurement."""

    def __str__(self) -> str:
        bound = self.bound
        value = "no figure" if self.value is None else f"{self.value:.4g}"
        peer = "" if bound.peer is None else f" (to {bound.peer})"
        stolen = f"; {self.stolen:.0%} of the processors' time was stolen" if self.stolen > STOLEN else ""
        return (
            f"{self.verdict}: {bound.benchmark}: {bound.figure}: {value}, {bound}{peer}{stolen}; {bound.why}"
        )


def read_bounds(
    known: Mapping[str, Collection[str]], path: Path = BOUNDS, *, only: str | None = None
) -> list[Bound]:
    """Read the bounds of all figures.

    Args:
        known: the figures of each benchmark.
        path: the file.
        only: read only the bounds of this benchmark; None: of all.

    Raises:
        BadBounds: the file is malformed.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadBounds(f"{path.name}: {error}") from error
    if only is not None:
        tables = {only: tables.get(only, {})}
    bounds: list[Bound] = []
    for benchmark, entries in tables.items():
        if not isinstance(entries, dict):
            raise BadBounds(f"{path.name}: {benchmark}: is no table of figures")
        bounds += [_bound(benchmark, figure, entry) for figure, entry in entries.items()]
    for bound in bounds:
        if bound.figure not in known.get(bound.benchmark, ()):
            raise BadBounds(f"{path.name}: nothing measures {bound.benchmark}: {bound.figure}")
    return bounds


def _bound(benchmark: str, figure: str, entry: Mapping[str, Any]) -> Bound:
    where = f"{BOUNDS.name}: {benchmark}: {figure}"
    if not isinstance(entry, dict) or entry.keys() - _KEYS:
        raise BadBounds(f"{where}: takes {', '.join(sorted(_KEYS))}")
    if "at_least" not in entry and "at_most" not in entry:
        raise BadBounds(f"{where}: has neither at_least nor at_most")
    if ("peer" in entry) == ("unit" in entry):
        raise BadBounds(f"{where}: has either a peer or a unit")
    if not entry.get("why"):
        raise BadBounds(f"{where}: does not say why")
    return Bound(
        benchmark,
        figure,
        peer=entry.get("peer"),
        unit=entry.get("unit"),
        at_least=entry.get("at_least"),
        at_most=entry.get("at_most"),
        why=entry["why"],
    )


def judge(
    bounds: Collection[Bound], figures: Mapping[str, float], absent: Collection[str], stolen: float
) -> list[Judged]:
    """Judge the figures of one benchmark.

    Args:
        bounds: the bounds of the benchmark.
        figures: its figures.
        absent: the names of figures without their peer or Python version.
        stolen: the share of processor time that was stolen during the benchmark.
    """
    return [
        Judged(bound, figures.get(bound.figure), _verdict(bound, figures, absent, stolen), stolen)
        for bound in bounds
    ]


def _verdict(bound: Bound, figures: Mapping[str, float], absent: Collection[str], stolen: float) -> Verdict:
    value = figures.get(bound.figure)
    if value is None:
        if bound.figure not in absent:
            return Verdict.MISSING
        return Verdict.OTHER_PYTHON if bound.peer is None else Verdict.NO_PEER
    if stolen > STOLEN and bound.is_moved_by_theft:
        return Verdict.STOLEN
    return Verdict.INSIDE if bound.holds(value) else Verdict.OUTSIDE


def table(judged: Collection[Judged]) -> list[str]:
    """Return the last lines of `make bench`: each figure out of bounds, with the reason for its bound."""
    others = [one for one in judged if one.verdict is not Verdict.INSIDE]
    lines = [str(one) for one in sorted(others, key=lambda one: not one.verdict.is_failure)]
    inside = len(judged) - len(others)
    return [*lines, f"{inside} of {len(judged)} figures are inside their bounds (benchmarks/{BOUNDS.name})"]
