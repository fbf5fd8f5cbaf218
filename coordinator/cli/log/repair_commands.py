"""`groupd log verify` lists the damage of a log and its consequences; `groupd log repair` keeps its sound
batches, in a copy or in place, and reports the losses.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

import click

from coordinator.cli.log.decoded_record import find_decode_error
from coordinator.cli.log.log_paths import (
    FOUND,
    SOUND,
    check_journals,
    exit_with_error,
    find_logs_at,
    holds_offsets,
    report_errors,
    wait_for_writer,
)
from coordinator.cli.log.log_report import (
    JsonReport,
    LogReport,
    RepairOutcome,
    TextReport,
    VerifiedLog,
    describe_finding,
    describe_repair,
    summarize_findings,
    summarize_repair,
)
from coordinator.cli.log.read_progress import ReadProgress, show_progress
from coordinator.cli.output_streams import Output, color_option, warn
from storage.data_directory import LOCK_FILE
from storage.files import Files, OsFiles
from storage.inspection.journal_check import JournalCheck
from storage.inspection.log_reader import LogListing, find_data_directory
from storage.inspection.verification import LogVerification
from storage.repair.repair import LogRepair
from storage.repair.repair_copy import RepairCopy, can_hold_copy
from storage.repair.repair_in_place import repair_in_place
from storage.storage_errors import DamagedFile, LogDamaged

VERIFY_EPILOG = """\
The command checks every batch (length, format, checksum, counts, offsets), its uncompressed records, keys and
values of __consumer_offsets, indexes, checkpoints and the journal. It changes nothing and may run beside the
daemon.
Exit codes: 0 no damage, 1 damage found, 2 PATH is not a log, 130 interrupted."""


def _create_report(output: Output, *, is_json: bool) -> LogReport:
    """Create the renderer for an output."""
    if is_json:
        return JsonReport()
    if not output.is_for_people:
        return TextReport()
    from coordinator.cli.log.terminal_reports import TerminalReport

    return TerminalReport(output)


@click.command(epilog=VERIFY_EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--json", "is_json", is_flag=True, help="One JSON object per finding, then one with the totals."
)
@click.option(
    "--offsets-decoder",
    is_flag=True,
    help="Decode as __consumer_offsets, independent of the directory's name.",
)
@color_option
@report_errors
def verify_logs(paths: tuple[str, ...], is_json: bool, offsets_decoder: bool, output: Output) -> int:
    """Check logs: report damage, its effect, and the changes that a repair would make."""
    logs = find_logs_at(OsFiles(), paths)
    report = _create_report(output, is_json=is_json)
    verified: list[VerifiedLog] = []
    found = 0
    with show_progress(output, logs) as progress:
        journals = JournalCheck(progress.files, logs)
        for log in logs:
            examine = find_decode_error if offsets_decoder or holds_offsets(log) else None
            verification = LogVerification(progress.files, log, examine=examine, pause=wait_for_writer)
            found_before = found
            damage = journals.take_damage(log)
            if damage is not None:
                found += 1
                report.print_entry(describe_finding(log._replace(name=None), damage))
            for finding in chain(verification.find_problems(), journals.find_problems(log)):
                found += 1
                progress.show_note(f"{found:,} {'finding' if found == 1 else 'findings'}")
                progress.hide()
                report.print_entry(describe_finding(log, finding))
            verified.append(VerifiedLog(log, verification.totals, found - found_before))
    report.print_summary(summarize_findings(verified))
    return FOUND if found else SOUND


REPAIR_EPILOG = """\
The command keeps every valid batch with its offsets and leaves out damaged ranges. A report lists the lost
ranges. The command builds the indexes anew, and sets the recovery point to the end of each log.

