"""`groupd log recover`: recovers a data directory after a crash, so that any broker can use it."""

import os

import click

from coordinator.broker.directory_recovery import is_data_directory, recover_directory
from coordinator.cli.log.log_paths import FOUND, SOUND, exit_with_error, report_errors
from coordinator.cli.output_streams import warn
from storage.files import OsFiles
from storage.storage_errors import StorageError, format_error_reason

EPILOG = """A killed daemon, or one whose machine failed, leaves `journal/` in its data directory. The journal
has records that were acknowledged and not yet synced to their logs. The next start of groupd restores them.
So does this command, without starting a daemon. Afterwards the directory is as after a clean stop. A Kafka
broker refuses a directory with a journal, and accepts it then.
Exit codes: 0 done; 1 a log cannot be opened, and the journal is kept for it; 2 the recovery failed."""


@click.command(epilog=EPILOG)
@click.argument("directory", metavar="DIR")
@click.option(
    "--without-journal",
    is_flag=True,
    help="Remove a damaged journal without reading it. Records that only it has are lost.",
)
@report_errors
def recover_journal(directory: str, without_journal: bool) -> int:
    """Append the missing records from the journal of a data directory to its logs."""
    path, files = os.path.abspath(directory), OsFiles()
    if not is_data_directory(files, path):
        exit_with_error(f"{directory}: not a data directory")
    try:
        found = recover_directory(files, path, without_journal=without_journal)
    except (StorageError, OSError) as error:
        exit_with_error(format_error_reason(error))
    for report in found.reports:
        if report.replayed_bytes or report.cut_bytes:
            click.echo(str(report))
    for partition, problem in found.failed:
        warn(f"{partition}: {format_error_reason(problem)}")
    if found.failed:
        return FOUND
    state = "was stopped cleanly already" if found.was_clean else "is as after a clean stop"
    click.echo(f"{directory}: {len(found.reports)} logs; {state}")
    return SOUND
