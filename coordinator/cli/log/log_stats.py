"""Counts of logs, gathered while they are read."""

from collections.abc import Mapping
from typing import Final

from coordinator.cli.log.entry import Fields
from coordinator.cli.log.paths import holds_offsets, pause
from coordinator.cli.log.progress import Progress
from coordinator.cli.log.tally import BatchCount, Count, Tally
from coordinator.cli.standard_streams import warn
from storage.errors import CorruptBatch
from storage.inspection.directory_reader import LogFiles
from storage.inspection.log_reader import LogReader
from storage.inspection.segment_scan import BadBytes

COLUMNS: Final = {
    "records": "records",
    "tombstones": "tombstones",
    "live_keys": "live keys",
    "superseded_records": "superseded",
    "bytes": "bytes",
}
"""What a table tells of records of one kind, with its titles."""


class LogStats:
    """What some logs are made of."""

    def __init__(self, is_offsets: bool) -> None:
        """In: whether all logs count as `__consumer_offsets`, whatever their directories are called."""
        self.total = BatchCount()
        self.tally = Tally()
        self.logs: list[tuple[LogFiles, BatchCount]] = []
        self._is_offsets = is_offsets

    @property
    def segments(self) -> int:
        """Of all logs."""
        return sum(len(log.segments) for log, _ in self.logs)

    def read(self, log: LogFiles, progress: Progress) -> None:
        """Counts a log. Raises OSError."""
        count = BatchCount()
        self.logs.append((log, count))
        is_offsets = self._is_offsets or holds_offsets(log)
        add = self.tally.add_offsets if is_offsets else self.tally.add_plain
        for piece in LogReader(progress.files, log, pause=pause).pieces():
            if isinstance(piece, BadBytes):
                if not piece.is_incomplete:
                    progress.hide()
                    self._pass_over(count, piece.path, piece.position, piece.length, piece.reason)
                continue
            try:
                records = piece.records()
            except CorruptBatch as error:
                progress.hide()
                self._pass_over(count, piece.path, piece.position, len(piece.data), error.reason)
                continue
            count.add(piece.header)
            self.total.add(piece.header)
            if piece.header.is_control:
                self.tally.add_control(records)
            else:
                add(records)

    def _pass_over(self, count: BatchCount, path: str, position: int, length: int, reason: str) -> None:
        count.bad_bytes += length
        self.total.bad_bytes += length
        warn(f"{path}: byte {position}: {length} bytes passed over: {reason}")

    def fields(self) -> Fields:
        """Everything, as data."""
        tally = self.tally
        return {
            **self.total.fields(),
            "consumer_offsets": tally.offsets.fields(),
            "types": {name: count.fields() for name, count in by_bytes(tally.types)},
            "groups": [{"group": group, **count.fields()} for group, count in by_bytes(tally.groups)],
            "logs": [
                {
                    "topic": None if log.name is None else log.name.topic,
                    "partition": None if log.name is None else log.name.partition,
                    "directory": log.directory,
                    "segments": len(log.segments),
                    **count.fields(),
                }
                for log, count in self.logs
            ],
        }


def by_bytes(counts: Mapping[str, Count]) -> list[tuple[str, Count]]:
    """The largest first."""
    return sorted(counts.items(), key=lambda item: (-item[1].bytes, item[0]))
