"""Plot the cost of rebalances: the time without commits around each one."""

from collections.abc import Iterator
from typing import Final

from matplotlib.figure import Figure

from pipeline.report.charts.theme import OTHER, SERIES, Hover, plot
from pipeline.report.charts.time_axis import amounts, days, span
from pipeline.report.gather import Gathered, GroupDetails
from pipeline.report.words import cut, duration, moment

HEIGHT_INCHES: Final = 1.9


def pauses(name: str, gathered: Gathered, details: GroupDetails) -> str:
    """Plot a stem for each generation with a pause, in seconds; return an empty string without pauses."""
    known = [row for row in details.rebalances if row["consumption_pause_ms"] is not None]
    if not known:
        return ""

    def draw(figure: Figure, is_narrow: bool) -> Iterator[Hover]:
        axes = figure.subplots()
        amounts(axes, "Consumption pause, in seconds")
        for spans_empty, tint, label in (
            (False, SERIES[0], "the group had members throughout"),
            (True, OTHER, "the group was empty in between"),
        ):
            rows = [row for row in known if row["pause_spans_empty"] == spans_empty]
            if rows:
                x = [days(row["record_ts"]) for row in rows]
                y = [row["consumption_pause_ms"] / 1000 for row in rows]
                axes.vlines(x, 0, y, color=tint, linewidth=2)
                axes.plot(x, y, "o", color=tint, markersize=5, label=label, clip_on=False)
        axes.set_ylim(bottom=0)
        span(axes, gathered.start, gathered.end, is_narrow)
        figure.legend(loc="outside lower left", ncols=1 if is_narrow else 2)
        half = (days(gathered.end) - days(gathered.start)) / 300
        for row in known:
            place = days(row["record_ts"])
            said = (
                f"{moment(row['record_ts'])}: {duration(row['consumption_pause_ms'] / 1000)} without a commit"
            )
            yield Hover(axes, place - half, place + half, said)

    return plot(name, f"Consumption pauses of {cut(details.summary['group'], 80)}", HEIGHT_INCHES, draw, 2)
