"""The headers of all batches in a buffer, as columns.

The starts of batches must be found one after the other; all other fields are read at once.
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
"""A header as opaque bytes: NumPy selects these about fifteen times as fast."""


class Fault(NamedTuple):
    """The reason why the bytes at a position are not a complete, valid batch."""

    position: int
    reason: str
    is_cut: bool
    """Whether the buffer ends before the end of the batch that its length gives."""
    end: int
    """The end of the batch; the position itself if the length is invalid."""


class Frames:
    """Consecutive, complete and valid batches of a buffer."""

    __slots__ = ("_headers", "end", "positions")

    def __init__(self, positions: Numbers, end: int, headers: NDArray[np.void]) -> None:
        self.positions = positions
        self.end = end
        """The end of the last batch, where the next one begins."""
        self._headers = headers

    def __len__(self) -> int:
        return len(self.positions)

    def field(self, name: str) -> Numbers:
        """Return a field of all headers by its name in `BatchHeader`."""
        return self._headers[name].astype(np.int64)

    @property
    def sizes(self) -> Numbers:
        """Return the size of each batch in bytes."""
        return self.field("batch_length") + LOG_OVERHEAD

    @property
    def base_offsets(self) -> Numbers:
        """Return the first offset of each batch."""
        return self.field("base_offset")

    @property
    def next_offsets(self) -> Numbers:
        """Return one more than the last offset of each batch."""
        return self.base_offsets + self.field("last_offset_delta") + 1

    def has(self, attribute: int) -> Flags:
        """Return which batches have an attribute bit."""
        flags: Flags = (self._headers["attributes"] & attribute) != 0
        return flags

    @property
    def codecs(self) -> Numbers:
        """Return the compression codecs: 0 for none, else as in `storage.compression`."""
        return self.field("attributes") & CODEC_MASK

    @property
    def is_control(self) -> Flags:
        """Return which batches contain markers."""
        return self.has(CONTROL)

    @property
    def is_transactional(self) -> Flags:
        """Return which batches belong to a transaction."""
        return self.has(TRANSACTIONAL)

    @property
    def is_log_append_time(self) -> Flags:
        """Return which batches use the header's timestamp for their records."""
        return self.has(LOG_APPEND_TIME)

    def select(self, chosen: Flags) -> "Frames":
        """Return the selected batches."""
        if chosen.all():
            return self
        return Frames(self.positions[chosen], self.end, self._headers.view(_OPAQUE)[chosen].view(HEADER))

    def header(self, index: int) -> BatchHeader:
        """Return a header in the daemon's form."""
        return BatchHeader(*(int(number) for number in self._headers[index]))


def read_frames(
    buffer: bytes | memoryview, at_least_offset: int = 0, *, check: bool = True
) -> tuple[Frames, Fault | None]:
    """Return the batches at the start of a buffer and the reason for their end, or None if they fill the buffer.

    Args:
        buffer: the bytes.
        at_least_offset: the lowest valid base offset.
        check: whether to verify checksums, with the rules of the daemon's `read_header` and `check_crc`.
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
