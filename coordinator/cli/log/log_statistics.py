"""Counts of records, batches, groups and logs for `groupd log stats`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from coordinator.cli.log.decoded_record import CONTROL, RECORD, Fields, decode_type_and_group
from coordinator.cli.log.log_paths import holds_offsets, wait_for_writer
from coordinator.cli.log.read_progress import ReadProgress
from coordinator.cli.log.record_text import codec_name
from coordinator.cli.output_streams import warn
from coordinator.cli.time_text import iso_time
from storage.batch import BatchHeader
from storage.inspection.log_reader import LogListing, LogReader
from storage.inspection.segment_scan import BadBytes
from storage.record import Record
from storage.storage_errors import CorruptBatch

_OLD_OFFSET_KEY: Final = b"\0\0"
_OFFSET_KEY: Final = b"\0\1"


@dataclass(slots=True)
class RecordCount:
    """The count of records of one kind. `bytes` is the uncompressed size of keys and values."""

    records: int = 0
    tombstones: int = 0
    bytes: int = 0
    live_keys: int = 0
    """The number of keys with a last record that is not a tombstone."""
    superseded_records: int = 0
    """The number of records with a later record of the same key. Compaction removes them."""
    superseded_bytes: int = 0

    def fields(self) -> Fields:
        return {
            "records": self.records,
            "tombstones": self.tombstones,
            "bytes": self.bytes,
            "live_keys": self.live_keys,
            "superseded_records": self.superseded_records,
            "superseded_bytes": self.superseded_bytes,
            "superseded_share": round(self.superseded_records / self.records, 4) if self.records else 0.0,
        }


@dataclass(slots=True)
class BatchCount:
    """The count of batches. `bytes` is their size on disk."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    bad_bytes: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    codecs: dict[str, int] = field(default_factory=dict)
    """The size on disk in bytes, by codec."""

    def add(self, header: BatchHeader) -> None:
        """Add a batch to the statistics."""
        self.batches += 1
        self.records += header.records_count
        self.bytes += header.size_bytes
        codec = codec_name(header)
        self.codecs[codec] = self.codecs.get(codec, 0) + header.size_bytes
        time_ms = header.max_timestamp_ms
        if time_ms >= 0 and header.records_count:
            self.last_ms = time_ms if self.last_ms is None else max(self.last_ms, time_ms)
            if header.delete_horizon_ms is None and header.base_timestamp_ms >= 0:
                time_ms = min(time_ms, header.base_timestamp_ms)
            self.first_ms = time_ms if self.first_ms is None else min(self.first_ms, time_ms)

    def fields(self) -> Fields:
        return {
            "batches": self.batches,
            "records": self.records,
            "bytes": self.bytes,
            "bad_bytes": self.bad_bytes,
            "first_timestamp_ms": self.first_ms,
            "last_timestamp_ms": self.last_ms,
            "first_time": None if self.first_ms is None else iso_time(self.first_ms),
            "last_time": None if self.last_ms is None else iso_time(self.last_ms),
            "codecs": {
                codec: {"bytes": size, "share": round(size / self.bytes, 4)}
                for codec, size in sorted(self.codecs.items())
            },
        }


class _LatestRecord:
    """The last record of a key: its bytes, whether it is a tombstone, and the statistics that count it."""

    __slots__ = ("counts", "is_tombstone", "size_bytes")

    def __init__(self, counts: tuple[RecordCount, ...]) -> None:
        self.counts = counts
        self.size_bytes = -1
        self.is_tombstone = True


