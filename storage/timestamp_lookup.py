"""Searches of a log by time: the first record at or after a time, and the record with the greatest time. A
read of a log loads the indexes of its segments in the same way.

A search may read a whole segment, or unpack a batch of millions of records. So it is a generator that reads
nothing itself: each step is a function for another thread, which reads one segment. Such a function gets a
copy of the segment with a file handle of its own, and touches nothing else of the log. Between two steps the
log may be appended to, compacted and shortened; the generator reads its state again.

Source: Kafka's `UnifiedLog.fetchOffsetByTimestamp`; KIP-33, KIP-734.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from storage.segment import LogSegment
from storage.storage_errors import CorruptBatch, LogDamaged
from storage.stored_batch import StoredBatch


class TimestampOffset(NamedTuple):
    """A record's time in milliseconds and its offset."""

    timestamp_ms: int
    offset: int


LookupSteps: TypeAlias = Generator[Callable[[], Any], Any, TimestampOffset | None]
"""Steps that are functions for another thread; each is sent its result. An error of a function ends the search."""

FindSegmentSteps: TypeAlias = Generator[Callable[[], Any], Any, tuple[LogSegment, int]]
LoadSteps: TypeAlias = Generator[Callable[[], Any], Any, None]


class SearchedLog(Protocol):
    """The part of a log that a search reads, on the owner's thread."""

    log_start_offset: int
    log_end_offset: int

    def find_segment(self, offset: int) -> tuple[LogSegment, int]:
        """Return the segment that holds an offset, and the offset at which the next one begins, or the log ends.
        Raises LogClosed."""


def find_first_at_or_after(log: SearchedLog, timestamp_ms: int, index_interval_bytes: int) -> LookupSteps:
    """Return the first record of a log, by offset, with a time of `timestamp_ms` or later.

    Raises LogClosed if the log is closed meanwhile; OSError. The functions raise LogDamaged and OSError.
    """
    offset, end_offset = log.log_start_offset, log.log_end_offset
    while offset < min(end_offset, log.log_end_offset):
        segment, next_offset = yield from _find_loaded_segment(log, offset, index_interval_bytes)
        if segment.indexes.max_timestamp_ms >= timestamp_ms:
            position = segment.indexes.find_position_before(timestamp_ms)
            found: TimestampOffset | None = yield partial(
                _search_first, segment.open_copy(), position, timestamp_ms, offset
            )
            if found is not None:
                return found
        offset = max(next_offset, log.log_start_offset)
    return None


def find_max_timestamp(log: SearchedLog, index_interval_bytes: int) -> LookupSteps:
    """Return the greatest time of all records of a log and its first offset, or None without any time.

    Raises as `find_first_at_or_after`. The index of a segment gives an upper bound, because the record with
    its greatest time may be deleted. The lookup begins with the segment of the greatest bound, and skips
    segments with a lower bound.
    """
    bounds: list[tuple[int, int]] = []
    offset, end_offset = log.log_start_offset, log.log_end_offset
    while offset < min(end_offset, log.log_end_offset):
        segment, next_offset = yield from _find_loaded_segment(log, offset, index_interval_bytes)
        bounds.append((-segment.indexes.max_timestamp_ms, offset))
        offset = max(next_offset, log.log_start_offset)
    greatest: TimestampOffset | None = None
    for negative_bound_ms, first_offset in sorted(bounds):
        if greatest is not None and (negative_bound_ms, first_offset) > (
            -greatest.timestamp_ms,
            greatest.offset,
        ):
            break
        offset = max(first_offset, log.log_start_offset)
        segment, _ = yield from _find_loaded_segment(log, offset, index_interval_bytes)
        bound_ms = segment.indexes.max_timestamp_ms
        position = segment.indexes.find_position_before(bound_ms)
        found: TimestampOffset | None = yield partial(
            _search_greatest, segment.open_copy(), position, bound_ms, offset
        )
        if found is not None and (greatest is None or _is_better(found, greatest)):
            greatest = found
    return greatest


