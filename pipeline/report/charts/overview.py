"""Plot the consumption of all groups."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.charts.theme import OTHER, Hover, color, plot
from pipeline.report.charts.time_axis import Values, amounts, edges, held, rates, span, steps
from pipeline.report.gather import Gathered
from pipeline.report.words import cut, moment, number

SHOWN: Final = 7
HEIGHT_INCHES: Final = 2.9


def overview(gathered: Gathered) -> str:
    """Plot stacked offsets per second of the groups with details and of all others."""
    step_s = gathered.info["step_s"]
    grid = steps(gathered.start, gathered.end, step_s)
    names = [details.summary["group"] for details in gathered.groups if details.progress][:SHOWN]
    series = [(name, [row for row in gathered.overall if row["name"] == name]) for name in names]
    rest = [row for row in gathered.overall if row["name"] not in names]

    def draw(figure: Figure, is_narrow: bool) -> Iterator[Hover]:
        axes = figure.subplots()
        amounts(
            axes,
            f"Offsets per second, in steps of {step_s} s{'' if is_narrow else ', without rewinds'}",
        )
        span(axes, gathered.start, grid[-1] + timedelta(seconds=step_s), is_narrow)
        curves = [
            (cut(name, 22 if is_narrow else 40), color(n), rows) for n, (name, rows) in enumerate(series)
        ]
        if rest:
            curves.append(("all others", OTHER, rest))
        _stack(
            axes,
            edges(grid, step_s),
            [(label, tint, held(rates(rows, grid, step_s))) for label, tint, rows in curves],
        )
        if curves:
            figure.legend(loc="outside lower left", ncols=1 if is_narrow else 4)
        x = edges(grid, step_s)
        for place, time in enumerate(grid):
            speeds = [(label, float(rates(rows, grid, step_s)[place])) for label, _, rows in curves]
            parts = [f"{label} {number(round(speed, 1))}" for label, speed in speeds if speed > 0]
            yield Hover(
                axes,
                x[place],
                x[place + 1],
                f"{moment(time)}, offsets a second: {'; '.join(parts) or 'none'}",
            )

    n_legend = len(series) + bool(rest)
    return plot("overview", "Offsets consumed per second by group over time", HEIGHT_INCHES, draw, n_legend)


def _stack(axes: Axes, x: Sequence[float], curves: list[tuple[str, str, Values]]) -> None:
    floor = np.zeros(len(x))
    for label, tint, values in curves:
        top = floor + np.maximum(values, 0)
        axes.fill_between(x, floor, top, step="post", color=tint, alpha=0.85, linewidth=0, label=label)
        floor = top
    axes.set_ylim(bottom=0)
