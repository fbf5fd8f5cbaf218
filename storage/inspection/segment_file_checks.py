"""Checks the files beside a segment against its batches: offset and time index, index of aborted transactions,
and snapshots of producers.

An entry of an offset index must name the byte at which a batch begins, and an offset not below that batch;
then a lookup never lands behind its target. An entry of a time index must be at least as late as all records
up to its offset; then a lookup by time skips no record. The time index of a sealed segment ends with its
greatest time. Entries may be missing at the end, and whole files, without harm.

An index of aborted transactions must name every abort marker of its segment unless no batch of its transaction
is left. It must not name anything that is not an abort marker, because a consumer would drop records that the
producer committed later. Entries of transactions with nothing left do no harm. A snapshot must be complete,
and its offset must not lie past the end of the log.

A daemon may write, seal or compact the segment meanwhile. Batches of one moment and index entries of another
prove nothing, so nothing is reported then.

Source: Kafka's `OffsetIndex`, `TimeIndex`, `DumpLogSegments`, `TransactionIndex.sanityCheck`,
`ProducerStateManager`.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from storage.batch import BatchHeader
from storage.files import Files
from storage.inspection.log_findings import FindingKind
from storage.inspection.segment_scan import BadBytes
from storage.producers.end_transaction_marker import decode_marker
from storage.producers.producer_snapshots import decode_snapshot, format_snapshot_path
from storage.record import Record
from storage.segment import LOG_SUFFIX
from storage.segment_index import (
    INDEX_SUFFIX,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    TIME_INDEX_SUFFIX,
    OffsetIndex,
    TimeIndex,
)
from storage.storage_errors import DamagedFile, format_error_reason
from storage.stored_batch import StoredBatch
from storage.transaction_index import TRANSACTION_INDEX_SUFFIX, AbortedTransaction, decode_transaction_index

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
assert _OFFSET_ENTRY.size == OFFSET_ENTRY_BYTES
assert _TIME_ENTRY.size == TIME_ENTRY_BYTES

IndexEntry = tuple[int, int]


class IndexesCheck:
    """One pass along a segment and both of its indexes."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Create the checks for the `.log` file of a segment. Raises OSError."""
        stem, suffix, rest = path.rpartition(LOG_SUFFIX)
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._offset_index_path = stem + INDEX_SUFFIX + rest if suffix else ""
        self._time_index_path = stem + TIME_INDEX_SUFFIX + rest if suffix else ""
        self._offsets = OffsetIndexCheck(files, self._offset_index_path, base_offset)
        self._times = TimeIndexCheck(files, self._time_index_path, base_offset)
        self.end = 0
        """The position up to which the segment was read, in bytes."""
        self.is_contiguous = True
        """Whether each piece began at the end of the piece before it. If another segment has replaced this
        one, the reader continues in that segment."""
        self._has_bad_bytes = False

    def check_batch(self, batch: StoredBatch) -> None:
        """Check the index entries up to the next sound batch."""
        self.is_contiguous &= batch.position == self.end
        self._offsets.check_batch(batch.position, batch.header)
        self._times.check_batch(batch.header)
        self.end = batch.position + len(batch.data)

    def skip_bad_bytes(self, bad: BadBytes) -> None:
        """Skip bad bytes: entries that point there may have been right."""
        self.is_contiguous &= bad.position == self.end
        self.end = bad.position + bad.length
        self._offsets.skip_bad_bytes(self.end)
        self._has_bad_bytes = True

    def finish(self, is_sealed: bool) -> list[tuple[FindingKind, bool, str, str]]:
        """Return the problems of both indexes: kind, whether a load makes the index again, path, reason. The
        result is empty if the segment has changed since it was read. Raises OSError."""
        wrong = list(self._find_problems(is_sealed))
        return [] if wrong and self._has_changed() else wrong

    def _has_changed(self) -> bool:
        if not self.is_contiguous:
            return True
        try:
            size = self._files.size(self.path)
        except FileNotFoundError:
            return True
        offsets, times = (
            _read_index(self._files, path) for path in (self._offset_index_path, self._time_index_path)
        )
        return (size, offsets, times) != (self.end, self._offsets.data, self._times.data)

    def _find_problems(self, is_sealed: bool) -> Iterator[tuple[FindingKind, bool, str, str]]:
        wrong = self._offsets.finish()
        if wrong:
            is_rebuilt = OffsetIndex.decode(self.base_offset, self._offsets.data, self.end) is None
            yield FindingKind.OFFSET_INDEX, is_rebuilt, self._offset_index_path, wrong
        wrong = self._times.finish(is_sealed, self._has_bad_bytes)
        if wrong:
            is_rebuilt = TimeIndex.decode(self.base_offset, self._times.data) is None
            yield FindingKind.TIME_INDEX, is_rebuilt, self._time_index_path, wrong


