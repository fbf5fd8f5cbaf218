"""Tables of groupd and its peers: floods of the same requests in turn, with a ratio for each pair in a round."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple

from benchmarks.flood import Load, Measured, Side, in_turn
from benchmarks.groups import SHARES, speaking
from benchmarks.process import Server
from benchmarks.report import Absolute, Report, spread
from benchmarks.warm_up import MOST_WINDOWS, warm_up_sides

Frames = Mapping[str, tuple[Server, Sequence[bytes]]]
"""The compared servers, each with one request frame per group."""
Seen = Mapping[tuple[str, Load], Sequence[Measured]]
"""The measurements of all rounds by side and load."""
QUANTILES: Final = {0.5: "p50", 0.99: "p99"}


class Pace(NamedTuple):
    """The measurement plan: rounds, seconds of each flood, and the most windows of that length for the warm-up."""

    rounds: int
    seconds: float
    windows: int


FULL: Final = Pace(10, 1.0, MOST_WINDOWS)
QUICK: Final = Pace(1, 0.2, 1)


def ratios(seen: Seen, ours: str, other: str, load: Load) -> list[float]:
    """Return the ratios of requests per CPU second, one for each round."""
    pairs = zip(seen[ours, load], seen[other, load], strict=True)
    return [mine.per_cpu_second / its.per_cpu_second for mine, its in pairs]


def latency_ratios(seen: Seen, ours: str, other: str, load: Load, quantile: float) -> list[float]:
    """Return the ratios of latency with one request in flight, one for each round."""
    pairs = zip(seen[ours, load], seen[other, load], strict=True)
    return [mine.waited_ms(quantile) / its.waited_ms(quantile) for mine, its in pairs]


def columns(ours: Sequence[str], per_cpu_second: str, variant: str = "members a connection") -> list[str]:
    """Return the columns of the table that `compare` fills. `ours` are the sides of groupd; `per_cpu_second` names
    the unit; `variant` is the heading of the second column.
    """
    to_it = [f"{name} to it" for name in ours]
    return ["in flight", variant, "server", per_cpu_second, "busy", "p50 ms", "p99 ms", *to_it]


async def compare(
    report: Report, frames: Frames, ours: Sequence[str], loads: Sequence[Load], pace: Pace
) -> dict[int, Seen]:
    """Flood all warm servers in turn, with each share of the frames per connection, and add the rows.

    `ours` are the sides of groupd. Returns the measurements by share.
    """
    seen: dict[int, Seen] = {}
    for share in SHARES:
        sides = {
            name: Side(server, await speaking(server, each, share)) for name, (server, each) in frames.items()
        }
        seen[share] = await compare_sides(report, sides, ours, loads, pace, str(share), "a connection")
    return seen


async def compare_sides(
    report: Report,
    sides: Mapping[str, Side],
    ours: Sequence[str],
    loads: Sequence[Load],
    pace: Pace,
    variant: str,
    unit: str = "",
) -> Seen:
    """Flood warm, prepared sides in turn and add the rows of one variant to the report.

    `ours` are the sides of groupd; `variant` is the text of the second column and `unit` its unit.
    """
    never = await warm_up_sides(sides, loads, pace.windows, pace.seconds)
    report.unsettled += [f"{each}, {variant} {unit}".rstrip() for each in never]
    seen = await in_turn(sides, loads, pace.rounds, pace.seconds)
    report.rows += comparison_rows(seen, variant, ours)
    return seen


def comparison_rows(seen: Seen, variant: str, ours: Sequence[str]) -> Iterable[list[str]]:
    """Return the rows of one variant, in the columns of `columns`. Only loads with one request in flight have
    latencies."""
    for load in dict.fromkeys(load for _, load in seen):
        for name in dict.fromkeys(side for side, _ in seen):
            runs = seen[name, load]
            waits = [
                spread([run.waited_ms(quantile) for run in runs], ".2f") if load.in_flight == 1 else ""
                for quantile in QUANTILES
            ]
            cells = [
                spread([run.per_cpu_second for run in runs], "k"),
                f"{max(run.cpu_share for run in runs):.0%}",
                *waits,
            ]
            to_it = ["" if name in ours else spread(ratios(seen, mine, name, load), ".3g") for mine in ours]
            yield [str(load), variant, name, *map(Absolute, cells), *to_it]


def figures(seen: Seen, wanted: Mapping[str, tuple[Load, str, str]]) -> dict[str, float]:
    """Return medians of ratios by name, for the peers present. `wanted` has load, side and peer of each."""
    return {
        figure: median(ratios(seen, ours, other, load))
        for figure, (load, ours, other) in wanted.items()
        if (other, load) in seen
    }
