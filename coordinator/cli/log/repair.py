"""`groupd log repair`: what can be read of a damaged log, as a log that can be used."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from coordinator.cli.log.entry import Fields, what_is_wrong
from coordinator.cli.log.paths import SOUND, fail, holds_offsets, in_words, logs_at, warn
from coordinator.net.peer import printable
from storage.data_directory import LOCK_FILE
from storage.errors import DamagedFile, LogDamaged
from storage.files import Files, OsFiles
from storage.inspection.directory_reader import LogFiles, data_directory_of
from storage.repair.repair import Loss, Repair, RepairedLog
from storage.repair.repair_copy import RepairCopy
from storage.repair.repair_in_place import repair_in_place

EPILOG = """Every sound batch is kept as it is, with its offsets; damaged ranges are left out, and the report says
what was lost and where. Indexes are made anew, and the recovery point is set to the end of each log.

With --out, DIR (new or empty) becomes a data directory with the repaired logs, and PATH is not changed. With
--in-place, PATH is a partition or a data directory that no process uses; damaged files stay beside the repaired
ones, as `.damaged`. An interrupted repair is simply run again.
Exit codes: 0 done, whatever was lost; 2 it could not be done."""

Repaired = tuple[LogFiles, RepairedLog, list[str]]


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
@in_words
def command(
    path: str,
    out: str | None,
    is_in_place: bool,
    drop_undecodable: bool,
    is_json: bool,
    offsets_decoder: bool,
) -> int:
    """Copy what can be read of damaged logs (or repair them in place), and say what was lost."""
    if (out is None) == (not is_in_place):
        raise click.UsageError("give either --out DIR or --in-place")
    files = OsFiles()
    logs = logs_at(files, [path])

    def repair(log: LogFiles) -> Repair:
        examine = what_is_wrong if offsets_decoder or holds_offsets(log) else None
        return Repair(files, log, examine=examine, drops_undecodable=drop_undecodable)

    is_directory = logs[0].is_whole and os.path.abspath(path) != logs[0].directory
    try:
        if out is not None:
            repaired = _copies(files, logs, os.path.abspath(out), is_directory, repair)
        else:
            repaired = _in_place(files, logs, is_directory, repair)
        for log, result, damaged in repaired:
            _report(log, result, damaged, is_json)
    except (DamagedFile, LogDamaged) as error:
        fail(printable(f"{error}; repair --out of the whole data directory makes do without it", 1000))
    return SOUND


def _copies(
    files: Files, logs: list[LogFiles], target: str, is_directory: bool, repair: Callable[[LogFiles], Repair]
) -> Iterator[Repaired]:
    if files.exists(target) and (not files.is_directory(target) or files.listdir(target)):
        fail(f"{target}: is not an empty directory")
    for log in logs:
        source = os.path.dirname(log.directory) if is_directory else log.directory
        if os.path.commonpath([source, target]) == source:
            fail(f"{target}: is inside {source}, which is to be copied")
    copy = RepairCopy(files, target)
    for log in logs:
        yield log, copy.add(log, repair(log)), []
    for left_out in copy.finish(logs[0], is_directory=is_directory):
        warn(printable(f"not copied: {left_out}", 1000))


def _in_place(
    files: Files, logs: list[LogFiles], is_directory: bool, repair: Callable[[LogFiles], Repair]
) -> Iterator[Repaired]:
    if not logs[0].is_whole:
        fail(f"{logs[0].segments[0].path}: in place, whole partitions are repaired: give its directory")
    with _locked(files, data_directory_of(files, logs[0])):
        for log in logs:
            result, damaged = repair_in_place(files, log, repair, makes_checkpoint=is_directory)
            yield log, result, damaged


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


def _report(log: LogFiles, result: RepairedLog, damaged: list[str], is_json: bool) -> None:
    losses = result.losses
    fields: Fields = {
        "type": "log",
        "topic": None if log.name is None else log.name.topic,
        "partition": None if log.name is None else log.name.partition,
        "directory": log.directory,
        "batches": sum(segment.batches for segment in result.segments),
        "records": sum(segment.records for segment in result.segments),
        "bytes": sum(segment.bytes for segment in result.segments),
        "log_end_offset": result.log_end_offset,
        "losses": len(losses),
        "lost_bytes": sum(loss.length for loss in losses),
        "damaged_files": damaged,
    }
    if is_json:
        for loss in losses:
            print(json.dumps({"type": "loss", **_loss_fields(log, loss)}))
        print(json.dumps(fields))
        return
    for loss in losses:
        print(printable(_loss_text(loss), 2000))
    if losses or damaged:
        kept = f"{fields['batches']} batches, {fields['records']} records, {fields['bytes']} bytes kept"
        print(
            f"{log.directory}: {kept}, {fields['lost_bytes']} bytes lost; ends at offset {result.log_end_offset}"
        )
    for path in damaged:
        print(f"{path}: as it was")


def _loss_fields(log: LogFiles, loss: Loss) -> Fields:
    return {
        "topic": None if log.name is None else log.name.topic,
        "partition": None if log.name is None else log.name.partition,
        "kind": loss.kind.value,
        "path": loss.path,
        "position": loss.position,
        "length_bytes": loss.length,
        "first_offset": loss.first_offset,
        "end_offset": loss.end_offset,
        "reason": loss.reason,
    }


def _loss_text(loss: Loss) -> str:
    offsets = f"offsets from {loss.first_offset}"
    if loss.end_offset is not None:
        offsets += f" to before {loss.end_offset}"
    what = f"{loss.length} bytes lost ({loss.kind.value}), {offsets}: {loss.reason}"
    return f"{loss.path}: byte {loss.position}: {what}"
