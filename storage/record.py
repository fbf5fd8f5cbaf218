"""Records, the records section of a batch (the unpacked bytes after the header), and the zigzag varints of
both (sint32 and sint64 of protocol buffers).

Lengths and deltas are mostly small, so their encodings come from a table. Decoding of records has its own
inlined copy of `decode_varint`; the function serves code that is not hot, and the tests as a reference.

Source: KIP-98 (message format v2), Kafka's `DefaultRecord`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from storage.storage_errors import CorruptBatch

MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10


def _encode(value: int) -> bytes:
    zigzag = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


SMALL_LIMIT = 1024
SMALL: tuple[bytes, ...] = tuple(_encode(value) for value in range(SMALL_LIMIT))
"""The encodings of 0 to SMALL_LIMIT - 1. Few lengths in records of groups are larger. They are computed at
every start."""


def encode_varint(value: int) -> bytes:
    """Encode a signed 64-bit integer as a zigzag varint."""
    return SMALL[value] if 0 <= value < SMALL_LIMIT else _encode(value)


def varint_size(value: int) -> int:
    """Return the length of the result of `encode_varint`, in bytes."""
    zigzag = value * 2 if value >= 0 else -value * 2 - 1
    return max(1, -(-zigzag.bit_length() // 7))


def decode_varint(
    buffer: bytes | bytearray | memoryview, position: int, max_bytes: int = MAX_VARINT_BYTES
) -> tuple[int, int]:
    """Decode a zigzag varint at `position`. Return the value and the position after it.

    Raises CorruptBatch if the buffer ends inside it, or if it has more than `max_bytes` bytes (5 for a varint,
    10 for a varlong).
    """
    zigzag = 0
    shift = 0
    end = min(len(buffer), position + max_bytes)
    for index in range(position, end):
        byte = buffer[index]
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (zigzag >> 1) ^ -(zigzag & 1), index + 1
        shift += 7
    if end - position < max_bytes:
        raise CorruptBatch("the bytes end inside a variable-length integer", position)
    raise CorruptBatch(f"a variable-length integer takes more than {max_bytes} bytes", position)


UNASSIGNED_OFFSET: Final = -1

Header = tuple[str, bytes | None]
"""Key and value. A key that is not UTF-8 keeps its bytes as surrogate escapes, so that it encodes back
unchanged.
"""

KeyValue = tuple[bytes, bytes | None]
"""Key and value of a record of an internal topic; a value of None is a tombstone."""

_NULL: Final = encode_varint(-1)
_TWO_BYTES_LIMIT: Final = 1 << 14
"""The first zigzag value that does not fit into a varint of two bytes."""
_SHORT_LIMIT: Final = SMALL_LIMIT - 16
"""If key and value have fewer bytes than this in total, the length of their record is below `SMALL_LIMIT`."""
_NO_ATTRIBUTES_NO_TIME: Final = b"\0\0"
"""The attributes of a record, and a timestamp delta of 0."""


class Record(NamedTuple):
    """One record. `offset` is -1 until the log has assigned one; a value of None is a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


# tuple.__new__ without the keyword arguments of the class takes half the time to build a record.
_create_record = tuple.__new__


def encode_records(records: Iterable[Record], base_timestamp_ms: int) -> bytes:
    """Return the records section for consecutive records; offset deltas count from 0, whatever `offset` says."""
    return b"".join(
        [
            _encode_record(record, base_timestamp_ms, offset_delta)
            for offset_delta, record in enumerate(records)
        ]
    )


def encode_key_values(pairs: Iterable[KeyValue]) -> bytes:
    """Return the records section for consecutive records without headers that all have the batch's base timestamp.

    The result equals `encode_records` of such records. Internal topics are written this way, so no `Record` is
    built for a key and a value.
    """
    small = SMALL
    parts: list[bytes] = []
    for offset_delta, (key, value) in enumerate(pairs):
        if value is not None and len(key) + len(value) < _SHORT_LIMIT and offset_delta < SMALL_LIMIT:
            # The table has all numbers of this record, its length included.
            body = b"".join(
                (
                    _NO_ATTRIBUTES_NO_TIME,
                    small[offset_delta],
                    small[len(key)],
                    key,
                    small[len(value)],
                    value,
                    b"\0",
                )
            )
            parts += (small[len(body)], body)
        else:
            parts.append(_encode_record(Record(0, 0, key, value), 0, offset_delta))
    return b"".join(parts)


def encode_records_at(records: Sequence[Record], base_timestamp_ms: int, base_offset: int) -> bytes:
    """Return the records section of records that keep their offsets, gaps included."""
    return b"".join(
        [_encode_record(record, base_timestamp_ms, record.offset - base_offset) for record in records]
    )


def _encode_record(record: Record, base_timestamp_ms: int, offset_delta: int) -> bytes:
    _, timestamp_ms, key, value, headers = record
    body = b"".join(
        (
            b"\0",
            encode_varint(timestamp_ms - base_timestamp_ms),
            encode_varint(offset_delta),
            _NULL if key is None else encode_varint(len(key)) + key,
            _NULL if value is None else encode_varint(len(value)) + value,
            _encode_headers(headers) if headers else b"\0",
        )
    )
    return encode_varint(len(body)) + body


def _encode_headers(headers: tuple[Header, ...]) -> bytes:
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        raw_key = key.encode("utf-8", "surrogateescape")
        parts += (encode_varint(len(raw_key)), raw_key)
        if value is None:
            parts.append(_NULL)
        else:
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)


