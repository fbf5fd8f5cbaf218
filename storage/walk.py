"""Every batch of a log, from an offset on, over the borders of its segments."""

from collections.abc import Iterator, Sequence

from storage.errors import CorruptBatch, LogDamaged
from storage.segment import Segment
from storage.stored_batch import StoredBatch


def walk_segments(
    segments: Sequence[Segment], from_offset: int, end_offset: int, index_interval_bytes: int
) -> Iterator[StoredBatch]:
    """The batches that end at or after `from_offset`, checksums and offsets verified.

    In: neighbours; where the last of them ends now, as an offset. What is appended from now on is not walked.

    Gaps and empty batches that compaction left are normal. Raises LogDamaged with file and position.
    """
    return _walk(segments, segments[-1].size, from_offset, end_offset, index_interval_bytes)


def _walk(
    segments: Sequence[Segment],
    end_position: int,
    from_offset: int,
    end_offset: int,
    index_interval_bytes: int,
) -> Iterator[StoredBatch]:
    expected_offset = 0
    for segment in segments:
        try:
            position = 0
            if segment.base_offset < from_offset:
                position = segment.position_of(from_offset, index_interval_bytes)
            expected_offset = max(expected_offset, segment.base_offset)
            for batch in segment.walk(position, check=True):
                if segment is segments[-1] and batch.position >= end_position:
                    return  # appended since the walk began
                header = batch.header
                next_offset = header.base_offset + header.last_offset_delta + 1
                check_offsets(header.base_offset, next_offset, expected_offset, end_offset, batch.position)
                expected_offset = next_offset
                yield batch
        except CorruptBatch as error:
            raise LogDamaged(segment.path, error.reason, error.position) from error


def check_offsets(
    base_offset: int, next_offset: int, expected_offset: int, end_offset: int, position: int
) -> None:
    """Raises CorruptBatch for a batch whose offset, which is under no checksum, does not fit where it lies."""
    if base_offset < expected_offset:
        raise CorruptBatch(f"offset {base_offset} comes again", position)
    if next_offset > end_offset:
        raise CorruptBatch(f"offset {next_offset - 1} is past the end, {end_offset}", position)