class RecordCounter:
    """Counts the records of several logs. It remembers every key of `__consumer_offsets` once."""

    def __init__(self) -> None:
        self.offsets = RecordCount()
        """The count of all records of `__consumer_offsets`, without control records."""
        self.types: dict[str, RecordCount] = {}
        self.groups: dict[str, RecordCount] = {}
        self._latest_by_key: dict[bytes | None, _LatestRecord] = {}

    def add_control(self, records: list[Record]) -> None:
        """Count the records of a control batch."""
        self._add_plain(CONTROL, records)

    def add_plain(self, records: list[Record]) -> None:
        """Count records of an ordinary topic."""
        self._add_plain(RECORD, records)

    def _add_plain(self, name: str, records: list[Record]) -> None:
        count = self.types.setdefault(name, RecordCount())
        for record in records:
            count.records += 1
            count.bytes += len(record.key or b"") + len(record.value or b"")
            count.tombstones += record.value is None

    def add_offsets(self, records: list[Record]) -> None:
        """Count records of `__consumer_offsets`, in the order of their log."""
        for _, _, key, value, _ in records:
            if key is not None and key.startswith(_OLD_OFFSET_KEY):
                key = _OFFSET_KEY + key[2:]  # the same key, as it was written before 0.9
            latest = self._latest_by_key.get(key)
            if latest is None:
                latest = self._latest_by_key[key] = _LatestRecord(self._find_counts(key))
            size_bytes = len(key or b"") + len(value or b"")
            was_live, is_live = not latest.is_tombstone, value is not None
            for count in latest.counts:
                count.records += 1
                count.bytes += size_bytes
                count.tombstones += not is_live
                count.live_keys += is_live - was_live
                if latest.size_bytes >= 0:
                    count.superseded_records += 1
                    count.superseded_bytes += latest.size_bytes
            latest.size_bytes, latest.is_tombstone = size_bytes, not is_live

    def _find_counts(self, key: bytes | None) -> tuple[RecordCount, ...]:
        name, group = decode_type_and_group(key)
        by_type = self.types.setdefault(name, RecordCount())
        if group is None:
            return self.offsets, by_type
        return self.offsets, by_type, self.groups.setdefault(group, RecordCount())


COLUMNS: Final = {
    "records": "records",
    "tombstones": "tombstones",
    "live_keys": "live keys",
    "superseded_records": "superseded",
    "bytes": "bytes",
}
"""The columns of a table of record counts, with their titles."""


class LogStats:
    """Statistics of some logs."""

    def __init__(self, is_offsets: bool) -> None:
        """Create empty statistics. `is_offsets` counts all logs as `__consumer_offsets`, independent of their
        directories' names.
        """
        self.total = BatchCount()
        self.record_counter = RecordCounter()
        self.logs: list[tuple[LogListing, BatchCount]] = []
        self._is_offsets = is_offsets

    @property
    def segments(self) -> int:
        """The number of segments of all logs."""
        return sum(len(log.segments) for log, _ in self.logs)

    def read_log(self, log: LogListing, progress: ReadProgress) -> None:
        """Count the records of a log. Raises OSError."""
        count = BatchCount()
        self.logs.append((log, count))
        is_offsets = self._is_offsets or holds_offsets(log)
        add = self.record_counter.add_offsets if is_offsets else self.record_counter.add_plain
        for piece in LogReader(progress.files, log, pause=wait_for_writer).read_pieces():
            if isinstance(piece, BadBytes):
                if not piece.is_incomplete:
                    progress.hide()
                    self._count_bad_bytes(count, piece.path, piece.position, piece.length, piece.reason)
                continue
            try:
                records = piece.records()
            except CorruptBatch as error:
                progress.hide()
                self._count_bad_bytes(count, piece.path, piece.position, len(piece.data), error.reason)
                continue
            count.add(piece.header)
            self.total.add(piece.header)
            if piece.header.is_control:
                self.record_counter.add_control(records)
            else:
                add(records)

    def _count_bad_bytes(self, count: BatchCount, path: str, position: int, length: int, reason: str) -> None:
        count.bad_bytes += length
        self.total.bad_bytes += length
        warn(f"{path}: byte {position}: {length} bytes skipped: {reason}")

    def fields(self) -> Fields:
        """Return all statistics as data for JSON."""
        record_counter = self.record_counter
        return {
            **self.total.fields(),
            "consumer_offsets": record_counter.offsets.fields(),
            "types": {name: count.fields() for name, count in sort_by_bytes(record_counter.types)},
            "groups": [
                {"group": group, **count.fields()} for group, count in sort_by_bytes(record_counter.groups)
            ],
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


def sort_by_bytes(counts: Mapping[str, RecordCount]) -> list[tuple[str, RecordCount]]:
    """Return counts by name, the largest number of bytes first."""
    return sorted(counts.items(), key=lambda item: (-item[1].bytes, item[0]))