def decode_record_section(
    data: bytes, count: int, base_offset: int, base_timestamp_ms: int, append_time_ms: int | None = None
) -> list[Record]:
    """Return the records of a section that must contain exactly `count` of them.

    Args:
        data: The uncompressed section.
        count: The record count of the header.
        base_offset: The base offset of the header.
        base_timestamp_ms: The base timestamp of the header.
        append_time_ms: For the timestamp type LogAppendTime, the time of all records.

    Raises:
        CorruptBatch: the section contradicts itself. The position is within the section.
    """
    # A record has at least seven bytes, so this bounds the loop for a false count.
    if count * 7 > len(data):
        raise CorruptBatch(f"{count} records cannot fit in {len(data)} bytes")
    records: list[Record] = []
    position = 0
    try:
        for _ in range(count):
            record, position = _decode_record(data, position, base_offset, base_timestamp_ms)
            records.append(record)
    except IndexError:
        raise CorruptBatch("the bytes end inside a record", position) from None
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes follow the last of {count} records", position)
    if append_time_ms is not None:
        return [record._replace(timestamp_ms=append_time_ms) for record in records]
    return records


def append_keys_and_values(
    found: list[tuple[bytes | None, bytes | None]], data: bytes, position: int, section_end: int, count: int
) -> None:
    """Add the keys and values of a part of `data` to `found`, in half the time of `decode_record_section`.

    It raises CorruptBatch for the same bytes, after adding some of them.
    """
    if count * 7 > section_end - position:
        raise CorruptBatch(f"{count} records cannot fit in {section_end - position} bytes")
    limit = _TWO_BYTES_LIMIT
    try:
        for _ in range(count):
            start = position
            length, position = data[position], position + 1
            if length >= 0x80:
                length, position = length & 0x7F | data[position] << 7, position + 1
            end = position + (length >> 1)
            # Nearly always attributes, timestamp delta and offset delta have one byte each.
            if length < limit and not length & 1 and data[position + 1] < 0x80 > data[position + 2]:
                position += 3
                length, position = data[position], position + 1
                if length >= 0x80:
                    length, position = length & 0x7F | data[position] << 7, position + 1
                if length < limit and not length & 1:
                    key_end = position + (length >> 1)
                    key = data[position:key_end]
                    length, position = data[key_end], key_end + 1
                    if length >= 0x80:
                        length, position = length & 0x7F | data[position] << 7, position + 1
                    if length < limit and not length & 1:
                        value_end = position + (length >> 1)
                        if value_end + 1 == end and data[value_end] == 0:
                            found.append((key, data[position:value_end]))
                            position = end
                            continue
            # Tombstones, headers, large numbers, and invalid records.
            record, position = _decode_record(data, start, 0, 0)
            found.append((record.key, record.value))
    except IndexError:
        raise CorruptBatch("the bytes end inside a record", position) from None
    if position != section_end:
        raise CorruptBatch(f"{section_end - position} bytes follow the last of {count} records", position)


def _decode_record(data: bytes, start: int, base_offset: int, base_timestamp_ms: int) -> tuple[Record, int]:
    # The one-byte form of each integer (zigzag: odd means negative) is inlined, and for the length of the
    # record the two-byte form, because this runs for every record.
    # form of two bytes: this runs for every record.
    byte = data[start]
    position = start + 1
    if byte < 0x80:
        length = byte >> 1
    elif (more := data[position]) < 0x80:
        length = (byte & 0x7F | more << 7) >> 1
        position += 1
    else:
        length, position = decode_varint(data, start)
    end = position + length
    if length < 6 or byte & 1 or end > len(data):
        raise CorruptBatch(f"a record of {length} bytes does not fit", start)
    # data[position] holds the record's attributes, all unused: Kafka ignores them too.
    byte = data[position + 1]
    position += 2
    if byte == 0:
        timestamp_ms = base_timestamp_ms
    else:
        timestamp_delta, position = decode_varint(data, position - 1, MAX_VARLONG_BYTES)
        timestamp_ms = base_timestamp_ms + timestamp_delta
    byte = data[position]
    if byte < 0x80:
        offset = base_offset + ((byte >> 1) ^ -(byte & 1))
        position += 1
    else:
        offset_delta, position = decode_varint(data, position)
        offset = base_offset + offset_delta
    byte = data[position]
    if byte < 0x80:
        length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        length, position = decode_varint(data, position)
    key = None
    if length >= 0:
        key = data[position : position + length]
        position += length
    byte = data[position]
    if byte < 0x80:
        length = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        length, position = decode_varint(data, position)
    value = None
    if length >= 0:
        value = data[position : position + length]
        position += length
    headers: tuple[Header, ...] = ()
    if data[position] == 0:
        position += 1
    else:
        headers, position = _decode_headers(data, position, end)
    if position != end:
        raise CorruptBatch("a record's fields and its length disagree", start)
    return _create_record(Record, (offset, timestamp_ms, key, value, headers)), end


def _decode_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = decode_varint(data, position)
    if count < 0 or count * 2 > end - position:
        raise CorruptBatch(f"{count} headers do not fit in a record", position)
    headers: list[Header] = []
    for _ in range(count):
        length, position = decode_varint(data, position)
        if length < 0 or position + length > end:
            raise CorruptBatch(f"a header key of {length} bytes does not fit", position)
        key = data[position : position + length].decode("utf-8", "surrogateescape")
        length, position = decode_varint(data, position + length)
        if position + max(length, 0) > end:
            raise CorruptBatch(f"a header value of {length} bytes does not fit", position)
        value = None if length < 0 else data[position : position + length]
        headers.append((key, value))
        position += max(length, 0)
    return tuple(headers), position