With --out, DIR (new or empty) becomes a data directory with the repaired logs, and PATH is not changed. With
--in-place, PATH is a partition or a data directory that no process uses. Damaged files stay beside the
repaired ones, as `.damaged`. Run an interrupted repair again.
Exit codes: 0 done, with or without losses; 2 the repair failed; 130 interrupted."""


@click.command(epilog=REPAIR_EPILOG)
@click.argument("path", metavar="PATH")
@click.option("--out", metavar="DIR", help="Where the repaired copy goes.")
@click.option("--in-place", "is_in_place", is_flag=True, help="Repair the log itself.")
@click.option(
    "--drop-undecodable",
    is_flag=True,
    help="Leave out records of __consumer_offsets with an invalid key or value; they prevent a load.",
)
@click.option("--json", "is_json", is_flag=True, help="One JSON object per loss and per log.")
@click.option(
    "--offsets-decoder",
    is_flag=True,
    help="Decode as __consumer_offsets, independent of the directory's name.",
)
@color_option
@report_errors
def repair_logs(
    path: str,
    out: str | None,
    is_in_place: bool,
    drop_undecodable: bool,
    is_json: bool,
    offsets_decoder: bool,
    output: Output,
) -> int:
    """Copy the readable part of damaged logs, or repair them in place, and report the losses."""
    if (out is None) == (not is_in_place):
        raise click.UsageError("give either --out DIR or --in-place")
    logs = find_logs_at(OsFiles(), [path])
    check_journals(OsFiles(), logs)
    report = _create_report(output, is_json=is_json)
    repaired_logs: list[RepairOutcome] = []

    def repair(log: LogListing) -> LogRepair:
        examine = find_decode_error if offsets_decoder or holds_offsets(log) else None
        return LogRepair(progress.files, log, examine=examine, drops_undecodable=drop_undecodable)

    is_directory = logs[0].is_whole and os.path.abspath(path) != logs[0].directory
    try:
        with show_progress(output, logs) as progress:
            if out is not None:
                outcomes = _repair_copies(progress, logs, os.path.abspath(out), is_directory, repair)
            else:
                outcomes = _repair_logs_in_place(progress.files, logs, is_directory, repair)
            for repaired in outcomes:
                progress.hide()
                repaired_logs.append(repaired)
                for entry in describe_repair(repaired):
                    report.print_entry(entry)
    except (DamagedFile, LogDamaged) as error:
        exit_with_error(
            f"{error}; repair the whole data directory with --out, which works without the journal"
        )
    report.print_summary(summarize_repair(repaired_logs))
    return SOUND


def _repair_copies(
    progress: ReadProgress,
    logs: list[LogListing],
    target: str,
    is_directory: bool,
    repair: Callable[[LogListing], LogRepair],
) -> Iterator[RepairOutcome]:
    files = progress.files
    if files.exists(target) and not (files.is_directory(target) and can_hold_copy(files, target)):
        exit_with_error(f"{target}: is not an empty directory")
    for log in logs:
        source = os.path.dirname(log.directory) if is_directory else log.directory
        if os.path.commonpath([source, target]) == source:
            exit_with_error(f"{target}: is inside {source}, which is to be copied")
    copy = RepairCopy(files, target)
    for log in logs:
        yield RepairOutcome(log, copy.add_log(log, repair(log)), [])
    for left_out in copy.finish(logs[0], is_directory=is_directory):
        progress.hide()
        warn(f"not copied: {left_out}")


def _repair_logs_in_place(
    files: Files, logs: list[LogListing], is_directory: bool, repair: Callable[[LogListing], LogRepair]
) -> Iterator[RepairOutcome]:
    if not logs[0].is_whole:
        exit_with_error(
            f"{logs[0].segments[0].path}: --in-place repairs whole partitions: name its directory"
        )
    with _lock_directory(files, find_data_directory(files, logs[0])):
        for log in logs:
            result, damaged = repair_in_place(files, log, repair, makes_checkpoint=is_directory)
            yield RepairOutcome(log, result, damaged)


@contextmanager
def _lock_directory(files: Files, directory: str | None) -> Iterator[None]:
    """Hold the lock of a data directory for the block; without a directory, do nothing."""
    if directory is None:
        yield
        return
    try:
        lock = files.lock(f"{directory}/{LOCK_FILE}")
    except BlockingIOError as error:
        exit_with_error(f"{directory}: {error.strerror}; stop it first, or repair into a copy with --out")
    try:
        yield
    finally:
        lock.release()
