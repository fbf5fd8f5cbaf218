"""`groupd-pipeline run`: ingest, build and report."""

from typing import Any

import click

from pipeline.cli.build import lag_options, settings_of
from pipeline.cli.ingest import log_options
from pipeline.cli.interruption import stop_on_interrupt
from pipeline.cli.report import announce_report, report_options, selection_of
from pipeline.cli.shown import Shown
from pipeline.cli.spark_command import SparkCommand
from pipeline.progress import Step


@click.command(cls=SparkCommand)
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
    full: bool,
    out: str,
    is_opened: bool,
    **options: Any,
) -> None:
    """Ingest, build and report."""
    from pipeline.build import build
    from pipeline.ingest import ingest
    from pipeline.log_ends.measure import snapshot_taker
    from pipeline.report.page import check_out, write_report
    from pipeline.session import LazySpark
    from pipeline.warehouse import Warehouse
    from pipeline.workload import of_build, of_ingest

    shown = Shown(n_stages=3)
    settings = settings_of(log_dir, bootstrap, log_end_offsets, offsets_retention_minutes, full, shown)
    selection = selection_of(**options)
    check_out(out)
    workload = max(of_ingest(log_dir, warehouse), of_build(warehouse, full=full))
    place = Warehouse(warehouse)
    with shown, LazySpark(master, workload) as spark:
        with stop_on_interrupt() as stop:
            ingest(
                spark.session,
                log_dir,
                place,
                max_bytes=max_bytes,
                take_snapshot=snapshot_taker(log_dir, bootstrap),
                stop=stop,
                on_progress=shown.ingested,
            )
        shown.begin_stage()
        build(spark.session, place, settings)
        shown.begin_stage()
        shown.begins(Step(1, 1, "report"))
        write_report(place, out, selection)
    announce_report(out, is_opened=is_opened)
