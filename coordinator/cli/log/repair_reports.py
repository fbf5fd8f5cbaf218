"""The report of `groupd log repair` on each log, in a pipe or a file."""

import json
from typing import Final, NamedTuple, Protocol

from coordinator.cli.log.decoded_record import Fields
from coordinator.core.message_text import printable
from storage.inspection.log_reader import LogListing
from storage.repair.repair import RepairedLog, RepairLoss

_MAX_LINE: Final = 2000


class RepairOutcome(NamedTuple):
    """A log that was repaired."""

    log: LogListing
    result: RepairedLog
    damaged: list[str]
    """Where the damaged files are now, of a log that was repaired in place."""

    @property
    def batches(self) -> int:
        """Of the repaired log."""
        return sum(segment.batches for segment in self.result.segments)

    @property
    def records(self) -> int:
        """Of the repaired log."""
        return sum(segment.records for segment in self.result.segments)

    @property
    def bytes(self) -> int:
        """Of the repaired log."""
        return sum(segment.bytes for segment in self.result.segments)

    @property
    def lost_bytes(self) -> int:
        """Return the number of bytes that the repaired log lacks."""
        return sum(loss.length for loss in self.result.losses)


class RepairReport(Protocol):
    """A report of repaired logs, as text or as JSON."""

    def print_outcome(self, repaired: RepairOutcome) -> None:
        """Print the outcome of one log."""

    def print_summary(self) -> None:
        """Print the summary after the last log."""


class RepairTextReport:
    """A line a loss, and one a log of which something was lost."""

    def print_outcome(self, repaired: RepairOutcome) -> None:
        log, result, damaged = repaired
        for loss in result.losses:
            what = f"{loss.length} bytes lost ({loss.kind.value}), {format_loss_reason(loss)}"
            print(printable(f"{format_loss_place(loss)}: {what}", _MAX_LINE))
        if result.losses or damaged:
            kept = f"{repaired.batches} batches, {repaired.records} records, {repaired.bytes} bytes kept"
            lost = f"{repaired.lost_bytes} bytes lost; ends at offset {result.log_end_offset}"
            print(f"{log.directory}: {kept}, {lost}")
        for path in damaged:
            print(f"{path}: unchanged")

    def print_summary(self) -> None:
        pass


class RepairJsonReport:
    """An object a loss, and one a log."""

    def print_outcome(self, repaired: RepairOutcome) -> None:
        log, result, damaged = repaired
        for loss in result.losses:
            print(json.dumps({"type": "loss", **_loss_fields(log, loss)}))
        fields: Fields = {
            "type": "log",
            "topic": None if log.name is None else log.name.topic,
            "partition": None if log.name is None else log.name.partition,
            "directory": log.directory,
            "batches": repaired.batches,
            "records": repaired.records,
            "bytes": repaired.bytes,
            "log_end_offset": result.log_end_offset,
            "losses": len(result.losses),
            "lost_bytes": repaired.lost_bytes,
            "damaged_files": damaged,
        }
        print(json.dumps(fields))

    def print_summary(self) -> None:
        pass


def _loss_fields(log: LogListing, loss: RepairLoss) -> Fields:
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


def format_loss_place(loss: RepairLoss) -> str:
    """The file and the byte."""
    return f"{loss.path}: byte {loss.position}"


def format_loss_reason(loss: RepairLoss) -> str:
    """Return the text for the lost offsets and the reason."""
    offsets = f"offsets from {loss.first_offset}"
    if loss.end_offset is not None:
        offsets += f" to before {loss.end_offset}"
    return f"{offsets}: {loss.reason}"