def load_segments(log: SearchedLog, offset: int, index_interval_bytes: int) -> LoadSteps:
    """Load the indexes of the segment with an offset, and of the next ones while compaction has left no batch.

    Raises as `find_first_at_or_after`.
    """
    while offset < log.log_end_offset:
        segment, next_offset = yield from _find_loaded_segment(log, offset, index_interval_bytes)
        try:
            if segment.find_loaded_position(offset) < segment.size:
                return
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error
        offset = next_offset


def _is_better(found: TimestampOffset, other: TimestampOffset) -> bool:
    return (-found.timestamp_ms, found.offset) < (-other.timestamp_ms, other.offset)


def _find_loaded_segment(log: SearchedLog, offset: int, index_interval_bytes: int) -> FindSegmentSteps:
    """Find the segment that holds an offset, and have its indexes loaded."""
    while True:
        segment, next_offset = log.find_segment(offset)
        if segment.indexes.are_loaded:
            return segment, next_offset
        copy = segment.open_copy()
        yield partial(_load_indexes, copy, index_interval_bytes)
        segment.adopt_indexes(copy)


@contextmanager
def _reading(segment: LogSegment) -> Iterator[None]:
    """Read a copy, which is closed at the end. Raises LogDamaged with its path."""
    with closing(segment):
        try:
            yield
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error


def _load_indexes(segment: LogSegment, index_interval_bytes: int) -> None:
    """Load the indexes of a copy, and close it."""
    with _reading(segment):
        segment.load_indexes(index_interval_bytes)


def _search_first(
    segment: LogSegment, position: int, timestamp_ms: int, from_offset: int
) -> TimestampOffset | None:
    """Search a copy of a segment for the first record at or after an offset and a time, and close the copy.

    `position` is the byte at which the search begins.
    """
    with _reading(segment):
        return _find_first(segment, position, timestamp_ms, from_offset)


def _search_greatest(
    segment: LogSegment, position: int, bound_ms: int, from_offset: int
) -> TimestampOffset | None:
    """Search a copy for the greatest time of the records at or after an offset, and close the copy.

    `bound_ms` is the greatest time by the index, and `position` the byte at which the search begins.
    """
    with _reading(segment):
        found = None if bound_ms < 0 else _find_first(segment, position, bound_ms, from_offset)
        return found or _find_greatest(segment, from_offset)


def _find_first(
    segment: LogSegment, position: int, timestamp_ms: int, from_offset: int
) -> TimestampOffset | None:
    for batch in segment.walk(position):
        if batch.header.max_timestamp_ms >= timestamp_ms and batch.header.last_offset >= from_offset:
            for found in _iterate_times(batch, from_offset):
                if found.timestamp_ms >= timestamp_ms:
                    return found
    return None


def _find_greatest(segment: LogSegment, from_offset: int) -> TimestampOffset | None:
    """Walk a segment by the headers of its batches. The records of two batches are read: of the one that holds the
    offset, because its header may have the time of a deleted record, and of the one with the greatest time."""
    greatest: TimestampOffset | None = None
    latest: StoredBatch | None = None
    greatest_ms = -1
    for batch in segment.walk():
        header = batch.header
        if header.max_timestamp_ms <= greatest_ms or header.last_offset < from_offset:
            continue
        if header.base_offset < from_offset:
            greatest = _find_greatest_of_batch(batch, from_offset)
            greatest_ms = -1 if greatest is None else greatest.timestamp_ms
        elif header.records_count:
            latest, greatest_ms = batch, header.max_timestamp_ms
    return greatest if latest is None else _find_greatest_of_batch(latest, from_offset)


def _find_greatest_of_batch(batch: StoredBatch, from_offset: int) -> TimestampOffset | None:
    greatest: TimestampOffset | None = None
    for found in _iterate_times(batch, from_offset):
        if found.timestamp_ms >= 0 and (greatest is None or _is_better(found, greatest)):
            greatest = found
    return greatest


def _iterate_times(batch: StoredBatch, from_offset: int) -> Iterator[TimestampOffset]:
    for time_ms, offset in batch.times():
        if offset >= from_offset:
            yield TimestampOffset(time_ms, offset)
