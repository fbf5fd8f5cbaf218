"""`groupd log verify`: everything that is wrong with a log, and what comes of it."""

import json
from typing import Final

import click

from coordinator.cli.log.entry import Fields, what_is_wrong
from coordinator.cli.log.paths import FOUND, SOUND, holds_offsets, in_words, logs_at, pause
from coordinator.net.peer import printable
from storage.files import OsFiles
from storage.inspection.directory_reader import LogFiles
from storage.inspection.findings import Effect, Finding, Kind
from storage.inspection.verification import Verification

EPILOG = """Looks at every batch (length, format, checksum, counts, offsets), at what it unpacks to, at keys and
values of __consumer_offsets, at indexes and checkpoints. Changes nothing, and may run beside the daemon.
Exit codes: 0 sound, 1 something is wrong, 2 PATH is no log."""

MEANINGS: Final = {
    Effect.STOPS_LOAD: "a start that reads this does not load the partition",
    Effect.CUT_AT_START: "the log is cut here at the next start, with all that follows",
    Effect.FAILS_READS: "reads that come here fail",
    Effect.MISLEADS_READS: "reads may begin in the wrong place and miss records",
    Effect.REBUILT: "it is made anew when it is needed; nothing is lost",
}

_LEAVES_OUT: Final = "leaves these bytes out and keeps every sound batch"
REPAIRS: Final = {
    Kind.TORN_TAIL: _LEAVES_OUT,
    Kind.DAMAGED_BATCH: _LEAVES_OUT,
    Kind.OLD_FORMAT: "leaves these messages out; a broker of version 3 can convert them",
    Kind.UNREADABLE_RECORDS: "leaves this batch out",
    Kind.UNDECODABLE_RECORD: "keeps the record, unless told --drop-undecodable",
    Kind.OFFSET_INDEX: "makes the index anew",
    Kind.TIME_INDEX: "makes the index anew",
    Kind.RECOVERY_POINT: "lowers the recovery point to the end of the log",
    Kind.CHECKPOINT: "makes the checkpoint anew",
}


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "is_json", is_flag=True, help="One JSON object a finding, and one that sums up.")
@click.option(
    "--offsets-decoder", is_flag=True, help="Decode as __consumer_offsets, whatever the directory is called."
)
@in_words
def command(paths: tuple[str, ...], is_json: bool, offsets_decoder: bool) -> int:
    """Check logs: say where something is wrong, what it means, and what repair would do about it."""
    files = OsFiles()
    logs = logs_at(files, paths)
    found = 0
    totals = {"logs": len(logs), "segments": sum(len(log.segments) for log in logs)}
    totals |= dict.fromkeys(("batches", "records", "bytes"), 0)
    for log in logs:
        is_offsets = offsets_decoder or holds_offsets(log)
        verification = Verification(files, log, examine=what_is_wrong if is_offsets else None, pause=pause)
        for finding in verification.findings():
            found += 1
            print(_as_json(log, finding) if is_json else _as_text(finding))
        for name in ("batches", "records", "bytes"):
            totals[name] += getattr(verification.totals, name)
    if is_json:
        print(json.dumps({"type": "summary", **totals, "findings": found}))
    else:
        text = ", ".join(f"{number} {name}" for name, number in totals.items())
        print(f"{text}: {found or 'no'} finding{'' if found == 1 else 's'}")
    return FOUND if found else SOUND


def _as_json(log: LogFiles, finding: Finding) -> str:
    fields: Fields = {
        "type": "finding",
        "topic": None if log.name is None else log.name.topic,
        "partition": None if log.name is None else log.name.partition,
        "kind": finding.kind.value,
        "effect": finding.effect.value,
        "path": finding.path,
        "position": finding.position,
        "length_bytes": finding.length,
        "offset": finding.offset,
        "reason": finding.reason,
        "meaning": MEANINGS[finding.effect],
        "repair": REPAIRS[finding.kind],
    }
    return json.dumps(fields)


def _as_text(finding: Finding) -> str:
    where = finding.path if finding.position is None else f"{finding.path}: byte {finding.position}"
    what = f"{finding.length} bytes: {finding.reason}" if finding.length else finding.reason
    at = "" if finding.offset is None else f" (offset {finding.offset})"
    said = f"{finding.kind.value}{at}: {what}; {MEANINGS[finding.effect]}; repair {REPAIRS[finding.kind]}"
    return printable(f"{where}: {said}", 2000)
