"""The findings of `groupd log verify` as text and JSON."""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from coordinator.cli.log.decoded_record import Fields
from coordinator.core.message_text import printable
from storage.inspection.log_findings import FindingEffect, FindingKind, LogFinding, LogTotals
from storage.inspection.log_reader import LogListing

MEANINGS: Final = {
    FindingEffect.STOPS_LOAD: "groupd does not load the partition",
    FindingEffect.CUT_AT_START: "the next start truncates the log here",
    FindingEffect.FAILS_READS: "reads at this position fail",
    FindingEffect.MISLEADS_READS: "reads may begin at a wrong position and miss records",
    FindingEffect.MISLEADS_COMMITTED_READS: "consumers of committed records may get aborted ones, or miss "
    "committed ones",
    FindingEffect.REBUILT: "groupd builds it again when needed; nothing is lost",
    FindingEffect.TAKEN_BACK: "the next start writes it to the log",
    FindingEffect.STOPS_START: "no broker starts on this directory",
}

_LEAVE_OUT: Final = "leaves these bytes out and keeps every sound batch"
REPAIRS: Final = {
    FindingKind.TORN_TAIL: _LEAVE_OUT,
    FindingKind.DAMAGED_BATCH: _LEAVE_OUT,
    FindingKind.OLD_FORMAT: "leaves these messages out; a broker of version 3 can convert them",
    FindingKind.UNREADABLE_RECORDS: "leaves this batch out",
    FindingKind.UNDECODABLE_RECORD: "keeps the record unless --drop-undecodable is given",
    FindingKind.OFFSET_INDEX: "builds the index again",
    FindingKind.TIME_INDEX: "builds the index again",
    FindingKind.TRANSACTION_INDEX: "removes the index and the snapshots of producers; a start builds them again",
    FindingKind.PRODUCER_SNAPSHOT: "leaves it to the next start, which removes it",
    FindingKind.RECOVERY_POINT: "lowers the recovery point to the end of the log",
    FindingKind.CHECKPOINT: "writes the checkpoint again",
    FindingKind.UNUSABLE_FILE: "works without it; with --in-place it renames it",
    FindingKind.JOURNAL: "ignores it; run `groupd log recover`",
}

_MAX_TEXT: Final = 2000


class FindingText(NamedTuple):
    """The printable parts of a report on a finding."""

    where: str
    at: str
    """The offset, where it is known."""
    what: str
    meaning: str
    repair: str


def describe_finding(finding: LogFinding) -> FindingText:
    """A finding in words."""
    where = finding.path if finding.position is None else f"{finding.path}: byte {finding.position}"
    what = f"{finding.length} bytes: {finding.reason}" if finding.length else finding.reason
    return FindingText(
        printable(where, _MAX_TEXT),
        "" if finding.offset is None else f" (offset {finding.offset})",
        printable(what, _MAX_TEXT),
        MEANINGS[finding.effect],
        REPAIRS[finding.kind],
    )


def format_finding(finding: LogFinding) -> str:
    """One line, without its end."""
    text = describe_finding(finding)
    what = f"{finding.kind.value}{text.at}: {text.what}"
    return f"{text.where}: {what}; {text.meaning}; repair {text.repair}"


def format_finding_json(log: LogListing, finding: LogFinding) -> str:
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


class VerifiedLog(NamedTuple):
    """A log that was looked at."""

    log: LogListing
    totals: LogTotals
    findings: int


class FindingReport(Protocol):
    """Prints findings as they come, and then the sums."""

    def print_finding(self, log: LogListing, finding: LogFinding) -> None:
        """One thing that is wrong with a log."""

    def print_summary(self, logs: Sequence[VerifiedLog]) -> None:
        """After the last of the logs."""


class FindingTextReport:
    """A line a finding."""

    def print_finding(self, log: LogListing, finding: LogFinding) -> None:
        print(format_finding(finding))

    def print_summary(self, logs: Sequence[VerifiedLog]) -> None:
        sums = sum_totals(logs)
        findings = sums.pop("findings")
        text = ", ".join(f"{number} {name}" for name, number in sums.items())
        print(f"{text}: {findings or 'no'} finding{'' if findings == 1 else 's'}")


class FindingJsonReport:
    """An object a finding, and one that sums up."""

    def print_finding(self, log: LogListing, finding: LogFinding) -> None:
        print(format_finding_json(log, finding))

    def print_summary(self, logs: Sequence[VerifiedLog]) -> None:
        print(json.dumps({"type": "summary", **sum_totals(logs)}))


def sum_totals(logs: Sequence[VerifiedLog]) -> dict[str, int]:
    """Figures of all logs, by name."""
    return {
        "logs": len(logs),
        "segments": sum(len(verified.log.segments) for verified in logs),
        "batches": sum(verified.totals.batches for verified in logs),
        "records": sum(verified.totals.records for verified in logs),
        "bytes": sum(verified.totals.bytes for verified in logs),
        "findings": sum(verified.findings for verified in logs),
    }
