"""Finding records by time in a row of segments. Source: KIP-33, KIP-734, Kafka's
`UnifiedLog.fetchOffsetByTimestamp`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from storage.errors import CorruptBatch, LogDamaged
from storage.segment import Segment
from storage.stored_batch import StoredBatch


class TimestampOffset(NamedTuple):
    """A record's time in milliseconds and its offset."""

    timestamp_ms: int
    offset: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, from_offset: int, index_interval_bytes: int
) -> TimestampOffset | None:
    """The first record, by offset and not below `from_offset`, whose time is `timestamp_ms` or later.

    Raises LogDamaged.
    """
    for segment in segments:
        try:
            if segment.max_timestamp_ms(index_interval_bytes) < timestamp_ms:
                continue
            position = segment.position_before(timestamp_ms, index_interval_bytes)
            for found in _live_times(segment.walk(position), timestamp_ms, from_offset):
                if found.timestamp_ms >= timestamp_ms:
                    return found
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error
    return None


def latest(
    segments: Sequence[Segment], from_offset: int, index_interval_bytes: int
) -> TimestampOffset | None:
    """The greatest time of all records and the first offset that has it; None when no record carries a time.

    Raises LogDamaged.
    """
    greatest_ms = -1
    for segment in segments:
        try:
            greatest_ms = max(greatest_ms, segment.max_timestamp_ms(index_interval_bytes))
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error
    if greatest_ms < 0:
        return None
    found = first_at_or_after(segments, greatest_ms, from_offset, index_interval_bytes)
    if found is not None:
        return found
    # The record with the greatest time is no longer live: only looking at all that are can tell.
    for segment in segments:
        try:
            for live in _live_times(segment.walk(), -1, from_offset):
                if live.timestamp_ms > (found.timestamp_ms if found else -1):
                    found = live
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error
    return found


def _live_times(
    batches: Iterator[StoredBatch], timestamp_ms: int, from_offset: int
) -> Iterator[TimestampOffset]:
    """The records not below an offset, of the batches that are late enough to hold one of that time."""
    for batch in batches:
        if batch.header.max_timestamp_ms >= timestamp_ms and batch.header.last_offset >= from_offset:
            for time_ms, offset in batch.times():
                if offset >= from_offset:
                    yield TimestampOffset(time_ms, offset)