def _parse_entries(data: bytes, entry: struct.Struct) -> tuple[list[IndexEntry], str]:
    """Return the entries of an index file without preallocated zeros, and the problem of the file, or ""."""
    whole = len(data) - len(data) % entry.size
    found: list[IndexEntry] = list(entry.iter_unpack(data[:whole]))
    while found and not any(found[-1]):
        found.pop()
    return found, f"{len(data)} bytes are not a number of entries" if whole != len(data) else ""


def _read_index(files: Files, path: str) -> bytes:
    """Return the content of an index file. It is empty for a missing file, and for one that
    `find_unusable_files` reports."""
    try:
        return files.read(path) if path else b""
    except OSError:
        return b""


class OffsetIndexCheck:
    """One pass along a segment and its offset index."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Read the index. A missing file has no problem. Raises OSError."""
        self.data = _read_index(files, path)
        self._entries, self.problem = _parse_entries(self.data, _OFFSET_ENTRY)
        self._base_offset = base_offset
        self._next = 0

    def check_batch(self, position: int, header: BatchHeader) -> None:
        """Check the entries up to the start of the next sound batch."""
        while self._next < len(self._entries):
            relative_offset, at = self._entries[self._next]
            if at > position:
                return
            self._next += 1
            offset = self._base_offset + relative_offset
            if at < position:
                self._report_problem(f"entry {self._next} points to byte {at}, where no batch begins")
            elif offset < header.base_offset:
                self._report_problem(
                    f"entry {self._next} says offset {offset} of the batch at offset {header.base_offset}"
                )

    def skip_bad_bytes(self, end: int) -> None:
        """Record that the bytes up to `end` are not a batch. Entries that point there may have been right."""
        while self._next < len(self._entries) and self._entries[self._next][1] < end:
            self._next += 1

    def finish(self) -> str:
        """End the segment. Return the problem of the index, or ""."""
        if self._next < len(self._entries):
            at = self._entries[self._next][1]
            self._report_problem(f"entry {self._next + 1} points to byte {at}, past the last batch")
        offsets = [entry[0] for entry in self._entries]
        if any(after <= before for before, after in pairwise(offsets)):
            self._report_problem("its offsets do not increase")
        return self.problem

    def _report_problem(self, wrong: str) -> None:
        self.problem = self.problem or wrong


class TimeIndexCheck:
    """One pass along a segment and its time index."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Read the index. A missing file has no problem. Raises OSError."""
        self.data = _read_index(files, path)
        self._entries, self.problem = _parse_entries(self.data, _TIME_ENTRY)
        self._base_offset = base_offset
        self._next = 0
        self._greatest_ms = -1
        self._next_offset = base_offset

    def check_batch(self, header: BatchHeader) -> None:
        """Check the entries up to the next sound batch."""
        self._check_entries_to(header.last_offset)
        self._greatest_ms = max(self._greatest_ms, header.max_timestamp_ms)
        self._next_offset = header.next_offset

    def _check_entries_to(self, last_offset: int) -> None:
        """Check the entries before a batch with this last offset, because everything before it is known."""
        while self._next < len(self._entries):
            timestamp_ms, relative_offset = self._entries[self._next]
            offset = self._base_offset + relative_offset
            if offset > last_offset:
                return
            self._next += 1
            if timestamp_ms < self._greatest_ms:
                self._report_problem(
                    f"entry {self._next} says {timestamp_ms} ms, but {self._greatest_ms} ms comes before it"
                )

    def finish(self, is_sealed: bool, has_bad_bytes: bool) -> str:
        """End the segment. Return the problem of the index, or ""."""
        if not has_bad_bytes and self._next < len(self._entries):
            offset = self._base_offset + self._entries[self._next][1]
            self._report_problem(
                f"entry {self._next + 1} says offset {offset}, where the segment ends at {self._next_offset}"
            )
        if is_sealed and self._entries and self._entries[-1][0] < self._greatest_ms:
            self._report_problem(
                f"it ends at {self._entries[-1][0]} ms, its segment at {self._greatest_ms} ms"
            )
        times = [entry[0] for entry in self._entries]
        if any(after <= before for before, after in pairwise(times)):
            self._report_problem("its times do not increase")
        return self.problem

    def _report_problem(self, wrong: str) -> None:
        self.problem = self.problem or wrong


