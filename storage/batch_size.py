"""Calculate the size of a batch of some records. Source: Kafka's `DefaultRecordBatch.sizeInBytes`."""

from collections.abc import Iterable
from typing import Final

from storage.batch import HEADER_BYTES
from storage.record import varint_size

_NULL_BYTES: Final = 1
"""The size of the length field of a null key or value."""
_FIXED_BYTES: Final = 3
"""The size of the other fields of a record without headers and with the batch's timestamp: attributes,
timestamp delta and header count."""


def calculate_batch_size(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> int:
    """Return the size in bytes of an uncompressed batch of records with these keys and values. All records
    have the same timestamp and no headers."""
    return calculate_batch_size_of_lengths(
        (None if key is None else len(key), None if value is None else len(value)) for key, value in pairs
    )


def calculate_batch_size_of_lengths(lengths: Iterable[tuple[int | None, int | None]]) -> int:
    """Return the same as `calculate_batch_size` from the lengths of keys and values. None stands for a null."""
    size = HEADER_BYTES
    for offset_delta, (key, value) in enumerate(lengths):
        body = _FIXED_BYTES + varint_size(offset_delta)
        body += _NULL_BYTES if key is None else varint_size(key) + key
        body += _NULL_BYTES if value is None else varint_size(value) + value
        size += varint_size(body) + body
    return size
