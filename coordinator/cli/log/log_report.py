"""The report of `groupd log verify` and `repair`: entries, a summary, and their renderers for text and JSON.

`terminal_reports` has the renderer for a terminal.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from coordinator.cli.log.decoded_record import Fields
from coordinator.core.message_text import format_count, printable
from storage.inspection.log_findings import FindingEffect, FindingKind, LogFinding, LogTotals
from storage.inspection.log_reader import LogListing
from storage.repair.repair import RepairedLog, RepairLoss

LabelledText = tuple[str, str, str]
"""The text of a label, its style, and the text after it."""
_MAX_TEXT: Final = 2000
_MAX_TITLE: Final = 200


class ReportEntry(NamedTuple):
    """One entry of a report, in each form. An entry without a form has None, or no rows."""

    fields: Fields | None
    line: str | None
    heading: str = ""
    rows: Sequence[LabelledText] = ()


class ReportSummary(NamedTuple):
    """The summary of a report in each form. `verdict` is a text and its style."""

    fields: Fields | None
    line: str | None
    titles: Sequence[str]
    rows: Sequence[Sequence[str | int]]
    verdict: tuple[str, str] | None


class LogReport(Protocol):
    """A renderer of a report."""

    def print_entry(self, entry: ReportEntry) -> None:
        """Print an entry in the form of the renderer, if it has that form."""

    def print_summary(self, summary: ReportSummary) -> None:
        """Print the summary after the last entry."""


class TextReport:
    """A line for each entry, for programs."""

    def print_entry(self, entry: ReportEntry | ReportSummary) -> None:
        if entry.line is not None:
            print(entry.line)

    print_summary = print_entry


class JsonReport:
    """A JSON object for each entry."""

    def print_entry(self, entry: ReportEntry | ReportSummary) -> None:
        if entry.fields is not None:
            print(json.dumps(entry.fields))

    print_summary = print_entry


def _name_fields(log: LogListing) -> Fields:
    name = log.name
    return {
        "topic": None if name is None else name.topic,
        "partition": None if name is None else name.partition,
    }


def _format_log_title(log: LogListing) -> str:
    if log.name is not None:
        return str(log.name)
    return printable(log.directory if log.is_whole else log.segments[0].path, _MAX_TITLE)


_EFFECTS: Final = {
    FindingEffect.STOPS_LOAD: ("red", "groupd does not load the partition"),
    FindingEffect.CUT_AT_START: ("yellow", "the next start truncates the log here"),
    FindingEffect.FAILS_READS: ("red", "reads at this position fail"),
    FindingEffect.MISLEADS_READS: ("yellow", "reads may begin at a wrong position and miss records"),
    FindingEffect.MISLEADS_COMMITTED_READS: (
        "yellow",
        "consumers of committed records may get aborted ones, or miss committed ones",
    ),
    FindingEffect.REBUILT: ("cyan", "groupd builds it again when needed; nothing is lost"),
    FindingEffect.TAKEN_BACK: ("yellow", "the next start writes it to the log"),
    FindingEffect.STOPS_START: ("red", "no broker starts on this directory"),
}
"""The style and the meaning of each effect."""
_LEAVE_OUT: Final = "leaves these bytes out and keeps every sound batch"
_REPAIRS: Final = {
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


def describe_finding(log: LogListing, finding: LogFinding) -> ReportEntry:
    """Return the entry of a finding of `groupd log verify`."""
    kind, (style, meaning), repair = finding.kind.value, _EFFECTS[finding.effect], _REPAIRS[finding.kind]
    where = finding.path if finding.position is None else f"{finding.path}: byte {finding.position}"
    where = printable(where, _MAX_TEXT)
    at = "" if finding.offset is None else f" (offset {finding.offset})"
    what = f"{finding.length} bytes: {finding.reason}" if finding.length else finding.reason
    what = printable(what, _MAX_TEXT)
    return ReportEntry(
        {
            "type": "finding",
            **_name_fields(log),
            "kind": kind,
            "effect": finding.effect.value,
            "path": finding.path,
            "position": finding.position,
            "length_bytes": finding.length,
            "offset": finding.offset,
            "reason": finding.reason,
            "meaning": meaning,
            "repair": repair,
        },
        f"{where}: {kind}{at}: {what}; {meaning}; repair {repair}",
        where,
        [(kind, style, f"{what}{at}"), (finding.effect.value, style, meaning), ("repair", "dim", repair)],
    )


class VerifiedLog(NamedTuple):
    """A log that was checked, and the number of its findings."""

    log: LogListing
    totals: LogTotals
    findings: int

    def list_figures(self) -> tuple[int, ...]:
        """Return the figures of the log, in the order of `_VERIFIED_FIGURES`."""
        totals = self.totals
        return len(self.log.segments), totals.batches, totals.records, totals.bytes, self.findings


_VERIFIED_FIGURES: Final = ("segments", "batches", "records", "bytes", "findings")


def summarize_findings(logs: Sequence[VerifiedLog]) -> ReportSummary:
    """Return the summary of `groupd log verify`."""
    sums = [sum(column) for column in zip(*(log.list_figures() for log in logs), strict=True)]
    totals = {"logs": len(logs), **dict(zip(_VERIFIED_FIGURES, sums or [0] * 5, strict=True))}
    *figures, findings = [f"{number} {name}" for name, number in totals.items()]
    count = totals["findings"]
    findings = format_count(count, "finding") if count else "no findings"
    rows: list[tuple[str | int, ...]] = [
        (_format_log_title(log.log), *log.list_figures()) for log in logs if log.findings
    ]
    return ReportSummary(
        {"type": "summary", **totals},
        f"{', '.join(figures)}: {findings}",
        ("log", *_VERIFIED_FIGURES),
        [*rows, (f"all logs ({len(logs):,})", *list(totals.values())[1:])],
        ("not sound", "bold red") if count else ("sound", "bold green"),
    )


class RepairOutcome(NamedTuple):
    """A log that was repaired."""

    log: LogListing
    result: RepairedLog
    damaged: list[str]
    """The new paths of the damaged files of a log that was repaired in place."""

    @property
    def has_losses(self) -> bool:
        """Whether a part of the log was left out or a damaged file was kept."""
        return bool(self.result.losses or self.damaged)

    def list_figures(self) -> tuple[int, int, int, int]:
        """Return the batches, records and bytes that were kept, and the lost bytes."""
        segments = self.result.segments
        return (
            sum(segment.batches for segment in segments),
            sum(segment.records for segment in segments),
            sum(segment.bytes for segment in segments),
            sum(loss.length for loss in self.result.losses),
        )


def describe_repair(repaired: RepairOutcome) -> Iterator[ReportEntry]:
    """Yield the entries of a log that `groupd log repair` repaired: its losses, the log, its damaged files."""
    log, result, damaged = repaired
    for loss in result.losses:
        yield _describe_loss(log, loss)
    batches, records, size, lost = repaired.list_figures()
    kept = f"{log.directory}: {batches} batches, {records} records, {size} bytes kept"
    yield ReportEntry(
        {
            "type": "log",
            **_name_fields(log),
            "directory": log.directory,
            "batches": batches,
            "records": records,
            "bytes": size,
            "log_end_offset": result.log_end_offset,
            "losses": len(result.losses),
            "lost_bytes": lost,
            "damaged_files": damaged,
        },
        f"{kept}, {lost} bytes lost; ends at offset {result.log_end_offset}" if repaired.has_losses else None,
    )
    for path in damaged:
        rows = [("kept", "dim", "unchanged")]
        yield ReportEntry(None, f"{path}: unchanged", printable(path, _MAX_TEXT), rows)


def _describe_loss(log: LogListing, loss: RepairLoss) -> ReportEntry:
    where = f"{loss.path}: byte {loss.position}"
    until = "" if loss.end_offset is None else f" to before {loss.end_offset}"
    why = f"offsets from {loss.first_offset}{until}: {loss.reason}"
    return ReportEntry(
        {
            "type": "loss",
            **_name_fields(log),
            "kind": loss.kind.value,
            "path": loss.path,
            "position": loss.position,
            "length_bytes": loss.length,
            "first_offset": loss.first_offset,
            "end_offset": loss.end_offset,
            "reason": loss.reason,
        },
        printable(f"{where}: {loss.length} bytes lost ({loss.kind.value}), {why}", _MAX_TEXT),
        printable(where, _MAX_TEXT),
        [(loss.kind.value, "red", printable(f"{loss.length} bytes lost, {why}", _MAX_TEXT))],
    )


def summarize_repair(logs: Sequence[RepairOutcome]) -> ReportSummary:
    """Return the summary of `groupd log repair`, which only a terminal shows."""
    rows: list[tuple[str | int, ...]] = [
        (_format_log_title(one.log), *one.list_figures(), one.result.log_end_offset)
        for one in logs
        if one.has_losses
    ]
    sums = [sum(column) for column in zip(*(one.list_figures() for one in logs), strict=True)]
    return ReportSummary(
        None,
        None,
        ("log", "batches", "records", "bytes kept", "bytes lost", "ends at offset"),
        [*rows, (f"all logs ({len(logs):,})", *sums, "")],
        None if any(one.result.losses for one in logs) else ("nothing was lost", "bold green"),
    )
