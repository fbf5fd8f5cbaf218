"""Detect when a server is warm: consecutive windows of the same load have the same cost.

A Java program compiles itself while it runs and becomes several times as fast; caches fill everywhere. A comparison
with a cold peer is not fair.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from benchmarks.flood import Load, Side, flood

IN_A_ROW: Final = 3
AGREEMENT: Final = 0.05
MOST_WINDOWS: Final = 16


class WarmedUp(NamedTuple):
    """The measurements of the windows of a warm-up, in order."""

    figures: Sequence[float]

    @property
    def apart(self) -> float:
        """Return the spread of the last windows relative to the lowest; infinite if there are too few."""
        last = self.figures[-IN_A_ROW:]
        return max(last) / min(last) - 1 if len(last) == IN_A_ROW else float("inf")

    @property
    def is_settled(self) -> bool:
        """Return whether the server is warm."""
        return self.apart <= AGREEMENT

    def __str__(self) -> str:
        windows = f"{len(self.figures)} windows"
        return windows if len(self.figures) < IN_A_ROW else f"{windows}, the last {self.apart:.0%} apart"


def method(most: int) -> str:
    """Describe the method for a report. `most` is the maximum number of windows per server."""
    return (
        f"Each server was warmed up until {IN_A_ROW} windows in a row agreed within {AGREEMENT:.0%}, and for "
        f"{most} windows at most."
    )


METHOD: Final = method(MOST_WINDOWS)


async def warm_up(window: Callable[[], Awaitable[float]], most: int = MOST_WINDOWS) -> WarmedUp:
    """Measure windows until the server is warm, at most `most`."""
    warmed = WarmedUp([])
    while len(warmed.figures) < most and not warmed.is_settled:
        warmed = WarmedUp([*warmed.figures, await window()])
    return warmed


async def warm_up_sides(
    sides: Mapping[str, Side], loads: Sequence[Load], most: int, seconds: float
) -> list[str]:
    """Warm up every side with every load in turn, in windows of `seconds`. Return a text for each that did not
    settle.
    """
    never = []
    for name, side in sides.items():
        for load in loads:

            async def window(side: Side = side, load: Load = load) -> float:
                return (await flood(side.server, side.connections, load, seconds)).per_cpu_second

            warmed = await warm_up(window, most)
            if not warmed.is_settled:
                never.append(f"{name} at {load} ({warmed})")
    return never if most >= IN_A_ROW else ["all of them, for want of time"]
