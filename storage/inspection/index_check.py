"""Whether the indexes beside a segment agree with it.

An entry of an offset index has to name the byte at which a batch begins, and an offset not below that batch: a
lookup then never lands behind what it looks for. An entry of a time index has to be as late as everything before
its offset: a lookup by time then passes over nothing. A sealed segment's time index ends with its greatest time.
Entries may be missing at the end, and whole files, without harm.

A daemon may write to the segment meanwhile, seal it, or compact it: what was read then are batches of one moment
and entries of another, of which nothing can be said.

Source: Kafka's `OffsetIndex`, `TimeIndex`, `DumpLogSegments`.
"""

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from storage.batch import BatchHeader
from storage.files import Files
from storage.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from storage.inspection.findings import Kind
from storage.inspection.segment_scan import BadBytes
from storage.segment import LOG_SUFFIX
from storage.segment_indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from storage.stored_batch import StoredBatch

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")

Entry = tuple[int, int]


class IndexesCheck:
    """One pass along a segment and both its indexes."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """In: the segment's `.log` file. Raises OSError."""
        stem, suffix, rest = path.rpartition(LOG_SUFFIX)
        self.path = path
        self.base_offset = base_offset
        self._files = files
        self._offset_index_path = stem + INDEX_SUFFIX + rest if suffix else ""
        self._time_index_path = stem + TIME_INDEX_SUFFIX + rest if suffix else ""
        self._offsets = OffsetIndexCheck(files, self._offset_index_path, base_offset)
        self._times = TimeIndexCheck(files, self._time_index_path, base_offset)
        self.end = 0
        """Up to where the segment was read."""
        self.is_all_there = True
        """Whether each piece began where the one before it ended. Where another segment took the place of this one,
        the reader goes on within that."""
        self._has_bad_bytes = False

    def batch(self, batch: StoredBatch) -> None:
        """The next sound batch."""
        self.is_all_there &= batch.position == self.end
        self._offsets.batch(batch.position, batch.header)
        self._times.batch(batch.header)
        self.end = batch.position + len(batch.data)

    def bad_bytes(self, bad: BadBytes) -> None:
        """What lies between: entries that point there may have been right."""
        self.is_all_there &= bad.position == self.end
        self.end = bad.position + bad.length
        self._offsets.bad_bytes(self.end)
        self._has_bad_bytes = True

    def finish(self, is_sealed: bool) -> list[tuple[Kind, bool, str, str]]:
        """What is wrong with either: kind, whether it is made anew when it is loaded, path, reason. Raises OSError.
        Nothing, where the segment is not as it was read any more."""
        wrong = list(self._wrong(is_sealed))
        return [] if wrong and self._has_moved_on() else wrong

    def _has_moved_on(self) -> bool:
        if not self.is_all_there:
            return True
        try:
            size = self._files.size(self.path)
        except FileNotFoundError:
            return True
        offsets, times = (
            _read(self._files, path) for path in (self._offset_index_path, self._time_index_path)
        )
        return (size, offsets, times) != (self.end, self._offsets.data, self._times.data)

    def _wrong(self, is_sealed: bool) -> Iterator[tuple[Kind, bool, str, str]]:
        wrong = self._offsets.finish()
        if wrong:
            is_rebuilt = OffsetIndex.decode(self.base_offset, self._offsets.data, self.end) is None
            yield Kind.OFFSET_INDEX, is_rebuilt, self._offset_index_path, wrong
        wrong = self._times.finish(is_sealed, self._has_bad_bytes)
        if wrong:
            is_rebuilt = TimeIndex.decode(self.base_offset, self._times.data) is None
            yield Kind.TIME_INDEX, is_rebuilt, self._time_index_path, wrong


def _entries(data: bytes, entry: struct.Struct) -> tuple[list[Entry], str]:
    """The entries of an index file without the zeros that a broker preallocates, and what is wrong with it."""
    whole = len(data) - len(data) % entry.size
    found: list[Entry] = list(entry.iter_unpack(data[:whole]))
    while found and not any(found[-1]):
        found.pop()
    return found, f"{len(data)} bytes are not a number of entries" if whole != len(data) else ""


