"""`groupd-pipeline build`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from pipeline.cli.shown import Shown
from pipeline.cli.spark_command import SparkCommand

if TYPE_CHECKING:
    from pipeline.build import BuildSettings

_RETENTION_MINUTES: Final = 10080


def lag_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for log ends and the retention of offsets."""
    options = (
        click.option("--bootstrap", metavar="HOST:PORT", help="take the ends of topics from this cluster"),
        click.option(
            "--log-end-offsets", metavar="FILE", help="CSV, JSON or the output of kafka-get-offsets.sh"
        ),
        click.option(
            "--offsets-retention-minutes",
            default=_RETENTION_MINUTES,
            show_default=True,
            type=click.IntRange(min=1, max=2**31 - 1),
            help="offsets.retention.minutes of the cluster",
        ),
        click.option(
            "--full",
            is_flag=True,
            help="read all commits again, instead of the commits since the last build",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def settings_of(
    log_dir: str | None,
    bootstrap: str | None,
    log_end_offsets: str | None,
    offsets_retention_minutes: int,
    full: bool,
    shown: Shown,
) -> "BuildSettings":
    """Return the build settings that the options describe.

    Raises:
        BadInput: the log or a file is unusable.
        UsageError: the options conflict.
    """
    from pipeline.build import BuildSettings
    from pipeline.log_ends.measure import measurer

    if bootstrap is not None and log_end_offsets is not None:
        raise click.UsageError("--bootstrap and --log-end-offsets exclude each other")
    measure = measurer(log_dir, bootstrap, log_end_offsets)
    return BuildSettings(
        measure=measure,
        retention_minutes=offsets_retention_minutes,
        full=full,
        on_step=shown.begins,
        on_table=shown.built,
    )


@click.command(cls=SparkCommand)
@click.option("--warehouse", required=True, metavar="DIR", help="directory of the tables")
@click.option(
    "--log-dir", metavar="DIR", help="take the ends of topics from the logs in this broker directory"
)
@lag_options
@click.option(
    "--master", metavar="URL", help="Spark master; default: local[*], or the setting of spark-submit"
)
def build(warehouse: str, log_dir: str | None, master: str | None, **options: Any) -> None:
    """Derive the gold tables from the ingested records."""
    from pipeline.build import build as run
    from pipeline.session import LazySpark
    from pipeline.warehouse import Warehouse
    from pipeline.workload import of_build

    shown = Shown()
    settings = settings_of(log_dir, shown=shown, **options)
    place = Warehouse(warehouse)
    place.check_before_spark()
    with shown, LazySpark(master, of_build(warehouse, full=settings.full)) as spark:
        run(spark.session, place, settings)
