"""Calculate the size of a batch of some records. Source: Kafka's `DefaultRecordBatch.sizeInBytes`."""

from collections.abc import Iterable
from typing import Final

from storage.batch import HEADER_BYTES
from storage.record import varint_size

_NULL_BYTES: Final = 1
"""Of the length of a key or value that is null."""
_FIXED_BYTES: Final = 3
"""Of a record without headers that has the time of the batch: attributes, the delta of the time, and no headers."""


def calculate_batch_size(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> int:
    """The bytes of an uncompressed batch of records with these keys and values: all of one time, no headers."""
    return calculate_batch_size_of_lengths(
        (None if key is None else len(key), None if value is None else len(value)) for key, value in pairs
    )


def calculate_batch_size_of_lengths(lengths: Iterable[tuple[int | None, int | None]]) -> int:
    """The same, of the lengths of keys and values; None for one that is null."""
    size = HEADER_BYTES
    for offset_delta, (key, value) in enumerate(lengths):
        body = _FIXED_BYTES + varint_size(offset_delta)
        body += _NULL_BYTES if key is None else varint_size(key) + key
        body += _NULL_BYTES if value is None else varint_size(value) + value
        size += varint_size(body) + body
    return size