def _read(files: Files, path: str) -> bytes:
    """An index file; empty for a missing file, and for one that `unusable_files` names."""
    try:
        return files.read(path) if path else b""
    except OSError:
        return b""


class OffsetIndexCheck:
    """One pass along a segment and its offset index."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Raises OSError; a file that is not there has nothing wrong with it."""
        self.data = _read(files, path)
        self._entries, self.wrong = _entries(self.data, _OFFSET_ENTRY)
        self._base_offset = base_offset
        self._next = 0

    def batch(self, position: int, header: BatchHeader) -> None:
        """The next sound batch."""
        while self._next < len(self._entries):
            relative_offset, at = self._entries[self._next]
            if at > position:
                return
            self._next += 1
            offset = self._base_offset + relative_offset
            if at < position:
                self._say(f"entry {self._next} points to byte {at}, where no batch begins")
            elif offset < header.base_offset:
                self._say(
                    f"entry {self._next} says offset {offset} of the batch at offset {header.base_offset}"
                )

    def bad_bytes(self, end: int) -> None:
        """Bytes up to `end` are no batch: entries that point there may have been right."""
        while self._next < len(self._entries) and self._entries[self._next][1] < end:
            self._next += 1

    def finish(self) -> str:
        """The segment ends here: what is wrong with the index, "" for nothing."""
        if self._next < len(self._entries):
            at = self._entries[self._next][1]
            self._say(f"entry {self._next + 1} points to byte {at}, past the last batch")
        offsets = [entry[0] for entry in self._entries]
        if any(after <= before for before, after in pairwise(offsets)):
            self._say("its offsets do not increase")
        return self.wrong

    def _say(self, wrong: str) -> None:
        self.wrong = self.wrong or wrong


class TimeIndexCheck:
    """One pass along a segment and its time index."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        """Raises OSError; a file that is not there has nothing wrong with it."""
        self.data = _read(files, path)
        self._entries, self.wrong = _entries(self.data, _TIME_ENTRY)
        self._base_offset = base_offset
        self._next = 0
        self._greatest_ms = -1
        self._next_offset = base_offset

    def batch(self, header: BatchHeader) -> None:
        """The next sound batch."""
        self._up_to(header.last_offset)
        self._greatest_ms = max(self._greatest_ms, header.max_timestamp_ms)
        self._next_offset = header.next_offset

    def _up_to(self, last_offset: int) -> None:
        """Everything before a batch with this last offset is known: looks at the entries for it."""
        while self._next < len(self._entries):
            timestamp_ms, relative_offset = self._entries[self._next]
            offset = self._base_offset + relative_offset
            if offset > last_offset:
                return
            self._next += 1
            if timestamp_ms < self._greatest_ms:
                self._say(
                    f"entry {self._next} says {timestamp_ms} ms, but {self._greatest_ms} ms comes before it"
                )

    def finish(self, is_sealed: bool, has_bad_bytes: bool) -> str:
        """The segment ends here: what is wrong with the index, "" for nothing."""
        if not has_bad_bytes and self._next < len(self._entries):
            offset = self._base_offset + self._entries[self._next][1]
            self._say(
                f"entry {self._next + 1} says offset {offset}, where the segment ends at {self._next_offset}"
            )
        if is_sealed and self._entries and self._entries[-1][0] < self._greatest_ms:
            self._say(f"it ends at {self._entries[-1][0]} ms, its segment at {self._greatest_ms} ms")
        times = [entry[0] for entry in self._entries]
        if any(after <= before for before, after in pairwise(times)):
            self._say("its times do not increase")
        return self.wrong

    def _say(self, wrong: str) -> None:
        self.wrong = self.wrong or wrong


assert _OFFSET_ENTRY.size == OFFSET_ENTRY_BYTES
assert _TIME_ENTRY.size == TIME_ENTRY_BYTES
