"""Plot the generations and the ownership of a group over time."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.gold.causes import client_name
from pipeline.report.charts.theme import ALERT, MUTED, SERIES, SURFACE, Hover, color, plot, quiet
from pipeline.report.charts.time_axis import Row, days, span
from pipeline.report.gather import Gathered, GroupDetails
from pipeline.report.words import count, cut, moment

MAX_PARTITION_LINES: Final = 16
MAX_CLIENT_LINES: Final = 200
MAX_LABELS: Final = 18
LINE_INCHES: Final = 0.3
MANY: Final = 40
"""From this number on, lines are thin and without numbers."""

THIN_INCHES: Final = 0.14


def timeline(name: str, gathered: Gathered, details: GroupDetails) -> str:
    """Plot a line for each partition, coloured by client. A group with many partitions or clients gets a line for
    each client with its number of partitions. A restarted client with another member id is the same client.
    Vertical lines are generations or epochs; red ones mark moments without members.
    """
    held = [row | {"client": client_name(row["client_id"], row["client_host"])} for row in details.ownership]
    partitions = sorted({(row["topic"], row["partition"]) for row in held})
    clients = list(
        dict.fromkeys(row["client"] for row in sorted(held, key=lambda row: row["from_log_offset"]))
    )
    by_partition = len(partitions) <= MAX_PARTITION_LINES and len(clients) <= len(SERIES)
    tints = {client: color(n) for n, client in enumerate(clients)}
    lines: list[Any] = [*partitions] if by_partition else clients[:MAX_CLIENT_LINES]
    rows = held if by_partition else _held_together(held)
    inches = LINE_INCHES if len(lines) <= MANY else THIN_INCHES

    def line_of(row: Row) -> Any:
        return (row["topic"], row["partition"]) if by_partition else row["client"]

    def draw(figure: Figure, is_narrow: bool) -> Iterator[Hover]:
        axes = figure.subplots()
        quiet(axes)
        length = 18 if is_narrow else 40
        if by_partition:
            labels = [f"{cut(topic, length - 4)} {partition}" for topic, partition in partitions]
            for client, tint in tints.items():
                axes.barh([0], [0], color=tint, label=cut(client, 32 if is_narrow else 36))
            figure.legend(
                loc="outside lower left", ncols=1 if is_narrow else 3, title="held by", alignment="left"
            )
        else:
            labels = [cut(client, length) for client in lines]
        bars = _bars(rows, {line: n for n, line in enumerate(lines)}, line_of, gathered)
        for row, line, begin, width in bars:
            tint = tints[row["client"]] if by_partition else SERIES[0]
            axes.barh(
                line, width, left=begin, height=0.72, color=tint, edgecolor=SURFACE, linewidth=inches / 0.3
            )
            if row.get("n") and inches == LINE_INCHES:
                middle: Any = {"ha": "center", "va": "center", "fontsize": 10, "clip_on": True}
                axes.text(begin + width / 2, line, str(row["n"]), color=SURFACE, **middle)
        axes.set_yticks(range(len(lines)), labels, fontsize=12 if inches == LINE_INCHES else 8)
        axes.set_ylim(len(lines) - 0.4, -1.35)
        span(axes, gathered.start, gathered.end, is_narrow)
        _generations(axes, details.rebalances, 6 if is_narrow else MAX_LABELS)
        for row, line, begin, width in bars:
            yield Hover(axes, begin, begin + width, _said(row, by_partition), line)

    height = 1.0 + inches * (len(lines) + by_partition)
    n_legend = len(tints) if by_partition else 0
    hidden = 0 if by_partition else len(clients) - len(lines)
    note = f'<p class="note">{count(hidden, "more client")} not drawn.</p>' if hidden else ""
    steps = "Epochs" if details.summary["group_kind"] == "consumer" else "Generations"
    title = f"{steps} and ownership of {cut(details.summary['group'], 80)}"
    return plot(name, title, height, draw, n_legend, columns=3) + note


def _said(row: Row, by_partition: bool) -> str:
    what = f"{cut(row['topic'], 60)} {row['partition']}" if by_partition else count(row["n"], "partition")
    until = "the end" if row["to_ts"] is None else moment(row["to_ts"])
    return f"{cut(row['client'], 80)}: {what}, {moment(row['from_ts'])} to {until}"


def _bars(
    rows: list[Row], place: dict[Any, int], line_of: Callable[[Row], Any], gathered: Gathered
) -> list[tuple[Row, int, float, float]]:
    """Yield each row with a line: the row, the line, and start and length of its bar."""
    start, end = days(gathered.start), days(gathered.end)
    least = (end - start or 1e-5) / 400
    found = []
    for row in rows:
        line = place.get(line_of(row))
        if line is not None:
            begin = max(days(row["from_ts"]), start)
            until = end if row["to_ts"] is None else min(days(row["to_ts"]), end)
            found.append((row, line, begin, max(until - begin, least)))
    return found


def _held_together(rows: list[Row]) -> list[Row]:
    """Return the number of partitions of each client between changes."""
    found = []
    for client in dict.fromkeys(row["client"] for row in rows):
        own = [row for row in rows if row["client"] == client]
        changes = sorted({row["from_ts"] for row in own} | {row["to_ts"] for row in own if row["to_ts"]})
        for begin, end in zip(changes, [*changes[1:], None], strict=True):
            n = sum(row["from_ts"] <= begin and (row["to_ts"] is None or row["to_ts"] > begin) for row in own)
            if n:
                found.append({"client": client, "from_ts": begin, "to_ts": end, "n": n})
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
