"""Read numbers at many positions of a buffer at once.

The buffer ends with PADDING_BYTES of padding, and no position is inside of it. So no read leaves the buffer,
whatever its content. The caller must check by the end position whether a number is inside its record.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.decode.frames import Flags, Numbers

PADDING_BYTES: Final = 32

Bytes = NDArray[np.uint8]


class Varints(NamedTuple):
    """Varints: their values, the positions after them, and which have a valid length."""

    values: Numbers
    after: Numbers
    is_sound: Flags


def stretches(data: Bytes, width: int) -> NDArray[np.void]:
    """Return a view without a copy: the `width` bytes from each position on, for indexing or assignment."""
    return np.ndarray((len(data) - width + 1,), f"V{width}", data, 0, (1,))


def fixed(data: Bytes, at: Numbers, width: int) -> Numbers:
    """Return big-endian signed integers of `width` bytes."""
    every = np.ndarray((len(data) - width + 1,), f">i{width}", data, 0, (1,))  # one begins at each byte
    return every[at].astype(np.int64)


def unsigned_varints(data: Bytes, at: Numbers, max_bytes: int = 5) -> Varints:
    """Read unsigned varints of at most `max_bytes` (up to 8) bytes."""
    first = data[at]
    after = at + 1
    is_sound = np.ones(len(at), bool)
    is_longer = first >= 0x80
    if not is_longer.any():
        return Varints(first.astype(np.int64), after, is_sound)
    values = (first & 0x7F).astype(np.int64)
    if max_bytes > 1:
        # Two-byte varints are as common as shorter ones, and reading both bytes of all is faster than selecting.
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
    """Read zigzag varints of at most `max_bytes` (up to 8) bytes."""
    found = unsigned_varints(data, at, max_bytes)
    return found._replace(values=(found.values >> 1) ^ -(found.values & 1))
