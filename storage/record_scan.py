"""Checks the records section of a batch by its lengths, without creating records, within the budget of a
request.

The checks find the same contradictions as `decode_record_section`, by the same rules. Seventeen kilobytes can
unpack to a hundred million headers. Therefore bytes are charged when they are decompressed, and records and
headers before they are scanned. A request over its budget is rejected.
"""

from collections.abc import Iterator
from typing import Final

from storage.record import MAX_VARLONG_BYTES, decode_varint
from storage.storage_errors import CorruptBatch, StorageError

MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""The maximum decompressed size of one batch. All of it is in memory at a time, and zstd needs as much again
for its window."""
INLINE_BYTES: Final = 64 * 1024
"""The number of bytes that may be decompressed on the event loop."""
INLINE_ITEMS: Final = 10_000
"""The number of records and headers that may be scanned on the event loop."""
REQUEST_BYTES: Final = 256 * 1024 * 1024
REQUEST_ITEMS: Final = 250_000
MAX_EXPANSION: Final = 32
"""The number of decompressed bytes that a request may have for each received byte, in addition to
`REQUEST_BYTES`. Text typically compresses to a tenth."""
MAX_ITEMS: Final = 16_000_000
"""The maximum number of records and headers of a request. The largest request (100 MB) has fewer of the
smallest records."""


class OverBudget(StorageError):
    """A request exceeds its budget."""


class DecompressionBudget:
    """The remaining budget of a request."""

    __slots__ = ("bytes_left", "items_left")

    def __init__(self, bytes_left: int, items_left: int) -> None:
        self.bytes_left = bytes_left
        self.items_left = items_left

    @classmethod
    def for_event_loop(cls) -> "DecompressionBudget":
        """Create the budget of a scan on the event loop."""
        return cls(INLINE_BYTES, INLINE_ITEMS)

    @classmethod
    def for_request(cls, sent_bytes: int) -> "DecompressionBudget":
        """Create the budget of a request with `sent_bytes` bytes of batches."""
        items = min(REQUEST_ITEMS + sent_bytes, MAX_ITEMS)
        return cls(REQUEST_BYTES + MAX_EXPANSION * sent_bytes, items)

    def spend_bytes(self, count: int) -> None:
        """Charge `count` decompressed bytes. Raises OverBudget."""
        if count > self.bytes_left:
            raise OverBudget(f"there are more than {self.bytes_left} bytes of records left to unpack")
        self.bytes_left -= count

    def spend_items(self, count: int) -> None:
        """Charge `count` records or headers. Raises OverBudget."""
        if count > self.items_left:
            raise OverBudget(f"there are more than {self.items_left} records and headers left")
        self.items_left -= count


ScannedRecord = tuple[int, int, bool]
"""The fields of one record: offset delta, timestamp delta, and whether it has a key."""


def scan_records(
    data: bytes | bytearray, count: int, budget: DecompressionBudget | None = None
) -> Iterator[ScannedRecord]:
    """Yield the fields that validation needs of each of the `count` records of a section.

    Raises CorruptBatch (position within the section) for contradictory bytes, OverBudget. Records in a log
    need no budget, because it was checked when they arrived.
    """
    if count * 7 > len(data):
        raise CorruptBatch(f"{count} records cannot fit in {len(data)} bytes")
    if budget is not None:
        budget.spend_items(count)
    position, section_end = 0, len(data)
    try:
        for _ in range(count):
            start = position
            length, position = _decode_short_varint(data, position)
            end = position + length
            if length < 6 or end > section_end:
                raise CorruptBatch(f"a record of {length} bytes does not fit", start)
            position += 1  # attributes, all unused: Kafka ignores them too
            if data[position] == 0:
                timestamp_delta = 0
                position += 1
            else:
                timestamp_delta, position = decode_varint(data, position, MAX_VARLONG_BYTES)
            offset_delta, position = _decode_short_varint(data, position)
            key_length, position = _decode_short_varint(data, position)
            if key_length > 0:
                position += key_length
            value_length, position = _decode_short_varint(data, position)
            if value_length > 0:
                position += value_length
            if data[position] == 0:
                position += 1
            else:
                position = _skip_headers(data, position, end, budget)
            if position != end:
                raise CorruptBatch("a record's fields and its length disagree", start)
            yield offset_delta, timestamp_delta, key_length >= 0
    except IndexError:
        raise CorruptBatch("the bytes end inside a record", position) from None
    if position != section_end:
        raise CorruptBatch(f"{section_end - position} bytes follow the last of {count} records", position)


def _decode_short_varint(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """Decode a varint, which usually has one or two bytes. Return the value and the end position."""
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        zigzag = first & 0x7F | second << 7
        return (zigzag >> 1) ^ -(zigzag & 1), position + 2
    return decode_varint(data, position)


def _skip_headers(
    data: bytes | bytearray, position: int, end: int, budget: DecompressionBudget | None
) -> int:
    count, position = decode_varint(data, position)
    if count < 0 or count * 2 > end - position:
        raise CorruptBatch(f"{count} headers do not fit in a record", position)
    if budget is not None:
        budget.spend_items(count)
    for _ in range(count):
        length, position = _decode_short_varint(data, position)
        if length < 0 or position + length > end:
            raise CorruptBatch(f"a header key of {length} bytes does not fit", position)
        length, position = _decode_short_varint(data, position + length)
        position += max(length, 0)
        if position > end:
            raise CorruptBatch(f"a header value of {length} bytes does not fit", position)
    return position
