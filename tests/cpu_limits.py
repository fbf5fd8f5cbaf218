"""Limits on the CPU-seconds of a test run that hold on a machine of any speed.

`cpu_seconds.toml` has the CPU-seconds of each folder and of each tier on a quiet reference machine. Another
machine, or the same one beside busy neighbours, charges up to twice as much for the same tests. Two figures of the
run itself take that out of the comparison:

- The pace is the typical ratio of a folder's cost to its row. A slow machine raises the cost of all folders and so
  the pace; a change that makes one folder dearer leaves the pace as it is. Rows are multiplied by the pace.
- The slowdown is the ratio of a calibration loop's cost to its cost on the reference machine. It does not depend on
  the tests, so that it also shows when all folders get dearer together. The limit of the tier is multiplied by it.
"""

import time
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

LIMITS: Final = Path(__file__).with_name("cpu_seconds.toml")
TOLERANCE: Final = 2.0
"""A folder may take this multiple of its row: a JVM that shares processors slows down more than Python does."""
ALLOWANCE_S: Final = 10.0
"""A folder may exceed its row by this much in any case. One slow start is a large share of a small folder."""
_CALIBRATION_STEPS: Final = 50_000
_REMEDY: Final = (
    "make tests cheaper, move slow ones to the extended tier, or raise the figure and say why in the commit"
)


def measure_calibration_loop() -> float:
    """Return the CPU-seconds of a fixed amount of work of the interpreter in this thread, some milliseconds."""
    start = time.thread_time()
    counts: dict[int, int] = {}
    for step in range(_CALIBRATION_STEPS):
        key = step * 7919 % 1009
        counts[key] = counts.get(key, 0) + len(str(step))
    return time.thread_time() - start


def measure_slowdown() -> float:
    """Return by how much this machine is slower now than the reference machine; 1 if it is not slower.

    For tests that have a bound on CPU time: the same steps take twice as long on some days.
    """
    reference_s = tomllib.loads(LIMITS.read_text())["reference"]["calibration_ms"] / 1000
    return max(1.0, min(measure_calibration_loop() for _ in range(5)) / float(reference_s))


@dataclass(frozen=True, slots=True)
class TierLimits:
    """The expected CPU-seconds of a tier.

    `folders` is the table by folder, `total` the most that the whole tier may take, `calibration_s` the CPU-seconds
    of the calibration loop, all of them on the reference machine.
    """

    folders: Mapping[str, float]
    total: float
    calibration_s: float

    @classmethod
    def from_file(cls, tier: str) -> Self:
        """Read the limits of a tier from `cpu_seconds.toml`. Raises KeyError for an unknown tier."""
        tables = tomllib.loads(LIMITS.read_text())
        return cls(tables[tier], tables["limits"][tier], tables["reference"]["calibration_ms"] / 1000)

    def find_pace(self, cpu_seconds: Mapping[str, float], partial: Collection[str] = ()) -> float:
        """Return the median, weighted by row, of the ratios between the cost of a folder and its row.

        `cpu_seconds` is the cost by folder. Folders in `partial` skipped tests and do not count. Return 1.0 if no
        folder counts.
        """
        ratios = sorted(
            (cost / row, row)
            for folder, cost in cpu_seconds.items()
            if folder not in partial and (row := self.folders.get(folder))
        )
        left = sum(row for _, row in ratios) / 2
        for ratio, row in ratios:
            left -= row
            if left <= 0:
                return ratio
        return 1.0

    def find_excesses(
        self, cpu_seconds: Mapping[str, float], total: float, pace: float, slowdown: float
    ) -> list[str]:
        """Return a sentence for each folder, and one for the tier, that took more than its limit.

        `cpu_seconds` is the cost by folder and `total` that of the tier. A machine that is faster than the
        reference machine does not lower the limit of the tier.
        """
        excesses = []
        for folder, cost in sorted(cpu_seconds.items()):
            row = self.folders.get(folder)
            if row is None:
                if cost > ALLOWANCE_S * max(1.0, pace):
                    excesses.append(
                        f"{folder} took {cost:.0f} CPU-seconds and has no row in {LIMITS.name}: add one"
                    )
            elif cost > row * pace * TOLERANCE + ALLOWANCE_S:
                excesses.append(
                    f"{folder} took {cost:.0f} CPU-seconds, {row * pace:.0f} are expected of it in this run "
                    f"({row:g} in {LIMITS.name}): {_REMEDY}"
                )
        limit = self.total * max(1.0, slowdown)
        if total > limit:
            excesses.append(
                f"the tier took {total:.0f} CPU-seconds, at most {limit:.0f} are allowed on this machine "
                f"({self.total:g} in {LIMITS.name}): {_REMEDY}"
            )
        return excesses
