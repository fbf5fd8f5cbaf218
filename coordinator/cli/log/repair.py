"""`groupd log repair`: what can be read of a damaged log, as a log that can be used."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from coordinator.cli.log.entry import what_is_wrong
from coordinator.cli.log.journals import refuse_lacking
from coordinator.cli.log.paths import SOUND, fail, holds_offsets, in_words, logs_at
from coordinator.cli.log.progress import Progress, progress_of
from coordinator.cli.log.repair_report import JsonReport, Repaired, RepairReport, TextReport
from coordinator.cli.output import Output, color_option
from coordinator.cli.standard_streams import warn
from storage.data_directory import LOCK_FILE
from storage.errors import DamagedFile, LogDamaged
from storage.files import Files, OsFiles
from storage.inspection.directory_reader import LogFiles, data_directory_of
from storage.repair.repair import Repair
from storage.repair.repair_copy import RepairCopy, takes_copy
from storage.repair.repair_in_place import repair_in_place

EPILOG = """Every sound batch is kept as it is, with its offsets; damaged ranges are left out, and the report says
what was lost and where. Indexes are made anew, and the recovery point is set to the end of each log.

With --out, DIR (new or empty) becomes a data directory with the repaired logs, and PATH is not changed. With
--in-place, PATH is a partition or a data directory that no process uses; damaged files stay beside the repaired
ones, as `.damaged`. An interrupted repair is simply run again.
Exit codes: 0 done, whatever was lost; 2 it could not be done; 130 interrupted."""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="PATH")
@click.option("--out", metavar="DIR", help="Where the repaired copy goes.")
@click.option("--in-place", "is_in_place", is_flag=True, help="Repair the log itself.")
@click.option(
    "--drop-undecodable",
    is_flag=True,
    help="Leave out records of __consumer_offsets whose key or value makes no sense; they stop a load.",
)
@click.option("--json", "is_json", is_flag=True, help="One JSON object a loss, and one a log.")
@click.option(
    "--offsets-decoder", is_flag=True, help="Decode as __consumer_offsets, whatever the directory is called."
)
@color_option
@in_words
def command(
    path: str,
    out: str | None,
    is_in_place: bool,
    drop_undecodable: bool,
    is_json: bool,
    offsets_decoder: bool,
    output: Output,
) -> int:
    """Copy what can be read of damaged logs (or repair them in place), and say what was lost."""
    if (out is None) == (not is_in_place):
        raise click.UsageError("give either --out DIR or --in-place")
    logs = logs_at(OsFiles(), [path])
    refuse_lacking(OsFiles(), logs)
    report = _report(output, is_json=is_json)

    def repair(log: LogFiles) -> Repair:
        examine = what_is_wrong if offsets_decoder or holds_offsets(log) else None
        return Repair(progress.files, log, examine=examine, drops_undecodable=drop_undecodable)

    is_directory = logs[0].is_whole and os.path.abspath(path) != logs[0].directory
    try:
        with progress_of(output, logs) as progress:
            if out is not None:
                every = _copies(progress, logs, os.path.abspath(out), is_directory, repair)
            else:
                every = _in_place(progress.files, logs, is_directory, repair)
            for repaired in every:
                progress.hide()
                report.say(repaired)
    except (DamagedFile, LogDamaged) as error:
        fail(f"{error}; repair --out of the whole data directory makes do without it")
    report.sum_up()
    return SOUND


def _report(output: Output, *, is_json: bool) -> RepairReport:
    if is_json:
        return JsonReport()
    if not output.is_for_people:
        return TextReport()
    from coordinator.cli.log.repair_tables import TableReport

    return TableReport(output)


def _copies(
    progress: Progress,
    logs: list[LogFiles],
    target: str,
    is_directory: bool,
    repair: Callable[[LogFiles], Repair],
) -> Iterator[Repaired]:
    files = progress.files
    if files.exists(target) and not (files.is_directory(target) and takes_copy(files, target)):
        fail(f"{target}: is not an empty directory")
    for log in logs:
        source = os.path.dirname(log.directory) if is_directory else log.directory
        if os.path.commonpath([source, target]) == source:
            fail(f"{target}: is inside {source}, which is to be copied")
    copy = RepairCopy(files, target)
    for log in logs:
        yield Repaired(log, copy.add(log, repair(log)), [])
    for left_out in copy.finish(logs[0], is_directory=is_directory):
        progress.hide()
        warn(f"not copied: {left_out}")


def _in_place(
    files: Files, logs: list[LogFiles], is_directory: bool, repair: Callable[[LogFiles], Repair]
) -> Iterator[Repaired]:
    if not logs[0].is_whole:
        fail(f"{logs[0].segments[0].path}: in place, whole partitions are repaired: give its directory")
    with _locked(files, data_directory_of(files, logs[0])):
        for log in logs:
            result, damaged = repair_in_place(files, log, repair, makes_checkpoint=is_directory)
            yield Repaired(log, result, damaged)


@contextmanager
def _locked(files: Files, directory: str | None) -> Iterator[None]:
    """Holds the lock of a data directory, where the logs are in one."""
    if directory is None:
        yield
        return
    try:
        lock = files.lock(f"{directory}/{LOCK_FILE}")
    except BlockingIOError as error:
        fail(f"{directory}: {error.strerror}; stop it first, or repair into a copy with --out")
    try:
        yield
    finally:
        lock.release()
