"""What is wrong with a log, in words and as data."""

import json
from typing import Final, NamedTuple

from coordinator.cli.log.entry import Fields
from coordinator.net.peer import printable
from storage.inspection.directory_reader import LogFiles
from storage.inspection.findings import Effect, Finding, Kind

MEANINGS: Final = {
    Effect.STOPS_LOAD: "a start that reads this does not load the partition",
    Effect.CUT_AT_START: "the log is cut here at the next start, with all that follows",
    Effect.FAILS_READS: "reads that come here fail",
    Effect.MISLEADS_READS: "reads may begin in the wrong place and miss records",
    Effect.MISLEADS_COMMITTED_READS: "consumers of committed records may get aborted ones, or miss committed ones",
    Effect.REBUILT: "it is made anew when it is needed; nothing is lost",
    Effect.TAKEN_BACK: "the next start puts it into the log",
    Effect.STOPS_START: "nothing starts on this directory",
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
    Kind.TRANSACTION_INDEX: "removes the index, and the snapshots of producers: a start makes it anew",
    Kind.PRODUCER_SNAPSHOT: "leaves it to the next start, which removes it",
    Kind.RECOVERY_POINT: "lowers the recovery point to the end of the log",
    Kind.CHECKPOINT: "makes the checkpoint anew",
    Kind.UNUSABLE_FILE: "makes do without it; in place, it moves it aside",
    Kind.JOURNAL: "does nothing about it, `groupd log recover` does",
}

_MAX_TEXT: Final = 2000


class FindingWords(NamedTuple):
    """What there is to say about a finding, each printable."""

    where: str
    at: str
    """The offset, where it is known."""
    what: str
    meaning: str
    repair: str


def words_of(finding: Finding) -> FindingWords:
    """A finding in words."""
    where = finding.path if finding.position is None else f"{finding.path}: byte {finding.position}"
    what = f"{finding.length} bytes: {finding.reason}" if finding.length else finding.reason
    return FindingWords(
        printable(where, _MAX_TEXT),
        "" if finding.offset is None else f" (offset {finding.offset})",
        printable(what, _MAX_TEXT),
        MEANINGS[finding.effect],
        REPAIRS[finding.kind],
    )


def as_text(finding: Finding) -> str:
    """One line, without its end."""
    words = words_of(finding)
    what = f"{finding.kind.value}{words.at}: {words.what}"
    return f"{words.where}: {what}; {words.meaning}; repair {words.repair}"


def as_json(log: LogFiles, finding: Finding) -> str:
    """One line, without its end."""
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
