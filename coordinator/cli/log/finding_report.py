"""What `groupd log verify` prints where no person looks on."""

import json
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from coordinator.cli.log.finding_form import as_json, as_text
from storage.inspection.directory_reader import LogFiles
from storage.inspection.findings import Finding, LogTotals


class VerifiedLog(NamedTuple):
    """A log that was looked at."""

    log: LogFiles
    totals: LogTotals
    findings: int


class FindingReport(Protocol):
    """Prints findings as they come, and then the sums."""

    def say(self, log: LogFiles, finding: Finding) -> None:
        """One thing that is wrong with a log."""

    def sum_up(self, logs: Sequence[VerifiedLog]) -> None:
        """After the last of the logs."""


class TextReport:
    """A line a finding."""

    def say(self, log: LogFiles, finding: Finding) -> None:
        print(as_text(finding))

    def sum_up(self, logs: Sequence[VerifiedLog]) -> None:
        sums = sums_of(logs)
        findings = sums.pop("findings")
        text = ", ".join(f"{number} {name}" for name, number in sums.items())
        print(f"{text}: {findings or 'no'} finding{'' if findings == 1 else 's'}")


class JsonReport:
    """An object a finding, and one that sums up."""

    def say(self, log: LogFiles, finding: Finding) -> None:
        print(as_json(log, finding))

    def sum_up(self, logs: Sequence[VerifiedLog]) -> None:
        print(json.dumps({"type": "summary", **sums_of(logs)}))


def sums_of(logs: Sequence[VerifiedLog]) -> dict[str, int]:
    """Figures of all logs, by name."""
    return {
        "logs": len(logs),
        "segments": sum(len(verified.log.segments) for verified in logs),
        "batches": sum(verified.totals.batches for verified in logs),
        "records": sum(verified.totals.records for verified in logs),
        "bytes": sum(verified.totals.bytes for verified in logs),
        "findings": sum(verified.findings for verified in logs),
    }
