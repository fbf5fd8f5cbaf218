"""What the header of a batch says, read where it stands, of bytes that nobody has checked yet.

A broker refuses some batches before it looks at their checksum or contents, and says why; so it reads single fields
of what may be torn, of an older format, or no batch at all. Who has a sound batch reads its header as a whole
(`storage.batch.read_header`).

Source: Kafka's `ByteBufferLogInputStream`, `ProduceRequest.validateRecords`.
"""

import struct
from typing import Final

from storage.batch import CODEC_MASK, HEADER_BYTES, LENGTH_END, MAGIC, TRANSACTIONAL
from storage.errors import CorruptBatch

START_BYTES: Final = 17
"""From the base offset to the magic: what every format has in the same place."""
SMALLEST_LENGTH: Final = 14
"""That of a message of magic 0 without key and value."""

_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_ATTRIBUTES_LOW_AT: Final = 22
_COUNT_AT: Final = 57


def peek_size(records: bytes, position: int = 0) -> int | None:
    """The bytes of the batch, or message of an older format, that begins at `position`; None where no whole one
    does. Raises CorruptBatch for a length that none can have.
    """
    available = len(records) - position
    if available < START_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(records, position + _LENGTH_AT)
    if length < SMALLEST_LENGTH:
        raise CorruptBatch(f"a batch cannot be of length {length}", position)
    size: int = length + LENGTH_END
    return size if size <= available else None


def peek_magic(batch: bytes) -> int:
    """The format of what begins here; 2 is that of batches. At least `START_BYTES` must be there."""
    return batch[_MAGIC_AT]


def peek_codec(batch: bytes) -> int:
    """The codec of a batch whose header is there, as in `compression`."""
    return batch[_ATTRIBUTES_LOW_AT] & CODEC_MASK


def peek_count(batch: bytes) -> int:
    """How many records a batch, whose header is there, says that it holds; it may be lying."""
    (count,) = _LENGTH.unpack_from(batch, _COUNT_AT)
    return int(count)


def peek_is_transactional(records: bytes) -> bool:
    """Whether these bytes begin with the header of a batch that says it is part of a transaction."""
    if len(records) < HEADER_BYTES or records[_MAGIC_AT] != MAGIC:
        return False
    return bool(records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL)
