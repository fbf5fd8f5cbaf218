"""What logs are made of, in tables."""

from collections.abc import Iterator, Sequence
from typing import Final

from rich.filesize import decimal

from coordinator.cli.log.console import labelled, print_figures
from coordinator.cli.log.log_stats import COLUMNS, LogStats, by_bytes
from coordinator.cli.log.tally import Count
from coordinator.cli.output import Output
from coordinator.cli.rich_console import console_of
from coordinator.net.peer import printable

_MAX_NAME: Final = 200


def print_tables(stats: LogStats, top: int, output: Output) -> None:
    """Everything but single logs, and the largest groups only."""
    console = console_of(output)
    console.print(labelled(_summary(stats)))
    groups = by_bytes(stats.tally.groups)
    for title, counts in (
        ("type", by_bytes(stats.tally.types)),
        (f"group ({min(top, len(groups))} of {len(groups)})", groups[:top]),
    ):
        if counts:
            console.print()
            print_figures(console, (title, *COLUMNS.values()), map(_row, counts))


def _row(counted: tuple[str, Count]) -> Sequence[str | int]:
    name, count = counted
    return printable(name, _MAX_NAME), *(getattr(count, column) for column in COLUMNS)


def _summary(stats: LogStats) -> Iterator[tuple[str, str, str]]:
    total, offsets = stats.total, stats.tally.offsets
    fields = total.fields()
    yield "logs", "dim", f"{len(stats.logs):,}, with {stats.segments:,} segments"
    yield "size", "dim", f"{decimal(total.bytes)} ({total.bytes:,} bytes)"
    yield "records", "dim", f"{total.records:,} in {total.batches:,} batches"
    if total.first_ms is not None:
        yield "time", "dim", f"{fields['first_time']} to {fields['last_time']}".replace("T", " ")
    if total.codecs:
        shares = ", ".join(f"{codec} {one['share']:.1%}" for codec, one in fields["codecs"].items())
        yield "codecs", "dim", f"{shares} of the bytes"
    if offsets.records:
        live = f"{offsets.live_keys:,} live keys, {offsets.tombstones:,} tombstones"
        share = offsets.superseded_records / offsets.records
        yield "offsets", "dim", f"{live}, {share:.1%} of the records superseded"
    if total.bad_bytes:
        yield "damage", "red", f"{total.bad_bytes:,} bytes passed over; groupd log verify says what is wrong"
