"""Functions and errors for generated codecs: varints, tagged sections, the budget of one decoding, and
`Malformed`, the only error that bytes from outside can cause. Every bound is checked.
"""

from typing import Final, NamedTuple


class Malformed(Exception):
    """The bytes are not a valid message of the expected type and version. The text has position and reason.
    groupd closes the connection that sent them."""


class TooManyElements(Malformed):
    """A request has more elements in its arrays than one decoding may produce, even if each is valid."""


class TooLong(Exception):
    """An encoded message exceeds its maximum length."""


MAX_UVARINT_BYTES: Final = 5

MAX_STRING_BYTES: Final = 0x7FFF
"""The maximum size of a string in bytes. Kafka closes the connection for a longer one, and records cannot
store it."""

MAX_UNKNOWN_TAGS: Final = 1_000
"""The limit of unknown tagged fields in the header of a request, and the limit of those in its body. Kafka
uses tagged fields to add fields without a new version; the smallest has two bytes."""


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint (LEB128, at most 32 bits) at `position`. Return the value and the position after
    it.

    Raises IndexError at the end of `data`, and Malformed for a varint that is too long.
    """
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise Malformed(f"a varint of more than 32 bits before byte {position}")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append `value` as an unsigned varint."""
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def skip_tagged_fields(data: bytes, position: int, count: int) -> int:
    """Skip `count` unknown tagged fields. Their tags must ascend. Return the position after them."""
    last_tag = -1
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        if tag <= last_tag:
            raise Malformed(f"tag {tag} after tag {last_tag} before byte {position}")
        last_tag = tag
        position += size
        if position > len(data):
            raise Malformed(f"tagged field {tag} ends {position - len(data)} bytes past the end")
    return position


class DecodingBudget(NamedTuple):
    """The maximum number of elements in all arrays of a message, and of unknown tagged fields in all its
    structs."""

    elements: int
    unknown_tags: int = MAX_UNKNOWN_TAGS
    too_many_error: type[Malformed] = Malformed
    """The class of the error for too many elements."""
