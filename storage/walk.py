"""Every batch of a log, from an offset on, over the borders of its segments."""

from collections.abc import Iterator, Sequence

from storage.errors import CorruptBatch, LogDamaged
from storage.segment import Segment, StoredBatch


def walk_segments(
    segments: Sequence[Segment], from_offset: int, end_offset: int, index_interval_bytes: int
) -> Iterator[StoredBatch]:
    """The batches that end at or after `from_offset` and begin before `end_offset`, checksums verified.

    Gaps and empty batches that compaction left are normal. Raises LogDamaged with file and position.
    """
    expected_offset = 0
    for segment in segments:
        try:
            position = 0
            if segment.base_offset < from_offset:
                position = segment.position_of(from_offset, index_interval_bytes)
            expected_offset = max(expected_offset, segment.base_offset)
            for batch in segment.walk(position, check=True):
                header = batch.header
                base_offset = header.base_offset
                if base_offset >= end_offset:
                    return
                if base_offset < expected_offset:
                    raise CorruptBatch(f"offset {base_offset} comes again", batch.position)
                expected_offset = base_offset + header.last_offset_delta + 1
                yield batch
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error
