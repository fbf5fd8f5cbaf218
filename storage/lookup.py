"""Finding records by time in a row of segments. Source: KIP-33, KIP-734, Kafka's
`UnifiedLog.fetchOffsetByTimestamp`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from storage.segment import Segment


class TimestampOffset(NamedTuple):
    """A record's time in milliseconds and its offset."""

    timestamp_ms: int
    offset: int


def first_at_or_after(
    segments: Sequence[Segment], timestamp_ms: int, from_offset: int, index_interval_bytes: int
) -> TimestampOffset | None:
    """The first record, by offset and not below `from_offset`, whose time is `timestamp_ms` or later.

    Raises CorruptBatch, the position being one in the segment looked at.
    """
    for segment in segments:
        segment.load_indexes(index_interval_bytes)
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        for batch in segment.walk(segment.position_before(timestamp_ms, index_interval_bytes)):
            if batch.header.max_timestamp_ms < timestamp_ms or batch.header.last_offset < from_offset:
                continue
            for record in batch.records():
                if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
                    return TimestampOffset(record.timestamp_ms, record.offset)
    return None


def latest(
    segments: Sequence[Segment], from_offset: int, index_interval_bytes: int
) -> TimestampOffset | None:
    """The greatest time of all records and the first offset that has it; None when no record carries a time.

    Raises CorruptBatch.
    """
    greatest_ms = -1
    for segment in segments:
        segment.load_indexes(index_interval_bytes)
        greatest_ms = max(greatest_ms, segment.max_timestamp_ms)
    if greatest_ms < 0:
        return None
    found = first_at_or_after(segments, greatest_ms, from_offset, index_interval_bytes)
    if found is not None:
        return found
    # The record with the greatest time is no longer live: only looking at all that are can tell.
    for segment in segments:
        for batch in segment.walk():
            for record in batch.records() if batch.header.last_offset >= from_offset else ():
                if record.offset >= from_offset and record.timestamp_ms > (
                    found.timestamp_ms if found else -1
                ):
                    found = TimestampOffset(record.timestamp_ms, record.offset)
    return found
