"""`groupd-pipeline ingest`."""

import sys
from collections.abc import Callable
from typing import Any, Final

import click

from pipeline.cli.interruption import stop_on_interrupt
from pipeline.progress import Progress

_MEGABYTE: Final = 1_000_000
_BATCH_BYTES: Final = 256 * _MEGABYTE


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every command that reads the log takes."""
    options = (
        click.option(
            "--log-dir", required=True, metavar="DIR", help="data directory of groupd or of a broker"
        ),
        click.option("--warehouse", required=True, metavar="DIR", help="where the tables are"),
        click.option(
            "--master", metavar="URL", help="of Spark; default: local[*], or what spark-submit says"
        ),
        click.option(
            "--max-bytes",
            default=_BATCH_BYTES,
            show_default=True,
            type=click.IntRange(min=1),
            metavar="N",
            help="of the log in one batch, about: what is done again after an interruption",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@log_options
@click.option("--follow", is_flag=True, help="go on until interrupted")
def ingest(log_dir: str, warehouse: str, master: str | None, max_bytes: int | None, follow: bool) -> None:
    """Add what is new in the log to the tables, exactly once."""
    # Spark takes seconds to import: not before the options are known to be right.
    from pipeline.ingest import ingest as run
    from pipeline.log_files import LogFiles
    from pipeline.segments import find_partitions
    from pipeline.session import check_java, start
    from pipeline.warehouse import Warehouse

    find_partitions(LogFiles(log_dir))
    check_java()
    spark = start(master)
    try:
        with stop_on_interrupt() as stop:
            done = run(
                spark,
                log_dir,
                Warehouse(warehouse),
                max_bytes=max_bytes,
                follow=follow,
                stop=stop,
                on_progress=show_progress,
            )
    finally:
        spark.stop()
    megabytes = done.bytes / _MEGABYTE
    print(f"ingested {done.records:,} records ({megabytes:,.1f} MB) in {done.batches} batches")


def show_progress(progress: Progress) -> None:
    """One line about how far it is."""
    done, left = progress.bytes / _MEGABYTE, progress.bytes_left / _MEGABYTE
    line = f"{progress.records:,} records, {done:,.1f} MB"
    if progress.bytes_left and progress.left_s is not None:
        line += f"; {left:,.1f} MB left, about {duration(progress.left_s)}"
    print(line, file=sys.stderr)


def duration(seconds: float) -> str:
    """In the largest units that matter: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"
