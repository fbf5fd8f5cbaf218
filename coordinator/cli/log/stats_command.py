"""`groupd log stats`: counts records, keys and bytes of logs."""

import json
from collections.abc import Sequence
from typing import Final

import click

from coordinator.cli.log.log_paths import FOUND, SOUND, find_logs_at, report_errors, warn_of_journals
from coordinator.cli.log.log_statistics import COLUMNS, LogStats, RecordCount, sort_by_bytes
from coordinator.cli.log.read_progress import show_progress
from coordinator.cli.output_streams import Output, color_option
from coordinator.core.message_text import printable
from storage.files import OsFiles

EPILOG = """Bytes of batches are those on disk. Bytes by type and by group are those of keys and values,
uncompressed. Superseded records have a later record of the same key; compaction removes them. Exit codes: 0
everything was read, 1 bytes were skipped (run `groupd log verify`), 2 PATH is not a log, 130 interrupted."""

_MAX_NAME: Final = 60


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "is_json", is_flag=True, help="One JSON object with every group and log.")
@click.option(
    "--top",
    default=10,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of groups, the largest first.",
)
@click.option(
    "--offsets-decoder",
    is_flag=True,
    help="Count as __consumer_offsets, independent of the directory's name.",
)
@color_option
@report_errors
def show_stats(paths: tuple[str, ...], is_json: bool, top: int, offsets_decoder: bool, output: Output) -> int:
    """Count the records, batches, bytes and live keys of logs, by type and by group."""
    stats = LogStats(offsets_decoder)
    logs = find_logs_at(OsFiles(), paths)
    warn_of_journals(OsFiles(), logs)
    with show_progress(output, logs) as progress:
        for log in logs:
            stats.read_log(log, progress)
    if is_json:
        print(json.dumps(stats.fields()))
    elif output.is_for_people:
        from coordinator.cli.log.terminal_reports import print_stats_tables

        print_stats_tables(stats, top, output)
    else:
        _print_stats(stats, top)
    return FOUND if stats.total.bad_bytes else SOUND


def _print_stats(stats: LogStats, top: int) -> None:
    """Print the statistics as lines of text."""
    total, record_counter = stats.total, stats.record_counter
    fields = total.fields()
    print(f"{len(stats.logs)} logs, {stats.segments} segments, {total.bytes} bytes")
    print(f"{total.batches} batches, {total.records} records")
    if total.first_ms is not None:
        print(f"from {fields['first_time']} to {fields['last_time']}")
    shares = ", ".join(f"{codec} {one['share']:.1%}" for codec, one in fields["codecs"].items())
    if shares:
        print(f"codecs by bytes: {shares}")
    if record_counter.offsets.records:
        offsets = record_counter.offsets.fields()
        print(
            f"__consumer_offsets: {offsets['live_keys']} live keys, {offsets['tombstones']} tombstones, "
            f"{offsets['superseded_share']:.1%} of the records superseded"
        )
    _print_table("type", sort_by_bytes(record_counter.types))
    groups = sort_by_bytes(record_counter.groups)
    _print_table(f"group (of {len(groups)})", groups[:top])


def _print_table(title: str, rows: Sequence[tuple[str, RecordCount]]) -> None:
    if not rows:
        return
    cells: list[tuple[str, ...]] = [(title, *COLUMNS.values())]
    cells += [
        (printable(name, _MAX_NAME), *(str(getattr(count, column)) for column in COLUMNS))
        for name, count in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print()
    for first, *rest in cells:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print(f"{first.ljust(widths[0])}  {numbers}")
