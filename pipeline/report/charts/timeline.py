"""Who held what: generations and ownership of a group over time."""

from collections.abc import Callable
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.charts.theme import ALERT, MUTED, SERIES, SURFACE, color, plot, quiet
from pipeline.report.charts.time_axis import Row, days, span
from pipeline.report.gather import Gathered, GroupDetails
from pipeline.report.words import count, cut

MAX_PARTITION_LINES: Final = 16
MAX_MEMBER_LINES: Final = 24
MAX_LABELS: Final = 18
LINE_INCHES: Final = 0.3


def timeline(name: str, gathered: Gathered, details: GroupDetails) -> str:
    """A line for each partition, coloured by member; of a group with many partitions a line for each member, with
    the number of partitions held. Upright lines are generations or epochs, red
    ones the moments in which nobody was left.
    """
    held = details.ownership
    partitions = sorted({(row["topic"], row["partition"]) for row in held})
    members = list(
        dict.fromkeys(row["member"] for row in sorted(held, key=lambda row: row["from_log_offset"]))
    )
    by_partition = len(partitions) <= MAX_PARTITION_LINES and len(members) <= len(SERIES)
    tints = {member: color(n) for n, member in enumerate(members)}
    lines: list[Any] = [*partitions] if by_partition else members[:MAX_MEMBER_LINES]

    def draw(figure: Figure, is_narrow: bool) -> None:
        axes = figure.subplots()
        quiet(axes)
        length = 18 if is_narrow else 40
        start, end = gathered.start, gathered.end
        if by_partition:
            labels = [f"{cut(topic, length - 4)} {partition}" for topic, partition in partitions]
            _bars(
                axes,
                held,
                lines,
                lambda row: (row["topic"], row["partition"]),
                lambda row: tints[row["member"]],
                gathered,
            )
            for member, tint in tints.items():
                axes.barh([0], [0], color=tint, label=cut(member, 32 if is_narrow else 36))
            figure.legend(
                loc="outside lower left", ncols=1 if is_narrow else 3, title="held by", alignment="left"
            )
        else:
            labels = [cut(member, length) for member in lines]
            _bars(axes, _held_together(held), lines, lambda row: row["member"], lambda _: SERIES[0], gathered)
        axes.set_yticks(range(len(lines)), labels)
        axes.set_ylim(len(lines) - 0.4, -1.35)
        span(axes, start, end, is_narrow)
        _generations(axes, details.rebalances, 6 if is_narrow else MAX_LABELS)

    height = 1.0 + LINE_INCHES * (len(lines) + by_partition)
    n_legend = len(tints) if by_partition else 0
    hidden = 0 if by_partition else len(members) - len(lines)
    note = f'<p class="note">{count(hidden, "more member")} not drawn.</p>' if hidden else ""
    steps = "Epochs" if details.summary["group_kind"] == "consumer" else "Generations"
    title = f"{steps} and ownership of {cut(details.summary['group'], 80)}"
    return plot(name, title, height, draw, n_legend, columns=3) + note


def _bars(
    axes: Axes,
    rows: list[Row],
    lines: list[Any],
    line_of: Callable[[Row], Any],
    tint_of: Callable[[Row], str],
    gathered: Gathered,
) -> None:
    place = {line: n for n, line in enumerate(lines)}
    start, end = days(gathered.start), days(gathered.end)
    least = (end - start or 1e-5) / 400
    for row in rows:
        line = place.get(line_of(row))
        if line is None:
            continue
        begin = max(days(row["from_ts"]), start)
        width = max((end if row["to_ts"] is None else min(days(row["to_ts"]), end)) - begin, least)
        axes.barh(line, width, left=begin, height=0.72, color=tint_of(row), edgecolor=SURFACE, linewidth=1)
        if row.get("n"):
            axes.text(
                begin + width / 2,
                line,
                str(row["n"]),
                color=SURFACE,
                ha="center",
                va="center",
                fontsize=10,
                clip_on=True,
            )


def _held_together(rows: list[Row]) -> list[Row]:
    """How many partitions each member held, from one change to the next."""
    found = []
    for member in dict.fromkeys(row["member"] for row in rows):
        own = [row for row in rows if row["member"] == member]
        changes = sorted({row["from_ts"] for row in own} | {row["to_ts"] for row in own if row["to_ts"]})
        for begin, end in zip(changes, [*changes[1:], None], strict=True):
            n = sum(row["from_ts"] <= begin and (row["to_ts"] is None or row["to_ts"] > begin) for row in own)
            if n:
                found.append({"member": member, "from_ts": begin, "to_ts": end, "n": n})
    return found


def _generations(axes: Axes, rebalances: list[Row], n_labels: int) -> None:
    every = max(1, len(rebalances) // n_labels + (len(rebalances) % n_labels > 0))
    for n, row in enumerate(reversed(rebalances)):
        is_empty = row["kind"] == "emptied"
        x = days(row["record_ts"])
        axes.axvline(
            x, color=ALERT if is_empty else MUTED, linewidth=1, linestyle=":" if is_empty else "-", alpha=0.8
        )
        if n % every == 0:
            axes.text(
                x,
                -0.6,
                f" {row['generation']}",
                color=ALERT if is_empty else MUTED,
                fontsize=10,
                va="bottom",
                clip_on=True,
            )
