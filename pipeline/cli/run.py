"""`groupd-pipeline run`: all of it."""

import os
from typing import Any

import click

from pipeline.cli.build import lag_options, settings_of
from pipeline.cli.ingest import log_options, show_progress
from pipeline.cli.interruption import stop_on_interrupt
from pipeline.cli.report import report_options, selection_of


@click.command()
@log_options
@lag_options
@report_options
def run(
    log_dir: str,
    warehouse: str,
    master: str | None,
    max_bytes: int | None,
    bootstrap: str | None,
    log_end_offsets: str | None,
    offsets_retention_minutes: int,
    out: str,
    **options: Any,
) -> None:
    """Ingest, build and report."""
    from pipeline.build import build
    from pipeline.ingest import ingest
    from pipeline.log_files import LogFiles
    from pipeline.report.page import check_out, write_report
    from pipeline.segments import find_partitions
    from pipeline.session import check_java, start
    from pipeline.warehouse import Warehouse

    settings = settings_of(log_dir, bootstrap, log_end_offsets, offsets_retention_minutes)
    selection = selection_of(**options)
    check_out(out)
    find_partitions(LogFiles(log_dir))
    check_java()
    spark = start(master)
    try:
        place = Warehouse(warehouse)
        with stop_on_interrupt() as stop:
            ingest(spark, log_dir, place, max_bytes=max_bytes, stop=stop, on_progress=show_progress)
        build(spark, place, settings)
        write_report(spark, place, out, selection)
    finally:
        spark.stop()
    print(os.path.abspath(out))
