"""`groupd-pipeline report`."""

import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pipeline.cli.spark_command import SparkCommand

if TYPE_CHECKING:
    from pipeline.report.report_tables import Selection

_OUT: Final = "groupd-report.html"
_GROUPS: Final = 12


def as_time(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    """Parse an ISO 8601 time; UTC without an offset."""
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a time such as 2026-03-01T12:00:00") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for the content and the output of the report."""
    options = (
        click.option("--out", default=_OUT, show_default=True, metavar="FILE", help="the HTML file"),
        click.option("--since", callback=as_time, metavar="TIME", help="omit earlier events; UTC by default"),
        click.option(
            "--until",
            callback=as_time,
            metavar="TIME",
            help="omit events at this time and later; UTC by default",
        ),
        click.option("--group", multiple=True, metavar="NAME", help="only this group; may be repeated"),
        click.option(
            "--top",
            default=_GROUPS,
            show_default=True,
            type=click.IntRange(min=1, max=200),
            help="number of groups in detail; the report sums up the others",
        ),
        click.option(
            "--ledger",
            metavar="FILE",
            help="the daemon's ledger (ledger.file), to distinguish departures from expired sessions",
        ),
        click.option("--open", "is_opened", is_flag=True, help="open the report in a browser"),
    )
    for option in reversed(options):
        command = option(command)
    return command


def selection_of(
    since: datetime | None, until: datetime | None, group: tuple[str, ...], top: int, ledger: str | None
) -> "Selection":
    """Return the selection that the options describe.

    Raises:
        UsageError: the options conflict.
    """
    from pipeline.report.report_tables import Selection

    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is not before --until")
    return Selection(since=since, until=until, groups=group or None, n_groups=top, ledger=ledger)


def announce_report(out: str, *, is_opened: bool) -> None:
    """Print the path of the report on standard output, and open it in a browser or print how to."""
    path = os.path.abspath(out)
    print(path, flush=True)
    if not is_opened:
        print(f"groupd-pipeline: open {Path(path).as_uri()} in a browser, or add --open", file=sys.stderr)
    else:
        import webbrowser  # slow to import: it searches for all installed browsers

        if not webbrowser.open(Path(path).as_uri()):
            print("groupd-pipeline: found no browser; open the file by hand", file=sys.stderr)


@click.command(cls=SparkCommand)
@click.option("--warehouse", required=True, metavar="DIR", help="directory of the tables")
@report_options
@click.option("--master", metavar="URL", help="Spark master, for a warehouse behind a URL")
def report(warehouse: str, out: str, master: str | None, is_opened: bool, **options: Any) -> None:
    """Write a report on the tables to one HTML file."""
    from pipeline.directory import local_path
    from pipeline.report.page import check_out, write_report
    from pipeline.warehouse import Warehouse

    selection = selection_of(**options)
    check_out(out)
    place = Warehouse(warehouse)
    place.check_before_spark(needs_gold=True)
    if local_path(warehouse) is not None:
        write_report(place, out, selection)
    else:
        from pipeline.session import start

        spark = start(master)
        try:
            write_report(place, out, selection)
        finally:
            spark.stop()
    announce_report(out, is_opened=is_opened)
