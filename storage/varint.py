"""Zigzag variable-length integers, as the record format uses them (protocol buffers' sint32 and sint64).

Small values dominate (lengths, deltas), so their encodings come from a table. Decoding of records is inlined
in `record.py`; the functions here serve everything that is not hot, and are its reference in the tests.
"""

from storage.errors import CorruptBatch

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


SMALL_LIMIT = 8192
SMALL: tuple[bytes, ...] = tuple(_encode(value) for value in range(SMALL_LIMIT))
"""Encodings of 0 to SMALL_LIMIT - 1: everything that takes one or two bytes and is not negative."""


def encode_varint(value: int) -> bytes:
    """The zigzag varint of any signed 64-bit integer."""
    return SMALL[value] if 0 <= value < SMALL_LIMIT else _encode(value)


def varint_size(value: int) -> int:
    """How many bytes `encode_varint` makes of it."""
    zigzag = value * 2 if value >= 0 else -value * 2 - 1
    return max(1, -(-zigzag.bit_length() // 7))


def decode_varint(
    buffer: bytes | bytearray | memoryview, position: int, max_bytes: int = MAX_VARINT_BYTES
) -> tuple[int, int]:
    """One zigzag varint at `position`: (value, position after it).

    Raises CorruptBatch when the buffer ends inside it, or when it takes more than `max_bytes` (5 for a
    varint, 10 for a varlong).
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
