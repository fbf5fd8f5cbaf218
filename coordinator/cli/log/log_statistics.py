"""Counting what logs are made of."""

from dataclasses import dataclass, field
from typing import Final

from coordinator.cli.log.entry import Fields, name_and_group
from coordinator.cli.log.json_form import codec_name
from coordinator.cli.log.record_types import CONTROL, RECORD
from coordinator.cli.times import iso_time
from storage.batch import BatchHeader
from storage.record import Record

_OLD_OFFSET_KEY: Final = b"\0\0"
_OFFSET_KEY: Final = b"\0\1"


@dataclass(slots=True)
class Count:
    """Records of one kind. `bytes` are those of keys and values, unpacked."""

    records: int = 0
    tombstones: int = 0
    bytes: int = 0
    live_keys: int = 0
    """Keys whose last record is no tombstone."""
    superseded_records: int = 0
    """Records with a later one of the same key, which a compaction removes."""
    superseded_bytes: int = 0

    def fields(self) -> Fields:
        """As data."""
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
    """Batches. `bytes` are those on disk."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    bad_bytes: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    codecs: dict[str, int] = field(default_factory=dict)
    """Bytes on disk by codec."""

    def add(self, header: BatchHeader) -> None:
        """Takes a batch."""
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
        """As data."""
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


class _Latest:
    """The last record of a key: its bytes, whether it is a tombstone, and who counts it."""

    __slots__ = ("counts", "is_tombstone", "size_bytes")

    def __init__(self, counts: tuple[Count, ...]) -> None:
        self.counts = counts
        self.size_bytes = -1
        self.is_tombstone = True


class Tally:
    """Counts of several logs. Of `__consumer_offsets` it remembers every key once."""

    def __init__(self) -> None:
        self.offsets = Count()
        """All records of `__consumer_offsets`, without control records."""
        self.types: dict[str, Count] = {}
        self.groups: dict[str, Count] = {}
        self._latest: dict[bytes | None, _Latest] = {}

    def add_control(self, records: list[Record]) -> None:
        """Takes the records of a control batch."""
        self._add_plain(CONTROL, records)

    def add_plain(self, records: list[Record]) -> None:
        """Takes records of an ordinary topic."""
        self._add_plain(RECORD, records)

    def _add_plain(self, name: str, records: list[Record]) -> None:
        count = self.types.setdefault(name, Count())
        for record in records:
            count.records += 1
            count.bytes += len(record.key or b"") + len(record.value or b"")
            count.tombstones += record.value is None

    def add_offsets(self, records: list[Record]) -> None:
        """Takes records of `__consumer_offsets`, in the order of their log."""
        for _, _, key, value, _ in records:
            if key is not None and key.startswith(_OLD_OFFSET_KEY):
                key = _OFFSET_KEY + key[2:]  # the same key, as it was written before 0.9
            latest = self._latest.get(key)
            if latest is None:
                latest = self._latest[key] = _Latest(self._counts(key))
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

    def _counts(self, key: bytes | None) -> tuple[Count, ...]:
        name, group = name_and_group(key)
        by_type = self.types.setdefault(name, Count())
        if group is None:
            return self.offsets, by_type
        return self.offsets, by_type, self.groups.setdefault(group, Count())
