"""Reading numbers at many places of a buffer at once.

The buffer ends with PADDING_BYTES of padding, and no place lies beyond its last byte before the padding: then
nothing here reads outside, whatever the bytes say. Whether a number lay inside its record is for the caller to
see from the place after it.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.decode.frames import Flags, Numbers

PADDING_BYTES: Final = 32

Bytes = NDArray[np.uint8]


class Varints(NamedTuple):
    """Variable-length integers: their values, the places after them, and which were of acceptable length."""

    values: Numbers
    after: Numbers
    is_sound: Flags


def stretches(data: Bytes, width: int) -> NDArray[np.void]:
    """The bytes from each place on, `width` of them, without a copy: to be indexed, or assigned to, at places."""
    return np.ndarray((len(data) - width + 1,), f"V{width}", data, 0, (1,))


def fixed(data: Bytes, at: Numbers, width: int) -> Numbers:
    """Big-endian signed integers of `width` bytes."""
    every = np.ndarray((len(data) - width + 1,), f">i{width}", data, 0, (1,))  # one begins at each byte
    return every[at].astype(np.int64)


def unsigned_varints(data: Bytes, at: Numbers, max_bytes: int = 5) -> Varints:
    """Unsigned variable-length integers, of at most `max_bytes` (no more than 8) bytes."""
    first = data[at]
    after = at + 1
    is_sound = np.ones(len(at), bool)
    is_longer = first >= 0x80
    if not is_longer.any():
        return Varints(first.astype(np.int64), after, is_sound)
    values = (first & 0x7F).astype(np.int64)
    if max_bytes > 1:
        # Two bytes are as common as one: read for all, as this is faster than to pick out those that have them.
        second = data[after]
        values += np.where(is_longer, (second & 0x7F).astype(np.int64) << 7, 0)
        after += is_longer
        is_longer &= second >= 0x80
    more = np.flatnonzero(is_longer)
    shift = 14
    while len(more) and shift < 7 * max_bytes:
        byte = data[after[more]]
        values[more] |= (byte & 0x7F).astype(np.int64) << shift
        after[more] += 1
        more = more[byte >= 0x80]
        shift += 7
    is_sound[more] = False
    return Varints(values, after, is_sound)


def varints(data: Bytes, at: Numbers, max_bytes: int = 5) -> Varints:
    """Zigzag variable-length integers, of at most `max_bytes` (no more than 8) bytes."""
    found = unsigned_varints(data, at, max_bytes)
    return found._replace(values=(found.values >> 1) ^ -(found.values & 1))
