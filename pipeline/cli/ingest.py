"""`groupd-pipeline ingest`."""

from collections.abc import Callable
from typing import Any, Final

import click

from pipeline.cli.interruption import stop_on_interrupt
from pipeline.cli.shown import Shown
from pipeline.cli.spark_command import SparkCommand
from pipeline.report.words import count

_MEGABYTE: Final = 1_000_000
_BATCH_BYTES: Final = 256 * _MEGABYTE


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every command that reads the log."""
    options = (
        click.option(
            "--log-dir", required=True, metavar="DIR", help="data directory of groupd or of a broker"
        ),
        click.option("--warehouse", required=True, metavar="DIR", help="directory of the tables"),
        click.option(
            "--master", metavar="URL", help="Spark master; default: local[*], or the setting of spark-submit"
        ),
        click.option(
            "--max-bytes",
            default=_BATCH_BYTES,
            show_default=True,
            type=click.IntRange(min=1),
            metavar="N",
            help="approximate bytes of log in a batch; an interruption repeats at most one batch",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(cls=SparkCommand)
@log_options
@click.option("--follow", is_flag=True, help="continue until interrupted")
def ingest(log_dir: str, warehouse: str, master: str | None, max_bytes: int | None, follow: bool) -> None:
    """Add the new records of the log to the tables, exactly once."""
    # Importing Spark takes seconds, so validate the options first.
    from pipeline.ingest import ingest as run
    from pipeline.session import LazySpark
    from pipeline.warehouse import Warehouse
    from pipeline.workload import Workload, of_ingest

    workload = of_ingest(log_dir, warehouse)
    chosen = Workload.MUCH if follow else workload
    with Shown() as shown, LazySpark(master, chosen) as spark, stop_on_interrupt() as stop:
        done = run(
            spark.session,
            log_dir,
            Warehouse(warehouse),
            max_bytes=max_bytes,
            follow=follow,
            stop=stop,
            on_progress=shown.ingested,
        )
    megabytes = done.bytes / _MEGABYTE
    records, batches = count(done.records, "record"), count(done.batches, "batch", "batches")
    print(f"ingested {records} ({megabytes:,.1f} MB) in {batches}")
