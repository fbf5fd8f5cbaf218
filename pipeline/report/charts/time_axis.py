"""The time axis that all plots share, and series over the steps of `progress`."""

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
    """The period as the x axis, in UTC; a single moment gets a second."""
    axes.set_xlim(days(start), days(max(end, start + MIN_SPAN)))
    locator = AutoDateLocator(tz=UTC, minticks=2, maxticks=5 if is_narrow else 12)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
    axes.tick_params(axis="x", length=4)


def amounts(axes: Axes, title: str, *, is_whole: bool = False) -> None:
    """Amounts from zero on as the y axis; whole ones are things that are counted."""
    axes.set_title(title)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10], integer=is_whole))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.margins(y=0.08)


def days(time: datetime) -> float:
    """As matplotlib counts time."""
    return float(date2num(time))  # type: ignore[no-untyped-call]


def steps(start: datetime, end: datetime, step_s: int) -> list[datetime]:
    """The beginnings of all steps of a period."""
    first = int(start.timestamp()) // step_s * step_s
    last = int(end.timestamp())
    return [datetime.fromtimestamp(second, UTC) for second in range(first, last + 1, step_s)]


def edges(grid: Sequence[datetime], step_s: int) -> list[float]:
    """Where the steps of a grid begin, and where the last one ends."""
    return [days(time) for time in (*grid, grid[-1] + timedelta(seconds=step_s))]


def held(values: Values) -> Values:
    """Values of steps at their edges: the last one holds until its step ends."""
    return np.append(values, values[-1:])


def rates(rows: Iterable[Row], grid: Sequence[datetime], step_s: int) -> Values:
    """Offsets per second on a grid of steps; rows outside it do not count."""
    place = {time: index for index, time in enumerate(grid)}
    values = np.zeros(len(grid))
    for row in rows:
        index = place.get(row["step_ts"])
        if index is not None:
            values[index] += row["advance"] / step_s
    return np.maximum(values, 0)  # what went back is told as such, not as speed


def levels(rows: Iterable[Row], grid: Sequence[datetime]) -> Values:
    """The lag at each step of a grid; it stays what it was until a row says otherwise, NaN before the first."""
    known = sorted((row["step_ts"], row["lag"]) for row in rows if row["lag"] is not None)
    values = np.full(len(grid), np.nan)
    current, index = np.nan, 0
    for place, time in enumerate(grid):
        while index < len(known) and known[index][0] <= time:
            current = known[index][1]
            index += 1
        values[place] = current
    return values
