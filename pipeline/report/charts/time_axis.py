"""The shared time axis of the plots, and series over the steps of `progress`."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.ticker import FuncFormatter, MaxNLocator

from pipeline.report.words import short

Row = dict[str, Any]
Values: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

MIN_SPAN: Final = timedelta(seconds=1)


def span(axes: Axes, start: datetime, end: datetime, is_narrow: bool) -> None:
    """Set the x axis to the period in UTC. A single moment becomes a second."""
    axes.set_xlim(days(start), days(max(end, start + MIN_SPAN)))
    locator = AutoDateLocator(tz=UTC, minticks=2, maxticks=5 if is_narrow else 12)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
    axes.tick_params(axis="x", length=4)


def amounts(axes: Axes, title: str, *, is_whole: bool = False) -> None:
    """Set the y axis to amounts from zero; with `is_whole` only whole numbers have ticks."""
    axes.set_title(title)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], integer=is_whole))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.margins(y=0.08)


def days(time: datetime) -> float:
    """Convert a time to matplotlib's days."""
    return float(date2num(time))  # type: ignore[no-untyped-call]


def steps(start: datetime, end: datetime, step_s: int) -> list[datetime]:
    """Return the start times of all steps of a period."""
    first = int(start.timestamp()) // step_s * step_s
    last = int(end.timestamp())
    return [datetime.fromtimestamp(second, UTC) for second in range(first, last + 1, step_s)]


def edges(grid: Sequence[datetime], step_s: int) -> list[float]:
    """Return the start times of the steps of a grid and the end of the last one."""
    return [days(time) for time in (*grid, grid[-1] + timedelta(seconds=step_s))]


def held(values: Values) -> Values:
    """Return the values at the edges of steps: the last value extends to the end of its step."""
    return np.append(values, values[-1:])


def rates(rows: Iterable[Row], grid: Sequence[datetime], step_s: int) -> Values:
    """Return offsets per second on a grid of steps. Rows outside of it are ignored."""
    place = {time: index for index, time in enumerate(grid)}
    values = np.zeros(len(grid))
    for row in rows:
        index = place.get(row["step_ts"])
        if index is not None:
            values[index] += row["advance"] / step_s
    return np.maximum(values, 0)  # a rewind is a separate anomaly, not a speed


def levels(rows: Iterable[Row], grid: Sequence[datetime]) -> Values:
    """Return the lag at each step of a grid. Steps without a row keep the last value; NaN before the first."""
    known = sorted((row["step_ts"], row["lag"]) for row in rows if row["lag"] is not None)
    values = np.full(len(grid), np.nan)
    current, index = np.nan, 0
    for place, time in enumerate(grid):
        while index < len(known) and known[index][0] <= time:
            current = known[index][1]
            index += 1
        values[place] = current
    return values
