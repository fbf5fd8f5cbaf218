"""Plot one group over time: its lag and its consumption rate."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.charts.theme import OTHER, Hover, color, plot
from pipeline.report.charts.time_axis import Row, Values, amounts, edges, held, levels, rates, span, steps
from pipeline.report.gather import Gathered, GroupDetails
from pipeline.report.words import count, cut, moment, number

TOPICS: Final = 4
PANEL_INCHES: Final = 1.9


def course(name: str, gathered: Gathered, details: GroupDetails) -> str:
    """Plot lag (where known) and offsets per second by topic. Further topics are summed."""
    step_s = gathered.info["step_s"]
    grid = steps(gathered.start, gathered.end, step_s)
    x = edges(grid, step_s)
    topics = _topics(details.progress)
    has_lag = any(row["lag"] is not None for row in details.progress)

    def draw(figure: Figure, is_narrow: bool) -> Iterator[Hover]:
        panels = figure.subplots(1 + has_lag, 1, sharex=True, squeeze=False)[:, 0]
        labels = [cut(label, 24 if is_narrow else 40) for label, _, _ in topics]
        if has_lag:
            amounts(panels[0], "Lag, in messages", is_whole=True)
            for label, (_, tint, rows) in zip(labels, topics, strict=True):
                _lag_line(panels[0], x, [levels(part, grid) for part in _by_topic(rows)], tint, label)
            panels[0].set_ylim(0, max(1.0, panels[0].get_ylim()[1]))
        amounts(panels[-1], f"Offsets per second, in steps of {step_s} s")
        for label, (_, tint, rows) in zip(labels, topics, strict=True):
            panels[-1].plot(
                x, held(rates(rows, grid, step_s)), color=tint, label=label, linewidth=1.6,
                drawstyle="steps-post",
            )  # fmt: skip
        span(panels[-1], gathered.start, grid[-1] + timedelta(seconds=step_s), is_narrow)
        if len(topics) > 1:
            handles = panels[-1].get_legend_handles_labels()
            figure.legend(*handles, loc="outside lower left", ncols=1 if is_narrow else 4)
        lag = _total(levels(part, grid) for part in _by_topic(details.progress))
        speed = rates(details.progress, grid, step_s)
        for place, time in enumerate(grid):
            known = "" if np.isnan(lag[place]) else f"lag {count(int(lag[place]), 'message')}, "
            said = f"{moment(time)}: {known}{number(round(float(speed[place]), 1))} offsets a second"
            yield from (Hover(axes, x[place], x[place + 1], said) for axes in panels)

    group = cut(details.summary["group"], 80)
    n_legend = len(topics) if len(topics) > 1 else 0
    return plot(
        name, f"Lag and speed of {group} over time", PANEL_INCHES * (1 + has_lag) + 0.3, draw, n_legend
    )


def _by_topic(rows: list[Row]) -> list[list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["topic"]].append(row)
    return list(found.values())


def _topics(rows: list[Row]) -> list[tuple[str, str, list[Row]]]:
    """Return the plotted topics with colour and rows. The last one may sum several."""
    by_size = sorted(_by_topic(rows), key=lambda part: -sum(row["advance"] for row in part))
    drawn = [(part[0]["topic"], color(n), part) for n, part in enumerate(by_size[:TOPICS])]
    rest = [row for part in by_size[TOPICS:] for row in part]
    return [*drawn, (count(len(by_size) - TOPICS, "other topic"), OTHER, rest)] if rest else drawn


def _lag_line(axes: Axes, x: list[float], parts: list[Values], tint: str, label: str) -> None:
    if all(np.isnan(part).all() for part in parts):
        return
    total = held(_total(parts))
    axes.plot(x, total, color=tint, label=label, linewidth=1.6, drawstyle="steps-post")
    axes.fill_between(x, 0, total, step="post", color=tint, alpha=0.15, linewidth=0)


def _total(parts: Iterable[Values]) -> Values:
    """Return the sum of the known values at each step; NaN if none is known."""
    all_of_them = np.array(list(parts))
    total: Values = np.nansum(all_of_them, axis=0)
    total[np.isnan(all_of_them).all(axis=0)] = np.nan
    return total