class TransactionsCheck:
    """One pass along the segments of a log and their indexes of aborted transactions."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._open_producers: set[int] = set()
        """Producers with a record of an unfinished transaction."""
        self._markers: dict[int, int] = {}
        """The producers of the segment's abort markers, by offset of the marker."""
        self._expected_markers: set[int] = set()
        """The offsets of the markers that the index must contain."""
        self._has_bad_bytes = False
        self._ends: dict[str, int | None] = {}
        """The size of each segment that was read so far, in bytes; None if batches were skipped."""

    def check_batch(self, header: BatchHeader, records: Sequence[Record]) -> None:
        """Check the next sound batch. Raises CorruptBatch for an invalid marker."""
        if header.producer_id < 0 or not header.is_transactional:
            return
        if not header.is_control:
            if header.records_count:
                self._open_producers.add(header.producer_id)
            return
        marker = decode_marker(header, list(records))
        if marker is None:
            return
        if not marker.is_committed:
            self._markers[header.base_offset] = header.producer_id
            if header.producer_id in self._open_producers:
                self._expected_markers.add(header.base_offset)
        self._open_producers.discard(header.producer_id)

    def skip_bad_bytes(self) -> None:
        """Note bad bytes: the transactions of the index cannot be checked."""
        self._has_bad_bytes = True

    def finish_segment(self, path: str, end: int | None, *, is_sealed: bool) -> list[tuple[str, str, bool]]:
        """End a segment. Return each of its index files, its problem, and whether opening the log detects it.

        `end` is the end position, or None if the segment was replaced while it was read. Files of the active
        segment may be missing. A log that changed meanwhile has no findings. Raises OSError.
        """
        markers, due, has_bad_bytes = self._markers, self._expected_markers, self._has_bad_bytes
        self._markers, self._expected_markers, self._has_bad_bytes = {}, set(), False
        self._ends[path] = end
        stem, suffix, rest = path.rpartition(LOG_SUFFIX)
        if not suffix:
            return []
        index_path = stem + TRANSACTION_INDEX_SUFFIX + rest
        try:
            named = decode_transaction_index(self._files.read(index_path), index_path)
        except FileNotFoundError:
            named = []
        except DamagedFile as error:
            return [(index_path, error.reason, True)]
        except OSError as error:
            return [(index_path, format_error_reason(error, index_path), True)]
        wrong = "" if has_bad_bytes or not is_sealed else _find_disagreement(named, markers, due)
        return [] if not wrong or self._has_changed() else [(index_path, wrong, False)]

    def _has_changed(self) -> bool:
        """Return whether any segment up to here was replaced. A transaction may begin several segments before
        its end."""
        try:
            return any(self._files.size(path) != end for path, end in self._ends.items())
        except FileNotFoundError:
            return True


def _find_disagreement(named: Sequence[AbortedTransaction], markers: Mapping[int, int], due: set[int]) -> str:
    """Return the difference between an index and its segment, or "".

    `named` has the entries of the index, `markers` the producers of the abort markers by offset, and `due`
    the offsets that the index must contain.
    """
    for aborted in named:
        if markers.get(aborted.last_offset) != aborted.producer_id:
            return f"producer {aborted.producer_id} has no abort marker at offset {aborted.last_offset}"
    missing = sorted(due.difference(aborted.last_offset for aborted in named))
    return f"does not name the transaction that the marker at offset {missing[0]} aborts" if missing else ""


def check_snapshots(
    files: Files, directory: str, offsets: Iterable[int], log_end_offset: int
) -> Iterator[tuple[str, str]]:
    """Check the snapshots at `offsets` of a log that ends at `log_end_offset`.

    Yields: path and error text of each bad snapshot. Raises OSError.
    """
    for offset in offsets:
        path = format_snapshot_path(directory, offset)
        try:
            decode_snapshot(files.read(path), path)
        except OSError:
            continue  # removed meanwhile, or reported by `find_unusable_files`
        except DamagedFile as error:
            yield path, error.reason
            continue
        if offset > log_end_offset:
            yield path, f"covers the log before offset {offset}, but the log ends at {log_end_offset}"
