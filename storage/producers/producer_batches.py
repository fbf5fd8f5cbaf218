"""The batches of a segment that producers have numbered, found by their headers: others cost little."""

import struct
from collections.abc import Iterator
from typing import Final

from storage.batch import HEADER_BYTES, LENGTH_END, MAGIC, MIN_BATCH_LENGTH, read_header
from storage.errors import CorruptBatch
from storage.segment import Segment
from storage.stored_batch import StoredBatch

_CHUNK_BYTES: Final = 1024 * 1024
_STEP: Final = struct.Struct(">qi4xb6xi16xq")
"""Base offset, batch length, magic, last offset delta, producer id."""


def producer_batches(segment: Segment, position: int, from_offset: int) -> Iterator[StoredBatch]:
    """Those that end at or after an offset, in order; checksums are not verified.

    In: a position at which a batch begins. Raises CorruptBatch with the position in the file.
    """
    chunk, chunk_position, size = b"", position, segment.size
    while position < size:
        local = position - chunk_position
        if local + HEADER_BYTES > len(chunk):
            chunk, chunk_position, local = segment.file.pread(_CHUNK_BYTES, position), position, 0
            if len(chunk) < HEADER_BYTES:
                raise CorruptBatch(f"{len(chunk)} bytes are less than a batch header", position)
        base_offset, length, magic, last_offset_delta, producer_id = _STEP.unpack_from(chunk, local)
        end = position + length + LENGTH_END
        if magic != MAGIC or length < MIN_BATCH_LENGTH:
            try:
                read_header(chunk, local)
            except CorruptBatch as error:
                raise CorruptBatch(error.reason, position) from None
        if end > size:
            raise CorruptBatch(
                f"a batch of {end - position} bytes ends after {size - position} bytes", position
            )
        if producer_id >= 0 and base_offset + last_offset_delta >= from_offset:
            if end - chunk_position > len(chunk):
                chunk = segment.file.pread(max(end - position, _CHUNK_BYTES), position)
                chunk_position, local = position, 0
            data = chunk[local : local + end - position]
            yield StoredBatch(segment.path, position, read_header(data), data)
        position = end
