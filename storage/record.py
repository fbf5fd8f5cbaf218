"""One record, and the records section of a batch (what follows the batch header, unpacked).

Source: KIP-98 (message format v2), Kafka's `DefaultRecord`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from storage.errors import CorruptBatch
from storage.varint import MAX_VARLONG_BYTES, SMALL, SMALL_LIMIT, decode_varint, encode_varint

UNASSIGNED_OFFSET: Final = -1

Header = tuple[str, bytes | None]
"""Key and value. A key that is not UTF-8 keeps its bytes as surrogate escapes, so that it encodes back
unchanged.
"""

_NULL: Final = encode_varint(-1)
_TWO_BYTES_LIMIT: Final = 1 << 14
"""What two bytes of a varint hold, sign included; a third byte follows from here on."""
_LENGTHS_BYTES: Final = 16
"""More than a record of small numbers takes for all of them."""


class Record(NamedTuple):
    """One record. `offset` is -1 until the log has assigned one; a value of None is a tombstone."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


# What the class itself calls, without its keyword arguments: half the time of building a record.
_new_record = tuple.__new__


def records_of(pairs: Iterable[tuple[bytes | None, bytes | None]], timestamp_ms: int) -> list[Record]:
    """Records of keys and values that are all of one time, not in a log yet."""
    new = _new_record
    return [new(Record, (UNASSIGNED_OFFSET, timestamp_ms, key, value, ())) for key, value in pairs]


def encode_records(records: Iterable[Record], base_timestamp_ms: int) -> bytes:
    """The records section for consecutive records; offset deltas count from 0, whatever `offset` says."""
    small = SMALL
    parts: list[bytes] = []
    offset_delta = 0
    for record in records:
        _, timestamp_ms, key, value, headers = record
        if key is not None and value is not None and not headers:
            key_length = len(key)
            value_length = len(value)
            since_base_ms = timestamp_ms - base_timestamp_ms
            # Then every number of the record is in the table, that of its length included.
            if (
                0 <= since_base_ms < SMALL_LIMIT
                and offset_delta < SMALL_LIMIT
                and key_length + value_length + _LENGTHS_BYTES < SMALL_LIMIT
            ):
                fields = (
                    b"\0",  # attributes
                    small[since_base_ms],
                    small[offset_delta],
                    small[key_length],
                    key,
                    small[value_length],
                    value,
                    b"\0",  # no headers
                )
                body = b"".join(fields)
                parts += (small[len(body)], body)
                offset_delta += 1
                continue
        parts.append(_encode_record(record, base_timestamp_ms, offset_delta))
        offset_delta += 1
    return b"".join(parts)


def encode_records_at(records: Sequence[Record], base_timestamp_ms: int, base_offset: int) -> bytes:
    """The records section for records that keep their offsets, gaps included."""
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
    """The records of a section that must hold exactly `count` of them and nothing else.

    In: the unpacked section, the header's record count, base offset and base timestamp, and, for a batch of
    timestamp type LogAppendTime, the time that replaces every record's own.
    Raises CorruptBatch (position within the section) for anything that contradicts itself.
    """
    # A record takes at least seven bytes, so that a false count cannot make the loop run on.
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
    """What `decode_record_section` finds in a part of `data`, less all but keys and values: half the time where
    nothing else is asked.

    Adds to `found`, when it raises perhaps only some. Raises CorruptBatch for the same bytes.
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
            # One byte each for attributes and the deltas of time and offset, nearly always.
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
            # Tombstones, headers, large numbers, and whatever contradicts itself.
            record, position = _decode_record(data, start, 0, 0)
            found.append((record.key, record.value))
    except IndexError:
        raise CorruptBatch("the bytes end inside a record", position) from None
    if position != section_end:
        raise CorruptBatch(f"{section_end - position} bytes follow the last of {count} records", position)


def _decode_record(data: bytes, start: int, base_offset: int, base_timestamp_ms: int) -> tuple[Record, int]:
    # The short form of each integer (zigzag: odd means negative) is inlined, and for the length of the record the
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
    return _new_record(Record, (offset, timestamp_ms, key, value, headers)), end


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
