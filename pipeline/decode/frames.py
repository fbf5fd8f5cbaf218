"""The headers of all batches in a buffer, as columns.

Finding where batches begin has to go from one to the next; everything else about them is read at once.
"""

import struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
)
from storage.checksum import crc32c
from storage.storage_errors import CorruptBatch

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

_LENGTH_MAGIC_CRC: Final = struct.Struct(">i4xbI")
_LENGTH_AT: Final = 8
_FIELD_TYPES: Final = (
    ">i8", ">i4", ">i4", "i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", ">i4", ">i4",
)  # fmt: skip
HEADER: Final = np.dtype(list(zip(BatchHeader._fields, _FIELD_TYPES, strict=True)))
assert HEADER.itemsize == HEADER_BYTES
_OPAQUE: Final = np.dtype(f"V{HEADER_BYTES}")
"""A header as bytes without fields: NumPy selects these about fifteen times as fast."""


class Fault(NamedTuple):
    """Why the bytes at a position of a buffer are no whole, sound batch."""

    position: int
    reason: str
    is_cut: bool
    """The bytes end before the batch does, as far as its length says."""
    end: int
    """Where the batch would end; the position itself when its length makes no sense."""


class Frames:
    """Whole, sound, consecutive batches of a buffer."""

    __slots__ = ("_headers", "end", "positions")

    def __init__(self, positions: Numbers, end: int, headers: NDArray[np.void]) -> None:
        self.positions = positions
        self.end = end
        """Of the last one, which is where the next begins."""
        self._headers = headers

    def __len__(self) -> int:
        return len(self.positions)

    def field(self, name: str) -> Numbers:
        """A field of all headers, by its name in `BatchHeader`."""
        return self._headers[name].astype(np.int64)

    @property
    def sizes(self) -> Numbers:
        """Bytes of each batch."""
        return self.field("batch_length") + LOG_OVERHEAD

    @property
    def base_offsets(self) -> Numbers:
        """First offset of each range."""
        return self.field("base_offset")

    @property
    def next_offsets(self) -> Numbers:
        """One more than the last offset of each range."""
        return self.base_offsets + self.field("last_offset_delta") + 1

    def has(self, attribute: int) -> Flags:
        """Which of them carry an attribute bit."""
        flags: Flags = (self._headers["attributes"] & attribute) != 0
        return flags

    @property
    def codecs(self) -> Numbers:
        """0 for none, else as in `storage.compression`."""
        return self.field("attributes") & CODEC_MASK

    @property
    def is_control(self) -> Flags:
        """Markers, not records."""
        return self.has(CONTROL)

    @property
    def is_transactional(self) -> Flags:
        """Part of a transaction."""
        return self.has(TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> Flags:
        """Whose records have the time of the header."""
        return self.has(LOG_APPEND_TIME)

    def select(self, chosen: Flags) -> "Frames":
        """Some of them."""
        if chosen.all():
            return self
        return Frames(self.positions[chosen], self.end, self._headers.view(_OPAQUE)[chosen].view(HEADER))

    def header(self, index: int) -> BatchHeader:
        """One of them as the daemon has it."""
        return BatchHeader(*(int(number) for number in self._headers[index]))


def read_frames(
    buffer: bytes | memoryview, at_least_offset: int = 0, *, check: bool = True
) -> tuple[Frames, Fault | None]:
    """The batches at the start of a buffer, and why there are no more: None when they fill it.

    In: the offset before which none may begin. `check` verifies checksums. A batch is sound as the daemon's
    `read_header` and `check_crc` have it.
    """
    view = memoryview(buffer)
    positions, fault = _positions(view, check=check)
    places = np.array(positions, np.int64)
    headers = _gather(view, places)
    end = fault.position if fault is not None else len(view)
    frames = Frames(places, end, headers)
    wrong = _first_unsound(frames, at_least_offset)
    if wrong is None:
        return frames, fault
    position = positions[wrong]
    try:
        header = read_header(view, position)
        reason = f"batch at offset {header.base_offset} where a later one is due"
    except CorruptBatch as error:
        reason = error.reason
    size = int(frames.sizes[wrong])
    sound = Frames(places[:wrong], position, headers[:wrong])
    return sound, Fault(position, reason, False, position + size)


def _gather(view: memoryview, positions: Numbers) -> NDArray[np.void]:
    raw = np.frombuffer(view, np.uint8)
    if not len(positions):
        return np.empty(0, HEADER)
    every: NDArray[np.void] = np.ndarray((len(raw) - HEADER_BYTES + 1,), _OPAQUE, raw, 0, (1,))
    return every[positions].view(HEADER)


def _positions(view: memoryview, *, check: bool) -> tuple[list[int], Fault | None]:
    positions: list[int] = []
    add = positions.append
    position, available = 0, len(view)
    read = _LENGTH_MAGIC_CRC.unpack_from
    last = available - HEADER_BYTES
    while position <= last:
        length, magic, stored = read(view, position + _LENGTH_AT)
        end = position + LOG_OVERHEAD + length
        if length < MIN_BATCH_LENGTH:
            return positions, Fault(position, f"batch length {length} is less than a header", False, position)
        if magic != MAGIC:
            reason = f"record format magic {magic} is not supported, only {MAGIC}"
            return positions, Fault(position, reason, False, end)
        if end > available:
            reason = f"a batch of {end - position} bytes ends after {available - position} bytes"
            return positions, Fault(position, reason, True, end)
        if check and crc32c(view[position + CRC_START : end]) != stored:
            computed = crc32c(view[position + CRC_START : end])
            reason = f"checksum {computed:#010x} is not the stored {stored:#010x}"
            return positions, Fault(position, reason, False, end)
        add(position)
        position = end
    if position < available:
        reason = f"{available - position} bytes are less than a batch header"
        return positions, Fault(position, reason, True, available)
    return positions, None


def _first_unsound(frames: Frames, at_least_offset: int) -> int | None:
    if not len(frames):
        return None
    base_offsets, next_offsets = frames.base_offsets, frames.next_offsets
    due = np.concatenate(([at_least_offset], next_offsets[:-1]))
    unsound = (
        (base_offsets < due)
        | (base_offsets < 0)
        | (frames.field("last_offset_delta") < 0)
        | (frames.field("records_count") < 0)
    )
    found = np.flatnonzero(unsound)
    return int(found[0]) if len(found) else None
