"""The records section of a batch, walked by its lengths: what a broker checks, without a record being made.

Finds the same contradictions as `record.decode_record_section`, by the same rules.
"""

from collections.abc import Iterator

from storage.errors import CorruptBatch
from storage.unpack_budget import UnpackBudget
from storage.varint import MAX_VARLONG_BYTES, decode_varint

Scanned = tuple[int, int, bool]
"""Of one record: offset delta, timestamp delta, whether it has a key."""


def scan_records(
    data: bytes | bytearray, count: int, budget: UnpackBudget | None = None
) -> Iterator[Scanned]:
    """What decides about each of the `count` records that a section must hold, and nothing else.

    Raises CorruptBatch (position within the section) for anything that contradicts itself, OverBudget. What is in a
    log already has no budget: it was within one when it came.
    """
    if count * 7 > len(data):
        raise CorruptBatch(f"{count} records cannot fit in {len(data)} bytes")
    if budget is not None:
        budget.spend_items(count)
    position, section_end = 0, len(data)
    try:
        for _ in range(count):
            start = position
            length, position = _number(data, position)
            end = position + length
            if length < 6 or end > section_end:
                raise CorruptBatch(f"a record of {length} bytes does not fit", start)
            position += 1  # attributes, all unused: Kafka ignores them too
            if data[position] == 0:
                timestamp_delta = 0
                position += 1
            else:
                timestamp_delta, position = decode_varint(data, position, MAX_VARLONG_BYTES)
            offset_delta, position = _number(data, position)
            key_length, position = _number(data, position)
            if key_length > 0:
                position += key_length
            value_length, position = _number(data, position)
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


def _number(data: bytes | bytearray, position: int) -> tuple[int, int]:
    """A varint, most of which take a byte or two; where it ends."""
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    second = data[position + 1]
    if second < 0x80:
        zigzag = first & 0x7F | second << 7
        return (zigzag >> 1) ^ -(zigzag & 1), position + 2
    return decode_varint(data, position)


def _skip_headers(data: bytes | bytearray, position: int, end: int, budget: UnpackBudget | None) -> int:
    count, position = decode_varint(data, position)
    if count < 0 or count * 2 > end - position:
        raise CorruptBatch(f"{count} headers do not fit in a record", position)
    if budget is not None:
        budget.spend_items(count)
    for _ in range(count):
        length, position = _number(data, position)
        if length < 0 or position + length > end:
            raise CorruptBatch(f"a header key of {length} bytes does not fit", position)
        length, position = _number(data, position + length)
        position += max(length, 0)
        if position > end:
            raise CorruptBatch(f"a header value of {length} bytes does not fit", position)
    return position
